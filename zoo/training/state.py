"""Everything that training changes, and that a saved state holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from zoo.errors import CheckpointError
from zoo.nn.contract import Seq2Seq
from zoo.registry.recipe import Recipe

COUNTERS = ("step", "epoch", "position", "seconds", "best", "best_step", "not_improved")


@dataclass
class TrainingState:
    """Weights, optimizer, exponential average and counters of a run.

    `average` has a tensor for each of the model's parameters, or none if the recipe does not
    average. `position` counts the batches of the current epoch, `seconds` the time of training, and
    `not_improved` the validations since the best one. `best` is that one's loss, or its BLEU if the
    recipe selects by BLEU, and `best_step` its update.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    average: list[Tensor] = field(default_factory=list)
    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    not_improved: int = 0

    @torch.no_grad()
    def update_average(self, decay: float) -> None:
        """Add the weights to the exponential average, at the end of an update.

        a ← d · a + (1 − d) · w, where d is `decay`, but at most (1 + step) / (10 + step), so that
        the first weights are soon forgotten; `step` is this update, which is not yet counted.
        """
        step = self.step + 1
        blend = get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))
        blend(self.average, [weight.detach() for weight in self.model.parameters()], None)

    def record_validation(self, recipe: Recipe, loss: float, bleu: float | None) -> bool:
        """Record a validation; return whether it is the best so far."""
        by_bleu = recipe.select == "bleu" and bleu is not None
        value = bleu if by_bleu and bleu is not None else loss
        better = self.best is None or (value > self.best if by_bleu else value < self.best)
        if better:
            self.best, self.best_step, self.not_improved = value, self.step, 0
        else:
            self.not_improved += 1
        return better

    def out_of_patience(self, recipe: Recipe) -> bool:
        """Return whether training stops early: too many validations without improvement."""
        return recipe.patience is not None and self.not_improved >= recipe.patience

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
        return {name: getattr(self, name) for name in COUNTERS}

    def set_counters(self, values: Mapping[str, Any]) -> None:
        """Take over what `counters` returned.

        Raises:
            CheckpointError: a counter is missing or not a number.
        """
        for name in COUNTERS:
            whole = name not in ("seconds", "best")
            kinds = (int,) if whole else (int, float)
            value = values.get(name)
            if type(value) not in kinds and not (name == "best" and value is None):
                raise CheckpointError("a state lacks a counter", f"{name} is {value!r}")
        for name in COUNTERS:
            setattr(self, name, values[name])
