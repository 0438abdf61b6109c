"""The arguments of `zoo.train` as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from zoo.errors import ConfigError, shown

NewVocabulary = Literal["source", "target", "both"]
"""Whose tokenizer a tuned checkpoint learns again."""


def check_kinds(out: object, settings: object = None) -> None:
    """Make sure that a run's folder is a path, and that its settings are a mapping.

    Raises:
        ConfigError: one is not.
    """
    faults = []
    if not isinstance(out, str | PathLike):
        faults.append(f"out is {shown(out)}, not the path of a folder")
    if settings is not None and not isinstance(settings, Mapping):
        faults.append(f"settings is {shown(settings)}, not a mapping")
    elif settings and not all(isinstance(key, str) for key in settings):
        faults.append("settings has keys that are not text")
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
    new_vocabulary: NewVocabulary | None = None
    also_score: tuple[str, ...] = ()
    copies: tuple[Path, ...] = ()
    """Files of pairs that were given from Python; the run folder gets copies."""

    def check(self) -> None:
        """Make sure that the arguments can be meant.

        Raises:
            ConfigError: one is not of the values that it may have, or needs another.
        """
        faults = []
        if self.from_ is None:
            faults += [
                f"{name} needs from_" for name in ("new_vocabulary", "also_score")
                if getattr(self, name)
            ]  # fmt: skip
        sides = get_args(NewVocabulary)
        if self.new_vocabulary not in (None, *sides):
            faults.append(f"new_vocabulary is {self.new_vocabulary!r}, not {' or '.join(sides)}")
        limit = self.limit
        if limit is not None and (not isinstance(limit, int) or limit is True or limit < 1):
            faults.append(f"limit is {shown(limit)}, not a whole number of at least 1")
        if faults:
            raise ConfigError("this cannot be trained", "; ".join(faults))

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings, the seed among them."""
        return {**self.settings, **({} if self.seed is None else {"recipe.seed": self.seed})}

    @property
    def totals(self) -> dict[str, float | None]:
        """When to stop."""
        return {"steps": self.steps, "epochs": self.epochs, "minutes": self.minutes}
