"""How far a run has come: what besides weights and optimiser a state must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from zoo.errors import CheckpointError
from zoo.registry.recipe import Recipe


@dataclass
class Progress:
    """Counters. `position` counts an epoch's batches; `worse` the validations since the best one.

    `best` is that one's loss, or BLEU if the recipe selects by it, and `best_step` its update.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    worse: int = 0

    def judge(self, recipe: Recipe, loss: float, bleu: float | None) -> bool:
        """Take in a validation; return whether no other was better."""
        by_bleu = recipe.select == "bleu" and bleu is not None
        value = bleu if by_bleu and bleu is not None else loss
        better = self.best is None or (value > self.best if by_bleu else value < self.best)
        if better:
            self.best, self.best_step, self.worse = value, self.step, 0
        else:
            self.worse += 1
        return better

    def share(self, recipe: Recipe, epoch_length: int) -> float:
        """Return the share of the run that is over, by whichever of its stops is nearest."""
        shares = [0.0]
        if recipe.steps:
            shares.append(self.step / recipe.steps)
        if recipe.epochs:
            shares.append((self.epoch + self.position / epoch_length) / recipe.epochs)
        if recipe.minutes:
            shares.append(self.seconds / 60 / recipe.minutes)
        return max(shares)

    def impatient(self, recipe: Recipe) -> bool:
        """Tell whether so many validations in a row were no better that training is to stop."""
        return recipe.patience is not None and self.worse >= recipe.patience

    def as_json(self) -> dict[str, Any]:
        """Return the counters as plain values."""
        return asdict(self)

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str) -> Self:
        """Read what `as_json` gave.

        Raises:
            CheckpointError: a counter is missing or no number.
        """
        names = [field.name for field in fields(cls)]
        for name in names:
            whole = name not in ("seconds", "best")
            kinds = (int,) if whole else (int, float)
            value = values.get(name)
            if type(value) not in kinds and not (name == "best" and value is None):
                raise CheckpointError(f"{where} lacks a counter", f"{name} is {value!r}")
        return cls(**{name: values[name] for name in names})
