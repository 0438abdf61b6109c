"""The steps of a worker's jobs, between which these can be stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import TypeVar

Side = TypeVar("Side", bound=Sized)

OnStep = Callable[[], None]
"""Called between the steps of a job; it raises `StoppedError` where no client waits."""

STEP_LENGTH = 1_024
"""Characters, or tokens, of sources and targets that are scored in one step."""


class StoppedError(Exception):
    """Work that was given up before its end."""


def score_in_steps(
    score: Callable[[Sequence[Side], Sequence[Side]], list[list[float]]],
    sources: Sequence[Side],
    targets: Sequence[Side],
    on_step: OnStep,
) -> list[list[float]]:
    """Return what `score` does for sources and targets, computed in steps."""
    scores: list[list[float]] = []
    for rows in _steps(
        [len(one) + len(other) for one, other in zip(sources, targets, strict=True)]
    ):
        on_step()
        scores += score(sources[rows], targets[rows])
    return scores


def _steps(lengths: Sequence[int]) -> Iterator[slice]:
    """Yield the rows of each step; one that is longer than a step is a step of its own."""
    start = total = 0
    for row, length in enumerate(lengths):
        if row > start and total + length > STEP_LENGTH:
            yield slice(start, row)
            start, total = row, 0
        total += length
    if lengths:
        yield slice(start, len(lengths))
