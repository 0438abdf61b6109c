"""JoeyNMT's side of `benchmarks/decode.py`: our Transformer as its own; its LSTM by size."""

from __future__ import annotations

import logging
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import BEGIN, END, PADDING, THREADS, UNKNOWN, VOCAB

from common import Batch, Decode, Job, cut, measure, padded  # isort: skip
from joeynmt.batch import Batch as JoeyBatch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from torch import Tensor, nn

logging.disable()
THEIRS = {PADDING: 1, BEGIN: 2, END: 3, UNKNOWN: 0}
"""JoeyNMT's numbers of the special tokens."""


def config(job: Job) -> dict[str, Any]:
    sizes = job.sizes
    if job.shape.startswith("transformer"):
        side = {
            "type": "transformer",
            "num_layers": sizes["layers"],
            "num_heads": sizes["heads"],
            "hidden_size": sizes["dim"],
            "ff_size": sizes["feedforward"],
            "dropout": 0.0,
            "layer_norm": "post",
            "embeddings": {"embedding_dim": sizes["dim"], "scale": True, "dropout": 0.0},
        }
        return {"tied_softmax": False, "encoder": side, "decoder": side}
    embeddings = {"embedding_dim": sizes["embedding"], "dropout": 0.0}
    shared = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": 0.0}
    encoder = {"hidden_size": sizes["encoder"], "bidirectional": True}
    decoder = {
        "hidden_size": sizes["hidden"],
        "hidden_dropout": 0.0,
        "attention": "bahdanau",
        "input_feeding": True,
        "init_hidden": "bridge",
    }
    return {
        "encoder": {**shared, **encoder, "embeddings": embeddings},
        "decoder": {**shared, **decoder, "embeddings": embeddings},
    }


def vocabulary() -> Vocabulary:
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, lang_tags=[],
    )  # fmt: skip
    return Vocabulary([f"w{i}" for i in range(VOCAB - 4)], special)


def reordered(rows: Tensor) -> Tensor:
    """Return a vocabulary's rows in JoeyNMT's order."""
    ours = {theirs: token for token, theirs in THEIRS.items()}
    return rows[[ours.get(token, token) for token in range(VOCAB)]]


def fill(model: nn.Module, arrays: dict[str, Tensor], layers: int) -> None:
    """Put this project's Transformer into JoeyNMT's."""
    found = {
        "src_embed.lut.weight": reordered(arrays["source_embedding.weight"]),
        "trg_embed.lut.weight": reordered(arrays["target_embedding.weight"]),
        "decoder.output_layer.weight": reordered(arrays["output.weight"]),
    }
    names = {"inner": "feed_forward.pwff_layer.0", "outer": "feed_forward.pwff_layer.3"}
    names |= {"feedforward_norm": "feed_forward.layer_norm"}
    across = {"cross.query": "src_trg_att.q_layer", "cross.out": "src_trg_att.output_layer"}
    across |= {"cross_norm": "dec_layer_norm"}
    sides = (("encoder", "src_src_att", "layer_norm"), ("decoder", "trg_trg_att", "x_layer_norm"))
    for number in range(layers):
        for side, own, norm in sides:
            ours, theirs = f"{side}.{number}", f"{side}.layers.{number}"
            every = {**names, "attention.out": f"{own}.output_layer", "attention_norm": norm}
            for kind in ("weight", "bias"):
                for name, other in (every | across if side == "decoder" else every).items():
                    found[f"{theirs}.{other}.{kind}"] = arrays[f"{ours}.{name}.{kind}"]
                parts = arrays[f"{ours}.attention.project.{kind}"].chunk(3)
                for letter, part in zip("qkv", parts, strict=True):
                    found[f"{theirs}.{own}.{letter}_layer.{kind}"] = part
                if side == "decoder":
                    parts = arrays[f"{ours}.cross.project.{kind}"].chunk(2)
                    for letter, part in zip("kv", parts, strict=True):
                        found[f"{theirs}.src_trg_att.{letter}_layer.{kind}"] = part
    missing, unknown = model.load_state_dict(found, strict=False)
    assert not unknown, unknown
    assert set(missing) == {"encoder.pe.pe", "decoder.pe.pe"}, missing  # its positions are ours


def make(job: Job) -> tuple[Decode, int]:
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model = build_model(config(job), vocabulary(), vocabulary()).eval()
    if job.shape.startswith("transformer"):
        with np.load(job.weights) as file:
            fill(model, {name: torch.from_numpy(file[name]) for name in file}, job.sizes["layers"])
    parameters = sum(weight.numel() for weight in model.parameters())

    @torch.inference_mode()
    def decode(batch: Batch) -> Batch:
        source = padded([[THEIRS.get(t, t) for t in tokens] for tokens in batch], THEIRS[PADDING])
        given = JoeyBatch(
            src=source,
            src_length=(source != THEIRS[PADDING]).sum(1),
            src_prompt_mask=None,
            trg=None,
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=torch.device("cpu"),
            pad_index=THEIRS[PADDING],
            eos_index=THEIRS[END],
            is_train=False,
        )
        found, _, _ = search(
            model=model,
            batch=given,
            max_output_length=job.most,
            beam_size=job.beam,
            beam_alpha=0.0,
            min_output_length=job.least - 1,  # its lengths do not count the end token
        )
        return [cut(tokens, THEIRS[END]) for tokens in found.tolist()]

    return decode, parameters


measure("joeynmt", version("joeynmt"), make)
