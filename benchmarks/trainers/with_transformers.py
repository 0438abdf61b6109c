"""Hugging Face transformers in `benchmarks/train.py`: its Marian model."""

from __future__ import annotations

import torch
import transformers
from common import DROPOUT, SHAPES, SMOOTHING, SPECIAL, VOCAB, Loss, measure
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel
from transformers.trainer_pt_utils import LabelSmoother


def make(shape: str) -> tuple[nn.Module, Loss]:
    sizes = SHAPES[shape]
    config = MarianConfig(
        vocab_size=VOCAB,
        decoder_vocab_size=VOCAB,
        d_model=sizes["dim"],
        encoder_layers=sizes["layers"],
        decoder_layers=sizes["layers"],
        encoder_attention_heads=sizes["heads"],
        decoder_attention_heads=sizes["heads"],
        encoder_ffn_dim=sizes["feedforward"],
        decoder_ffn_dim=sizes["feedforward"],
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        share_encoder_decoder_embeddings=False,
        pad_token_id=0,
        eos_token_id=2,
        bos_token_id=1,
        decoder_start_token_id=1,
        forced_eos_token_id=2,
        use_cache=False,
    )
    model = MarianMTModel(config)
    smoother = LabelSmoother(epsilon=SMOOTHING)

    def loss(source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        out = model(input_ids=source, attention_mask=source >= SPECIAL, decoder_input_ids=inputs)
        return smoother(out, labels) * torch.tensor(labels.numel())

    return model, loss


measure("transformers", transformers.__version__, make)
