"""The zoo in `benchmarks/train.py`."""

from __future__ import annotations

from zoo.cli.process import configure

configure()  # as in the zoo's command line, before torch is imported

import time
from collections.abc import Callable
from typing import Any

import torch
from common import DROPOUT, LENGTH, ROWS, SHAPES, SMOOTHING, VOCAB, Loss, measure
from torch import Tensor, nn

import zoo
from zoo.data.batches import Batch
from zoo.training.benchmark import SIZE, count_flops
from zoo.training.objective import teacher_forcing
from zoo.training.passes import Passes, RecordedPasses

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        shape: (
            "transformer-6x6",
            {
                "encoder_layers": SHAPES[shape]["layers"],
                "decoder_layers": SHAPES[shape]["layers"],
                "dim": SHAPES[shape]["dim"],
                "heads": SHAPES[shape]["heads"],
                "feedforward_dim": SHAPES[shape]["feedforward"],
                "share": "target",
                "output_bias": False,
            },
        )
        for shape in ("transformer-256", "transformer-512")
    },
    **{
        f"lstm-{score}": (
            "rnnsearch",
            {
                "embedding_dim": 256,
                "encoder_dim": 256,
                "hidden_dim": 512,
                "attention_dim": 512,
                "score": score,
                "readout": "tanh",
                "readout_dim": 512,
            },
        )
        for score in ("additive", "dot")
    },
    "convs2s-iwslt": ("convs2s-iwslt", {}),
}


PASSES: dict[str, Passes] = {}


def make(shape: str) -> tuple[nn.Module, Loss]:
    name, config = CONFIGS[shape]
    model = zoo.create_model(
        name, source_vocab=VOCAB, target_vocab=VOCAB, **{**config, "dropout": DROPOUT}
    )

    def loss(source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        return teacher_forcing(model, as_batch(source, inputs, labels), SMOOTHING).total

    return model, loss


def as_batch(source: Tensor, inputs: Tensor, labels: Tensor) -> Batch:
    target = torch.cat([inputs[:, :1], labels], 1)
    indices = torch.arange(len(source), device=source.device)
    return Batch(source, source != 0, target, indices)


def gpu_gradients(
    model: nn.Module, precision: str, source: Tensor, inputs: Tensor, labels: Tensor
) -> Tensor:
    """Compute gradients as the zoo's trainer does on a GPU; return the loss per token."""
    if precision not in PASSES:
        PASSES[precision] = RecordedPasses(
            lambda batch: teacher_forcing(model, batch, SMOOTHING),
            list(model.parameters()), source.device, precision, [model],
        )  # fmt: skip
    passes = PASSES[precision]
    passes.clear()
    return passes(as_batch(source, inputs, labels), labels.numel())[0]


def throughput(loss: Callable[[], Tensor], precision: str) -> dict[str, float]:
    """Return the multiplications' operations per target token, and per second of a large one.

    The seconds are the processor's, of the fastest of ten multiplications.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(SIZE, SIZE).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(10):
        before = time.process_time()
        a @ b
        seconds.append(time.process_time() - before)
    return {
        "operations_per_token": count_flops(loss) / (ROWS * LENGTH),
        "matmul_flops": 2 * SIZE**3 / min(seconds),
    }


if __name__ == "__main__":
    measure("zoo", zoo.__version__, make, throughput, gpu_gradients)
