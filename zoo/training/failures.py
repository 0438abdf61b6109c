"""Ends of a run that a person can do something about, told in one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from zoo.errors import TrainingError
from zoo.registry.recipe import Recipe
from zoo.training.group import Group

SHOWN = 8
"""Indices of a batch that a message names."""


class RunAwayError(TrainingError):
    """Loss, gradient or weights that are not finite: all processes see the same."""


def run_away(what: str, step: int, batch: str = "") -> RunAwayError:
    """Return the error of a loss, a gradient or weights that are not finite after an update."""
    return RunAwayError(
        f"{what} at update {step:,}",
        "; ".join(filter(None, [batch, "the last saved state is untouched"])),
        "Try a lower --set learning_rate, a longer --set warmup, or a smaller --set clip",
    )


def describe_batch(batches: Sequence[Tensor]) -> str:
    """Return the indices of an update's pairs in a few words."""
    indices = [i for batch in batches for i in batch.tolist()]
    more = ", …" if len(indices) > SHOWN else ""
    return f"its {len(indices)} pairs are {', '.join(map(str, indices[:SHOWN]))}{more}"


@contextlib.contextmanager
def explained(step: int, recipe: Recipe, group: Group, folder: Path) -> Iterator[None]:
    """Turn memory that runs out, and other processes that end, into errors that say what to do.

    Raises:
        TrainingError: instead of either.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if _out_of_memory(error):
            raise _smaller(step, recipe) from error
        if _connection(error, group):
            raise _alone(step, group, folder) from error
        raise


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "DefaultCPUAllocator" in str(error) or "not enough memory" in str(error)


def _smaller(step: int, recipe: Recipe) -> TrainingError:
    if recipe.batch_sentences:
        size, key = recipe.batch_sentences, "batch_sentences"
    else:
        size, key = recipe.batch_tokens, "batch_tokens"
    half, more = max(size // 2, 1), recipe.accumulate * 2
    return TrainingError(
        f"out of memory at update {step:,}",
        f"batches are of {key} = {size:,}",
        f"Begin again with --set {key}={half} --set accumulate={more}: updates of the same size, "
        "in parts half as large",
    )


def _connection(error: BaseException, group: Group) -> bool:
    words = ("Connection closed by peer", "Connection reset by peer", "gloo", "NCCL", "Broken pipe")
    lost = isinstance(error, dist.DistError) or any(word in str(error) for word in words)
    return group.size > 1 and lost


class LostProcessError(TrainingError):
    """Another process of the run has ended. `quiet` where another one tells of it."""

    quiet = False


def _alone(step: int, group: Group, folder: Path) -> LostProcessError:
    error = LostProcessError(
        f"another process of this run ended at update {step:,}",
        "no update can be made without it; the last saved state is whole",
        "torchrun --max-restarts N goes on from there by itself; or say --resume",
    )
    error.quiet = not speak_up(folder)
    return error


def speak_up(folder: Path) -> bool:
    """Tell whether this process is the first of a run that fails: it speaks for all."""
    start = (os.environ.get(f"TORCHELASTIC_{key}", "0") for key in ("RUN_ID", "RESTART_COUNT"))
    mark = folder / f"ended.{'.'.join(start)}.part"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True
