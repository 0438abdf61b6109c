"""How fast updates go, beside what the machine could do."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from zoo.nn.linear import linear
from zoo.training.loss import training_loss
from zoo.training.precision import wait
from zoo.training.trainer import Trainer, Window

WARM_UP = 3
SIZE = 2048
"""Rows and columns of the matrix product that stands for what the machine can do."""


class Speed(NamedTuple):
    """Target tokens a second; floating-point operations a second of the updates' products, of the
    best matrix product in the same run, and the one as a share of the other."""

    tokens_per_second: float
    updates_per_second: float
    flops: float
    peak_flops: float
    utilisation: float


def measure(trainer: Trainer, updates: int) -> Speed:
    """Make updates on the first batches of an epoch and time them.

    Operations are counted as the products of one pass each way need, nothing twice.
    """
    batches, device = trainer.batches, trainer.group.device
    wanted = [batches[i % len(batches)] for i in range(WARM_UP + updates)]
    rate = trainer.recipe.learning_rate
    trainer.model.train()
    window = Window(0.0)
    for indices in wanted[:WARM_UP]:
        trainer.update([indices], rate, window)
    wait(device)
    before = time.perf_counter()
    for indices in wanted[WARM_UP:]:
        trainer.update([indices], rate, window)
    wait(device)
    seconds = time.perf_counter() - before
    last = trainer.corpus.batch(wanted[-1]).to(device)
    counted = operations(lambda: training_loss(trainer.model, last, trainer.recipe).total)
    trainer.model.zero_grad(set_to_none=True)
    per_token = counted / (last.target.numel() - len(last.target))
    lengths = trainer.corpus.target.lengths
    padded = sum(int(lengths[rows].max() - 1) * len(rows) for rows in wanted[WARM_UP:])
    real = sum(int(lengths[rows].sum()) - len(rows) for rows in wanted[WARM_UP:])
    flops = per_token * padded / seconds
    peak = matrix_product(device, trainer.recipe.precision)
    return Speed(real / seconds, updates / seconds, flops, peak, flops / peak)


def operations(loss: Callable[[], Tensor]) -> int:
    """Return the floating-point operations of a loss's products, forward and backward."""
    # A recurrent net's operations are not counted where one kernel runs all of it.
    with warnings.catch_warnings():
        # Torch's switch for that warns of another setting, which it writes back unchanged.
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            loss().backward()
    return counter.get_total_flops()


def matrix_product(device: torch.device, precision: str) -> float:
    """Return the floating-point operations a second of the best of some products."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(SIZE, SIZE, device=device).to(kind) for _ in range(2))
    best = float("inf")
    for _ in range(10):
        wait(device)
        before = time.perf_counter()
        linear(a, b)
        wait(device)
        best = min(best, time.perf_counter() - before)
    return 2 * SIZE**3 / best
