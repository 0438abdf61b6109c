"""JoeyNMT in `benchmarks/train.py`."""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from common import DROPOUT, SHAPES, SMOOTHING, VOCAB, Loss, measure
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from torch import Tensor, nn


def config(shape: str) -> dict[str, Any]:
    sizes = SHAPES[shape]
    if shape.startswith("transformer"):
        side = {
            "type": "transformer",
            "num_layers": sizes["layers"],
            "num_heads": sizes["heads"],
            "hidden_size": sizes["dim"],
            "ff_size": sizes["feedforward"],
            "dropout": DROPOUT,
            "layer_norm": "post",
            "embeddings": {"embedding_dim": sizes["dim"], "scale": True, "dropout": DROPOUT},
        }
        return {"tied_softmax": True, "encoder": side, "decoder": side}
    embeddings = {"embedding_dim": sizes["embedding"], "dropout": DROPOUT}
    shared = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": DROPOUT}
    encoder = {"hidden_size": sizes["encoder"], "bidirectional": True}
    decoder = {
        "hidden_size": sizes["hidden"],
        "hidden_dropout": DROPOUT,
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


def make(shape: str) -> tuple[nn.Module, Loss]:
    model = build_model(config(shape), vocabulary(), vocabulary())
    model.loss_function = ("crossentropy", SMOOTHING)
    assert len(model.src_vocab) == VOCAB

    def loss(source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        lengths = torch.full((len(source),), source.shape[1], device=source.device)
        target_mask = torch.ones_like(inputs, dtype=torch.bool)[:, None]
        source_mask = torch.ones_like(source, dtype=torch.bool)[:, None]
        # As `model(return_type="loss")`, without its count of correct tokens, which is not
        # part of training.
        logits = model._encode_decode(
            src=source, trg_input=inputs, src_mask=source_mask, src_length=lengths,
            trg_mask=target_mask,
        )[0]  # fmt: skip
        return model.loss_function(torch.log_softmax(logits, -1), trg=labels)

    return model, loss


if __name__ == "__main__":
    measure("joeynmt", version("joeynmt"), make)
