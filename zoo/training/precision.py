"""What products are computed in, and by which kernels."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from zoo.data.batches import Batch, Corpus, shuffled_batches
from zoo.errors import ConfigError
from zoo.nn.contract import Seq2Seq
from zoo.registry.recipe import Recipe
from zoo.training.loss import training_loss

WORTH = 1.1
"""bf16 must be this much faster than float32 for `auto` to take it."""
TRIES = 3


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return what a forward pass runs in: weights stay float32, products are in bf16 if so said."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


class Choice(NamedTuple):
    """What `precision = "auto"` took, and the seconds of an update's two passes in each."""

    precision: str
    seconds: dict[str, float]

    def __str__(self) -> str:
        times = ", ".join(f"{1000 * took:.0f} ms in {name}" for name, took in self.seconds.items())
        return f"Precision {self.precision}: a batch takes {times}"


def choose(model: Seq2Seq, corpus: Corpus, recipe: Recipe) -> Choice:
    """Measure forward and backward of the first epoch's middle batch, and return the faster.

    Neither the weights nor the random generators are changed.
    """
    batches = shuffled_batches(
        corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, epoch=0
    )
    sizes = [int(corpus.target.lengths[indices].sum()) for indices in batches]
    middle = batches[sorted(range(len(sizes)), key=sizes.__getitem__)[len(sizes) // 2]]
    device = next(model.parameters()).device
    batch = corpus.batch(middle).to(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        seconds = {name: _measure(model, batch, recipe, name) for name in ("float32", "bf16")}
    faster = seconds["float32"] > WORTH * seconds["bf16"]
    return Choice("bf16" if faster else "float32", seconds)


def _measure(model: Seq2Seq, batch: Batch, recipe: Recipe, precision: str) -> float:
    """Return the seconds of the fastest of a few tries, the first not counted."""
    device, took = batch.source.device, []
    was_training = model.training
    model.train()
    for _ in range(TRIES + 1):
        wait(device)
        before = time.perf_counter()
        with autocast(device, precision):
            loss = training_loss(model, batch, recipe)
        loss.total.backward()
        wait(device)
        took.append(time.perf_counter() - before)
        model.zero_grad(set_to_none=True)
    model.train(was_training)
    return min(took[1:])


def wait(device: torch.device) -> None:
    """Wait until what was asked of a GPU is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def compiled(forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Return the network's forward run by kernels that torch.compile makes on first use.

    Raises:
        ConfigError: on the processor these are compiled C++, and there is no compiler.
    """
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++")):
        raise ConfigError(
            "compile = true needs a C++ compiler",
            "neither g++ nor clang++ is on the path",
            "Install one, or train without --compile",
        )
    return torch.compile(forward, dynamic=True)
