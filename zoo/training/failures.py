"""Failures of a run that a user can do something about, each in one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist

from zoo.errors import PluginError, TrainingError, ZooError, out_of_memory
from zoo.registry.open_shelf import OpenShelf, name_of
from zoo.registry.recipe import Recipe
from zoo.training.process_group import ProcessGroup
from zoo.training.run_folder import RunFolder
from zoo.training.schedule import FIXED_WARMUP


class NotFiniteError(TrainingError):
    """Loss, gradient or weights that are not finite: every process raises the same."""


class LostProcessError(TrainingError):
    """Another process of the run has ended."""


def not_finite(
    what: str, step: int, recipe: Recipe, folder: RunFolder, batch: str = ""
) -> NotFiniteError:
    """Return the error of a loss, a gradient or weights that are not finite.

    `batch` describes the pairs of the update whose loss or gradient it is: that of the first update
    is the initial weights', which no learning rate has changed.
    """
    if batch and step == 1:
        why = f"no weight has changed yet, so the network or its loss is broken; {batch}"
        return NotFiniteError(
            f"{what} at update 1", why, "Correct it, or report it to the author of the network"
        )
    saved = "the last saved state is unchanged" if folder.saved_states() else ""
    why = "; ".join(filter(None, [batch, saved]))
    return NotFiniteError(f"{what} at update {step:,}", why, calmer(recipe))


def calmer(recipe: Recipe) -> str:
    """Return the settings of a recipe that make smaller updates, with their values."""
    schedule = name_of(recipe.schedule)
    rate = "factor" if schedule == "noam" else "learning_rate"
    ways = [f"a lower --set {rate} than {getattr(recipe, rate):g}"]
    if schedule in FIXED_WARMUP:
        ways.append(f"a longer --set warmup than {recipe.warmup:,}")
    clip = recipe.clip
    ways.append("--set clip=1" if clip is None else f"a smaller --set clip than {clip:g}")
    return f"Try {', '.join(ways[:-1])}{',' * (len(ways) > 2)} or {ways[-1]}"


@contextlib.contextmanager
def one_report(group: ProcessGroup, folder: Path) -> Iterator[None]:
    """Mark an error of one of several processes, or of all of them, so that one reports it."""
    try:
        yield
    except ZooError as error:
        if group.size > 1 and not isinstance(error, LostProcessError):  # that one is marked
            first = first_to_report(folder)
            # What is not finite is the same in all processes; the first one writes its file.
            error.quiet = not (group.is_first if isinstance(error, NotFiniteError) else first)
        raise


@contextlib.contextmanager
def explain_failures(
    step: int, recipe: Recipe, group: ProcessGroup, folder: Path
) -> Iterator[None]:
    """Turn running out of memory, and the end of another process, into errors with advice.

    Raises:
        TrainingError: instead of either.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if out_of_memory(error):
            raise _smaller_batches(step, recipe) from error
        if group.size > 1 and _names_connection(error):
            raise _lost_process(step, folder) from error
        raise


@contextlib.contextmanager
def blaming(shelf: OpenShelf[Any], name: str) -> Iterator[None]:
    """Turn what an entry raises into an error that names it, unless memory or a process is lost.

    Raises:
        PluginError: the entry of a plugin raised something else.
    """
    try:
        with shelf.blaming(name):
            yield
    except PluginError as error:
        cause = error.__cause__
        if isinstance(cause, RuntimeError | MemoryError) and (
            out_of_memory(cause) or _names_connection(cause)
        ):
            raise cause from None
        raise


def _smaller_batches(step: int, recipe: Recipe) -> TrainingError:
    if recipe.batch_sentences:
        size, key = recipe.batch_sentences, "batch_sentences"
    else:
        size, key = recipe.batch_tokens, "batch_tokens"
    half, more = max(size // 2, 1), recipe.accumulate * 2
    return TrainingError(
        f"out of memory at update {step:,}",
        f"the recipe has {key} = {size:,}",
        f"Begin again with --set {key}={half} --set accumulate={more}: updates of the same size, "
        "computed in batches of half the size",
    )


def _names_connection(error: BaseException) -> bool:
    words = ("Connection closed by peer", "Connection reset by peer", "gloo", "NCCL", "Broken pipe")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def _lost_process(step: int, folder: Path) -> LostProcessError:
    error = LostProcessError(
        f"another process of this run ended at update {step:,}",
        "updates need all processes; the last saved state is whole",
        "torchrun --max-restarts N restarts and resumes by itself; or use --resume",
    )
    error.quiet = not first_to_report(folder)
    return error


def first_to_report(folder: Path) -> bool:
    """Return whether no other process of a failing run has called this: one reports for all."""
    start = (os.environ.get(f"TORCHELASTIC_{key}", "0") for key in ("RUN_ID", "RESTART_COUNT"))
    mark = folder / f"ended.{'.'.join(start)}.part"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True
