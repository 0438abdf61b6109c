"""fairseq in `benchmarks/train.py`."""

from __future__ import annotations

import warnings
from argparse import Namespace
from importlib.metadata import version
from types import SimpleNamespace

import torch
from common import DROPOUT, SHAPES, SMOOTHING, VOCAB, Loss, measure
from torch import Tensor, nn

warnings.filterwarnings("ignore")

from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import Dictionary
from fairseq.models.fconv import FConvModel, fconv_iwslt_de_en
from fairseq.models.lstm import LSTMModel
from fairseq.models.lstm import base_architecture as lstm_defaults
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import base_architecture as transformer_defaults


def dictionary() -> Dictionary:
    words = Dictionary()
    for index in range(VOCAB - len(words)):
        words.add_symbol(f"w{index}")
    assert len(words) == VOCAB
    return words


def make(shape: str) -> tuple[nn.Module, Loss]:
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    sizes = SHAPES[shape]
    if shape.startswith("transformer"):
        args = Namespace(
            encoder_embed_dim=sizes["dim"], decoder_embed_dim=sizes["dim"],
            encoder_ffn_embed_dim=sizes["feedforward"], decoder_ffn_embed_dim=sizes["feedforward"],
            encoder_layers=sizes["layers"], decoder_layers=sizes["layers"],
            encoder_attention_heads=sizes["heads"], decoder_attention_heads=sizes["heads"],
            share_decoder_input_output_embed=True, dropout=DROPOUT, max_source_positions=1024,
            max_target_positions=1024,
        )  # fmt: skip
        transformer_defaults(args)
        model = TransformerModel.build_model(args, task)
    elif shape == "lstm-dot":
        args = Namespace(
            encoder_embed_dim=sizes["embedding"], decoder_embed_dim=sizes["embedding"],
            encoder_hidden_size=sizes["encoder"], decoder_hidden_size=sizes["hidden"],
            decoder_out_embed_dim=sizes["hidden"], encoder_bidirectional=True, encoder_layers=1,
            decoder_layers=1, dropout=DROPOUT, criterion="label_smoothed_cross_entropy",
        )  # fmt: skip
        lstm_defaults(args)
        model = LSTMModel.build_model(args, task)
    else:
        args = Namespace(dropout=DROPOUT, max_source_positions=1024, max_target_positions=1024)
        fconv_iwslt_de_en(args)
        model = FConvModel.build_model(args, task)

    def loss(source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        lengths = torch.full((len(source),), source.shape[1], device=source.device)
        out = model(source, lengths, inputs)
        scores = model.get_normalized_probs(out, log_probs=True)
        return label_smoothed_nll_loss(
            scores.view(-1, scores.shape[-1]), labels.view(-1), SMOOTHING, ignore_index=1
        )[0]

    return model, loss


if __name__ == "__main__":
    measure("fairseq", version("fairseq-fixed"), make)
