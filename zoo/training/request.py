"""The arguments of `zoo.train` as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from zoo.errors import ConfigError, shown
from zoo.training.recipe_layers import TOTALS

Sides = Literal["source", "target", "both"]
"""Whose tokenizer a tuned checkpoint learns again, or extends."""


def check_items(settings: Mapping[str, object] | None, **named: list[object]) -> None:
    """Make sure that the settings have names, and that lists of names or paths hold these alone.

    Raises:
        ConfigError: it lists all that are of another kind.
    """
    faults = []
    if settings and not all(isinstance(key, str) for key in settings):
        faults.append("settings has keys that are not text")
    for name, values in named.items():
        wrong = [value for value in values if not isinstance(value, str | PathLike)]
        faults += [f"{name} has {shown(value)}, not a name or a path" for value in wrong[:1]]
    if faults:
        raise ConfigError("this cannot be trained", "; ".join(faults))


@dataclass(frozen=True)
class TrainingRequest:
    """A request to train a model; `zoo.train` documents the fields."""

    model: str
    data: str
    out: str | PathLike[str]
    limit: int | None = None
    validation: str | None = None
    recipe: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    seed: int | None = None
    device: str = "auto"
    shard: bool = False
    from_: str | PathLike[str] | None = None
    new_vocabulary: Sides | None = None
    extend_vocabulary: Sides | None = None
    also_score: tuple[str, ...] = ()
    copies: tuple[Path, ...] = ()
    """Files of pairs that were given from Python; the run folder gets copies."""

    def check(self) -> None:
        """Make sure that the arguments can be meant.

        Raises:
            ConfigError: one is missing, is not of the values that it may have, or needs another.
        """
        if not self.model and self.from_ is None:
            raise ConfigError(
                "there is nothing to train", "no model is given", "Name one, or from_"
            )
        faults = []
        if self.from_ is None:
            tuning = ("new_vocabulary", "extend_vocabulary", "also_score")
            faults += [f"{name} needs from_" for name in tuning if getattr(self, name)]
        sides = get_args(Sides)
        for name in ("new_vocabulary", "extend_vocabulary"):
            if (value := getattr(self, name)) not in (None, *sides):
                faults.append(f"{name} is {value!r}, not {' or '.join(sides)}")
        if self.new_vocabulary and self.extend_vocabulary:
            faults.append("new_vocabulary and extend_vocabulary are both given")
        limit = self.limit
        if limit is not None and (not isinstance(limit, int) or limit is True or limit < 1):
            faults.append(f"limit is {shown(limit)}, not a whole number of at least 1")
        if faults:
            raise ConfigError("this cannot be trained", "; ".join(faults))

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings, with the seed and the totals that are given."""
        given = {name: getattr(self, name) for name in ("seed", *TOTALS)}
        return {**self.settings, **{f"recipe.{k}": v for k, v in given.items() if v is not None}}
