"""The precision of matrix products, and torch.compile."""

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
from zoo.training.objective import training_loss

SPEEDUP = 1.1
"""How much faster than float32 bf16 must be for `auto` to choose it."""
TRIES = 3


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


def choose_precision(model: Seq2Seq, corpus: Corpus, recipe: Recipe) -> PrecisionChoice:
    """Time forward and backward of a batch of median size, and choose the faster precision.

    Neither the weights nor the random generators are changed.
    """
    batches = shuffled_batches(
        corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, epoch=0
    )
    sizes = [int(corpus.target.lengths[indices].sum()) for indices in batches]
    median = batches[sorted(range(len(sizes)), key=sizes.__getitem__)[len(sizes) // 2]]
    device = next(model.parameters()).device
    batch = corpus.batch(median).to(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        seconds = {name: _seconds(model, batch, recipe, name) for name in ("float32", "bf16")}
    faster = seconds["float32"] > SPEEDUP * seconds["bf16"]
    return PrecisionChoice("bf16" if faster else "float32", seconds)


def _seconds(model: Seq2Seq, batch: Batch, recipe: Recipe, precision: str) -> float:
    """Return the seconds of the fastest of a few tries, the first not counted."""
    device, seconds = batch.source.device, []
    was_training = model.training
    model.train()
    for _ in range(TRIES + 1):
        synchronize(device)
        before = time.perf_counter()
        with autocast(device, precision):
            loss = training_loss(model, batch, recipe)
        loss.total.backward()
        synchronize(device)
        seconds.append(time.perf_counter() - before)
        model.zero_grad(set_to_none=True)
    model.train(was_training)
    return min(seconds[1:])


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def compile_forward(forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Return the network's forward pass, to be compiled by torch.compile on first use.

    Raises:
        ConfigError: the device is a CPU, for which torch generates C++, and there is no compiler.
    """
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++")):
        raise ConfigError(
            "compile = true needs a C++ compiler",
            "neither g++ nor clang++ is on the path",
            "Install one, or train without --compile",
        )
    return torch.compile(forward, dynamic=True)
