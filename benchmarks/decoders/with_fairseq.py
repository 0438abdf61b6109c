"""fairseq in `benchmarks/decode.py`: the Transformer with the zoo's weights, others by size."""

from __future__ import annotations

from argparse import Namespace
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import BEGIN, END, PADDING, POSITIONS, THREADS, VOCAB

from common import Batch, Decode, Job, before_end, measure, padded  # isort: skip
from fairseq.data import Dictionary
from fairseq.models.fconv import FConvModel, fconv_iwslt_de_en
from fairseq.models.lstm import LSTMModel
from fairseq.models.lstm import base_architecture as lstm_defaults
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import base_architecture as transformer_defaults
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

TO_FAIRSEQ = {PADDING: 1, BEGIN: 0}
"""fairseq's ids of the padding and begin tokens; all others are the same."""


def dictionary() -> Dictionary:
    words = Dictionary()
    for index in range(VOCAB - len(words)):
        words.add_symbol(f"w{index}")
    assert (len(words), words.pad(), words.bos(), words.eos()) == (VOCAB, 1, 0, END)
    return words


def create(job: Job, task: Any) -> nn.Module:
    sizes = job.sizes
    if job.shape.startswith("transformer"):
        args = Namespace(
            encoder_embed_dim=sizes["dim"], decoder_embed_dim=sizes["dim"],
            encoder_ffn_embed_dim=sizes["feedforward"], decoder_ffn_embed_dim=sizes["feedforward"],
            encoder_layers=sizes["layers"], decoder_layers=sizes["layers"],
            encoder_attention_heads=sizes["heads"], decoder_attention_heads=sizes["heads"],
            share_decoder_input_output_embed=False, max_source_positions=POSITIONS - 2,
            max_target_positions=POSITIONS - 2,
        )  # fmt: skip
        transformer_defaults(args)
        return TransformerModel.build_model(args, task)
    if job.shape == "lstm-dot":
        args = Namespace(
            encoder_embed_dim=sizes["embedding"], decoder_embed_dim=sizes["embedding"],
            encoder_hidden_size=sizes["encoder"], decoder_hidden_size=sizes["hidden"],
            decoder_out_embed_dim=sizes["hidden"], encoder_bidirectional=True, encoder_layers=1,
            decoder_layers=1, criterion="cross_entropy",
        )  # fmt: skip
        lstm_defaults(args)
        model = LSTMModel.build_model(args, task)
        model.encoder.left_pad = False
        return model
    args = Namespace(max_source_positions=1024, max_target_positions=1024)
    fconv_iwslt_de_en(args)
    return FConvModel.build_model(args, task)


def reordered(rows: Tensor) -> Tensor:
    """Return the rows of an embedding in the order of fairseq's ids."""
    order = [TO_FAIRSEQ.get(token, token) for token in range(VOCAB)]
    return rows[order]


def fill(model: nn.Module, arrays: dict[str, Tensor], layers: int) -> None:
    """Copy the weights of the zoo's Transformer into fairseq's."""
    weights = {
        "encoder.embed_tokens.weight": reordered(arrays["source_embedding.weight"]),
        "decoder.embed_tokens.weight": reordered(arrays["target_embedding.weight"]),
        "decoder.output_projection.weight": reordered(arrays["output.weight"]),
    }
    names = {"attention_norm": "self_attn_layer_norm", "inner": "fc1", "outer": "fc2"}
    names |= {"feedforward_norm": "final_layer_norm", "attention.out": "self_attn.out_proj"}
    cross = {"cross.query": "encoder_attn.q_proj", "cross.out": "encoder_attn.out_proj"}
    cross |= {"cross_norm": "encoder_attn_layer_norm"}
    for number in range(layers):
        for side in ("encoder", "decoder"):
            source, target = f"{side}.{number}", f"{side}.layers.{number}"
            for kind in ("weight", "bias"):
                for name, other in (names | cross if side == "decoder" else names).items():
                    weights[f"{target}.{other}.{kind}"] = arrays[f"{source}.{name}.{kind}"]
                parts = arrays[f"{source}.attention.project.{kind}"].chunk(3)
                for letter, part in zip("qkv", parts, strict=True):
                    weights[f"{target}.self_attn.{letter}_proj.{kind}"] = part
                if side == "decoder":
                    parts = arrays[f"{source}.cross.project.{kind}"].chunk(2)
                    for letter, part in zip("kv", parts, strict=True):
                        weights[f"{target}.encoder_attn.{letter}_proj.{kind}"] = part
    state = model.state_dict()
    missing = state.keys() - weights.keys()
    assert all("version" in name for name in missing), missing
    model.load_state_dict({**state, **weights})  # strict: an unknown name is an error
    table = torch.cat([torch.zeros(2, arrays["positions"].shape[1]), arrays["positions"]])
    model.encoder.embed_positions.weights = table  # positions start at padding + 1
    model.decoder.embed_positions.weights = table


def make(job: Job) -> tuple[Decode, int]:
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    words = dictionary()
    model = create(job, SimpleNamespace(source_dictionary=words, target_dictionary=words)).eval()
    if job.shape.startswith("transformer"):
        with np.load(job.weights) as file:
            fill(model, {name: torch.from_numpy(file[name]) for name in file}, job.sizes["layers"])
    model.to(job.device, torch.bfloat16 if job.precision == "bf16" else torch.float32)
    generator = SequenceGenerator(
        [model],
        words,
        beam_size=job.beam,
        max_len_a=0,
        max_len_b=job.most - 1,  # lengths in fairseq exclude the end token
        min_len=job.least - 1,
        normalize_scores=False,
    )
    parameters = sum(weight.numel() for weight in model.parameters())

    @torch.inference_mode()
    def decode(batch: Batch) -> Batch:
        source = padded(
            batch[::-1], TO_FAIRSEQ[PADDING]
        )  # recurrent networks need the longest first
        source = source.to(job.device)
        lengths = (source != TO_FAIRSEQ[PADDING]).sum(1)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        results = generator.generate([model], sample, bos_token=TO_FAIRSEQ[BEGIN])
        return [before_end(hypotheses[0]["tokens"].tolist()) for hypotheses in results[::-1]]

    return decode, parameters


measure("fairseq", version("fairseq-fixed"), make)
