"""The built-in learning rate schedules, and the one that a recipe names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from zoo.registry.open_shelf import name_of
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry

FIXED_WARMUP = ("constant", "inverse_sqrt", "cosine", "noam")
"""Schedules whose warm-up is a number of updates."""


@dataclass(frozen=True)
class Progress:
    """How far a run is, at an update.

    `step` is the update, counted from 1; `done` the fraction of the run that is over, 0 to 1;
    `width` the model's width; `epoch` the passes over the data so far; and `not_improved` the
    validations since the best one.
    """

    step: int
    done: float
    width: int
    epoch: int = 0
    not_improved: int = 0


Rate = Callable[[Progress], float]


def make_schedule(registry: Registry, recipe: Recipe) -> CheckedRate:
    """Return the schedule that a recipe names; what it returns is checked at each update.

    Raises:
        UnknownNameError: there is no schedule of that name.
        ConfigError: its options are not valid.
        PluginError: it is broken.
    """
    shelf, name = registry.schedules, name_of(recipe.schedule)
    rate = shelf.make(recipe.schedule, recipe)
    if not callable(rate):
        raise shelf.broken(name, f"it made {rate!r}, which cannot be called with the progress")
    return CheckedRate(registry, name, rate)


class CheckedRate:
    """A schedule whose rates are checked."""

    def __init__(self, registry: Registry, name: str, rate: Rate) -> None:
        self.shelf, self.name, self.rate = registry.schedules, name, rate

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update.

        Raises:
            PluginError: the schedule raises, or the rate is negative or not finite.
        """
        with self.shelf.blaming(self.name):
            rate = self.rate(progress)
        if not isinstance(rate, float | int) or not 0 <= rate < math.inf:
            raise self.shelf.broken(self.name, f"its rate of update {progress.step} is {rate!r}")
        return rate


@dataclass(frozen=True)
class Constant:
    """Rise linearly over the warm-up, then stay."""

    recipe: Recipe

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update."""
        recipe = self.recipe
        return recipe.learning_rate * min(1.0, progress.step / max(recipe.warmup, 1))


class InverseSqrt(Constant):
    """Rise linearly over the warm-up, then decay as step^−½."""

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update."""
        warmup = max(self.recipe.warmup, 1)
        return super().__call__(progress) * math.sqrt(warmup / max(progress.step, warmup))


class Cosine(Constant):
    """Rise linearly over the warm-up, and decay along a half cosine to zero.

    The cosine spans the whole run, with the warm-up, so that the rate stays a little below the
    recipe's `learning_rate`.
    """

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update."""
        rate = super().__call__(progress)
        return rate * 0.5 * (1 + math.cos(math.pi * min(progress.done, 1.0)))


@dataclass(frozen=True)
class OneCycle:
    """Rise over the first tenth of the run, and decay along a half cosine to zero (Smith 2018).

    Both begin with the run and follow the fraction done, so that the rate stays below 0.98 of the
    recipe's `learning_rate`, and a run that is slower than expected has a shorter warm-up.
    """

    recipe: Recipe

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update."""
        rise = min(1.0, 0.1 + 9 * progress.done)
        decay = 0.5 * (1 + math.cos(math.pi * min(progress.done, 1.0)))
        return self.recipe.learning_rate * rise * decay


@dataclass(frozen=True)
class Noam:
    """factor · width^−½ · min(step^−½, step · warmup^−³⁄²) (Vaswani et al. 2017, eq. 3)."""

    recipe: Recipe

    def __call__(self, progress: Progress) -> float:
        """Return the rate of an update."""
        warmup, step = max(self.recipe.warmup, 1), progress.step
        return self.recipe.factor * progress.width**-0.5 * min(step**-0.5, step * warmup**-1.5)
