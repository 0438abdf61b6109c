"""The speed of updates, relative to a large matrix multiplication on the same machine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from zoo.nn.linear import linear
from zoo.training.precision import synchronize
from zoo.training.trainer import Trainer
from zoo.training.window import Window

WARM_UP = 3
SIZE = 2048
"""Rows and columns of the large matrices."""


class Speed(NamedTuple):
    """Speed of updates.

    `flops` is the floating-point operations per second of the updates' matrix multiplications,
    `peak_flops` that of a large matrix multiplication in the same run, and `utilization` their
    ratio.
    """

    tokens_per_second: float
    flops: float
    peak_flops: float
    utilization: float


def time_updates(trainer: Trainer, updates: int) -> Speed:
    """Make updates with the first batches of an epoch, and time them.

    Operations are those of the matrix multiplications of one forward and one backward pass.
    """
    batches, device, recipe = trainer.batches, trainer.group.device, trainer.plan.recipe
    used = [batches[i % len(batches)] for i in range(WARM_UP + updates)]
    trainer.model.train()
    window = Window(0.0)
    for indices in used[:WARM_UP]:
        trainer.update([indices], recipe.learning_rate, window)
    synchronize(device)
    before = time.perf_counter()
    for indices in used[WARM_UP:]:
        trainer.update([indices], recipe.learning_rate, window)
    synchronize(device)
    seconds = time.perf_counter() - before
    last = trainer.corpus.batch(used[-1]).to(device)
    counted = count_flops(lambda: trainer.loss(last).total)
    trainer.model.zero_grad(set_to_none=True)
    per_token = counted / (last.target.numel() - len(last.target))
    lengths = trainer.corpus.target.lengths
    padded = sum(int(lengths[rows].max() - 1) * len(rows) for rows in used[WARM_UP:])
    real = sum(int(lengths[rows].sum()) - len(rows) for rows in used[WARM_UP:])
    flops = per_token * padded / seconds
    peak = matmul_flops(device, recipe.precision)
    return Speed(real / seconds, flops, peak, flops / peak)


def count_flops(loss: Callable[[], Tensor]) -> int:
    """Return the operations of a loss's matrix multiplications, forward and backward."""
    # Torch cannot count a recurrent network's operations if one oneDNN kernel computes it all.
    with warnings.catch_warnings():
        # Switching oneDNN off warns about another setting, which is written back unchanged.
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            loss().backward()
    return counter.get_total_flops()


def matmul_flops(device: torch.device, precision: str) -> float:
    """Return the operations per second of the fastest of ten large matrix multiplications."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(SIZE, SIZE, device=device).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(10):
        synchronize(device)
        before = time.perf_counter()
        linear(a, b)
        synchronize(device)
        best = min(best, time.perf_counter() - before)
    return 2 * SIZE**3 / best
