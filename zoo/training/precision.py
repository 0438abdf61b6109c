"""The precision of matrix products."""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple

import torch

from zoo.data.batches import Batch, Corpus, shuffled_batches
from zoo.registry.recipe import Recipe
from zoo.training.objective import TrainingLoss

SPEEDUP = 1.1
"""How much faster than float32 bf16 must be for `auto` to choose it."""
TRIES = 3
PRECISIONS = ("float32", "bf16")


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return the context of a forward pass: with bf16, products are in bf16, weights in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


class PrecisionChoice(NamedTuple):
    """What `precision = "auto"` chose, and the seconds of a batch's two passes in each."""

    precision: str
    seconds: dict[str, float]

    def __str__(self) -> str:
        times = ", ".join(f"{1000 * took:.0f} ms in {name}" for name, took in self.seconds.items())
        return f"Precision {self.precision}: a batch takes {times}"


def choose_precision(loss: TrainingLoss, corpus: Corpus, recipe: Recipe) -> PrecisionChoice:
    """Time forward and backward of a batch of median size, and choose the faster precision.

    Tries take turns, so that a change of the machine's speed meets both precisions.

    Neither the weights nor the random generators are changed.
    """
    batches = shuffled_batches(
        corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, epoch=0
    )
    sizes = [int(corpus.target.lengths[indices].sum()) for indices in batches]
    median = batches[sorted(range(len(sizes)), key=sizes.__getitem__)[len(sizes) // 2]]
    device = next(loss.parameters()).device
    batch = corpus.batch(median).to(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        tries = [_seconds(loss, batch, name) for _ in range(TRIES + 1) for name in PRECISIONS]
    # The first try of each is not counted: it allocates memory and chooses kernels.
    seconds = {name: min(tries[2 + i :: 2]) for i, name in enumerate(PRECISIONS)}
    faster = seconds["float32"] > SPEEDUP * seconds["bf16"]
    return PrecisionChoice("bf16" if faster else "float32", seconds)


def _seconds(loss: TrainingLoss, batch: Batch, precision: str) -> float:
    """Return the seconds of one try; on a CPU those of its processor, shared by its threads.

    Processor time is the same on a loaded machine, where other programs take turns.
    """
    device = batch.source.device
    was_training = loss.training
    loss.train()
    synchronize(device)
    before = _clock(device)
    with autocast(device, precision):
        total = loss(batch).total
    total.backward()
    synchronize(device)
    seconds = _clock(device) - before
    loss.zero_grad(set_to_none=True)
    loss.train(was_training)
    return seconds


def _clock(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time() / torch.get_num_threads()
    return time.perf_counter()


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
