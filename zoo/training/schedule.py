"""Learning rate schedules by name. A new one is a function here, with an entry on the shelf."""

from __future__ import annotations

import math
from collections.abc import Callable

from zoo.registry.recipe import Recipe
from zoo.registry.shelf import Shelf

Schedule = Callable[[Recipe, int, int, float], float]

SCHEDULES: Shelf[Schedule] = Shelf("schedule")
"""Each returns the rate of a recipe, a step, the model's width and the fraction done."""


def learning_rate(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Return the learning rate of update `step`, counted from 1.

    Args:
        recipe: it names the schedule, and has the schedule's values.
        step: the update.
        width: the model's width, by which Noam's schedule scales.
        done: the fraction of the run that is over, 0 to 1, by which the cosine decays.

    Raises:
        UnknownNameError: there is no schedule of that name.
    """
    return SCHEDULES.find(recipe.schedule)(recipe, step, width, done)


def constant(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Rise linearly over the warm-up, then stay."""
    return recipe.learning_rate * min(1.0, step / max(recipe.warmup, 1))


def inverse_sqrt(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Rise linearly over the warm-up, then decay as step^−½."""
    warmup = max(recipe.warmup, 1)
    return constant(recipe, step, width, done) * math.sqrt(warmup / max(step, warmup))


def cosine(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Rise linearly over the warm-up, and decay along a half cosine to zero."""
    rate = constant(recipe, step, width, done)
    return rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def one_cycle(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Rise over the first tenth of the run, and decay along a half cosine to zero (Smith 2018).

    Both follow the fraction done: a run that is slower than expected has a shorter warm-up.
    """
    rise = min(1.0, 0.1 + 9 * done)
    return recipe.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def noam(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Return factor · width^−½ · min(step^−½, step · warmup^−³⁄²) (Vaswani et al. 2017, eq. 3)."""
    warmup = max(recipe.warmup, 1)
    return recipe.factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)


SCHEDULES.add("constant", constant)
SCHEDULES.add("noam", noam)
SCHEDULES.add("inverse_sqrt", inverse_sqrt)
SCHEDULES.add("cosine", cosine)
SCHEDULES.add("one_cycle", one_cycle)
