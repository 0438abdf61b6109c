"""Learning rates by step."""

from __future__ import annotations

import math

from zoo.registry.recipe import Recipe


def learning_rate(recipe: Recipe, step: int, width: int, done: float) -> float:
    """Return the rate of update `step`, counted from 1.

    Args:
        width: the model's, by which Noam's schedule scales.
        done: the share of the run that is over, 0 to 1, by which the cosine falls.

    `noam` is factor · width^−½ · min(step^−½, step · warmup^−³⁄²) (Vaswani et al. 2017, section
    5.3). The others rise evenly to `learning_rate` over the warm-up, then stay (`constant`), fall
    as the root of the step (`inverse_sqrt`), or along a half cosine to zero (`cosine`).
    """
    warmup = max(recipe.warmup, 1)
    if recipe.schedule == "noam":
        return recipe.factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    rate = recipe.learning_rate * min(1.0, step / warmup)
    if recipe.schedule == "inverse_sqrt":
        return rate * math.sqrt(warmup / max(step, warmup))
    if recipe.schedule == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return rate
