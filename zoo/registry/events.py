"""What happens while a model trains, and what a plugin can do about it. torch is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Report:
    """How training goes: loss per target token, and target tokens a second.

    `gradient_norm` is that of the last update before clipping, if the recipe clips; `done` the
    share of the run that is over.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float | None
    tokens_per_second: float
    done: float
    minutes: float


@dataclass(frozen=True)
class Sample:
    """A held-out source, its reference, and what the model makes of it by greedy search."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Validation:
    """How well the weights that would be released do on the validation split.

    `validation_loss` is per target token, in nats, without label smoothing; `bleu` is sacreBLEU's,
    of greedy translations, if the recipe asks for it; `best` tells whether no validation before
    was better.
    """

    step: int
    epoch: int
    validation_loss: float
    bleu: float | None
    best: bool
    samples: tuple[Sample, ...]
    minutes: float


@dataclass(frozen=True)
class Note:
    """Something that a person should know, and that ends nothing."""

    step: int
    text: str


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop; it can be resumed."""

    step: int


Event = Report | Validation | Note | Stopped


class Callback:
    """What a plugin does while a model trains: the hook `zoo_callbacks` returns some.

    Each method does nothing until it is overridden. One that raises is told, and its callback left
    out of the rest of the run.
    """

    def begin(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Training begins, or goes on: the run's folder, and its model, data and recipe."""

    def report(self, report: Report) -> None:
        """Some updates were made."""

    def validation(self, validation: Validation) -> None:
        """The validation split was tried."""

    def end(self) -> None:
        """Training is over for now, however it ended."""
