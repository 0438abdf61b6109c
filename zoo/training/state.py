"""Everything that training changes, and that a saved state holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from zoo.errors import CheckpointError, shown
from zoo.nn.contract import Seq2Seq
from zoo.registry.recipe import Recipe
from zoo.training.parts import Parts

LARGEST = 2**48
"""From here on a number is no counter."""

LARGEST_LOSS = float(2**128)
"""From here on float32 has no loss."""

COUNTERS = ("step", "epoch", "position", "seconds", "best", "best_step", "not_improved")
LATER_COUNTERS = {"cooldown_start": 0, "finished": 0}
"""Counters that states of earlier versions lack, with their values there."""


@dataclass
class TrainingState:
    """Weights, optimizer, exponential average and counters of a run.

    `weights` are all that the optimizer updates, by name: the model's, and those of objectives.
    `parts` are the schedule and the objectives, which may have states. `average` has a tensor for
    each of the model's parameters, or none if the recipe does not average. `position` counts the
    batches of the current epoch, `seconds` the time of training, and `not_improved` the validations
    since the best one. `best` is that one's loss or score, whichever the recipe selects by,
    and `best_step` its update. `cooldown_start` is the update at which patience ran out and the
    rate began to decay, or 0. `finished` is 1 once a callback has ended the run, else 0.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    weights: Mapping[str, nn.Parameter]
    parts: Parts
    average: list[Tensor] = field(default_factory=list)
    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    not_improved: int = 0
    cooldown_start: int = 0
    finished: int = 0

    @torch.no_grad()
    def update_average(self, decay: float) -> None:
        """Add the weights to the exponential average, at the end of an update.

        a ← d · a + (1 − d) · w, where d is `decay`, but at most (1 + step) / (10 + step), so that
        the first weights are soon forgotten; `step` is this update, which is not yet counted.
        """
        step = self.step + 1
        blend = get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))
        blend(self.average, [weight.detach() for weight in self.model.parameters()], None)

    def record_validation(self, recipe: Recipe, value: float, lower_is_better: bool = True) -> bool:
        """Record a validation; return whether no earlier one was better by more than tolerance.

        `value` is the loss, or the score that the recipe selects by. Of equal ones the last is
        chosen: its weights have learned more.
        """
        best = value if self.best is None else self.best
        gain = best - value if lower_is_better else value - best
        better = self.best is None or gain > 0
        if better:
            self.best, self.not_improved = value, 0
        else:
            self.not_improved += 1
        chosen = -gain <= recipe.tolerance * abs(best)
        if chosen:
            self.best_step = self.step
        return chosen

    def out_of_patience(self, recipe: Recipe) -> bool:
        """Return whether there were too many validations without improvement."""
        return recipe.patience is not None and self.not_improved >= recipe.patience

    def begin_cooldown(self, recipe: Recipe) -> bool:
        """Begin to decay the rate if patience has run out; return whether this began it."""
        if not recipe.cooldown or self.cooldown_start or not self.out_of_patience(recipe):
            return False
        self.cooldown_start = self.step
        return True

    def cooldown(self, recipe: Recipe) -> float:
        """Return the fraction of the cooldown that is over: 0 before it begins, at the end 1."""
        if not self.cooldown_start:
            return 0.0
        length = max(round(recipe.cooldown * self.cooldown_start), 1)
        return (self.step - self.cooldown_start) / length

    def fraction_done(self, recipe: Recipe, epoch_length: int) -> float:
        """Return the fraction of the run that is over, by the total that is reached first."""
        fractions = [0.0]
        if recipe.steps:
            fractions.append(self.step / recipe.steps)
        if recipe.epochs:
            fractions.append((self.epoch + self.position / epoch_length) / recipe.epochs)
        if recipe.minutes:
            fractions.append(self.seconds / 60 / recipe.minutes)
        return max(fractions)

    def counters(self) -> dict[str, Any]:
        """Return the counters as plain values."""
        return {name: getattr(self, name) for name in (*COUNTERS, *LATER_COUNTERS)}

    def set_counters(self, values: Mapping[str, Any]) -> None:
        """Take over what `counters` returned.

        Raises:
            CheckpointError: a counter is missing or not a number.
        """
        values = {**LATER_COUNTERS, **values}
        for name in (*COUNTERS, *LATER_COUNTERS):
            whole = name not in ("seconds", "best")
            kinds = (int,) if whole else (int, float)
            value: Any = values.get(name)
            if name == "best" and value is None:
                continue
            lowest, largest = (0, LARGEST) if name != "best" else (-LARGEST_LOSS, LARGEST_LOSS)
            if type(value) not in kinds or not lowest <= value < largest:
                raise CheckpointError("a state lacks a counter", f"{name} is {shown(value)}")
        for name in (*COUNTERS, *LATER_COUNTERS):
            setattr(self, name, values[name])
