"""What training reports, and the callbacks of plugins. torch is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Report:
    """The progress of training: loss per target token in nats, and target tokens per second.

    `losses` are the parts of the loss that are the network's own, by name.

    `gradient_norm` is that of the last update before clipping, if the recipe clips; `done` is the
    fraction of the run that is over.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float | None
    tokens_per_second: float
    done: float
    minutes: float
    losses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A source of the validation split, its reference, and the model's greedy translation."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Validation:
    """The validation result of the weights that would be released now.

    `validation_loss` is per target token, in nats, without label smoothing; `bleu` and `chrf` are
    sacreBLEU's, of greedy translations, if the recipe asks for them; `exact_match` is how many of
    these in a hundred equal their references; `scores` are those of another metric that the recipe
    selects by; `best` is whether no earlier validation was better.
    """

    step: int
    epoch: int
    validation_loss: float
    bleu: float | None
    best: bool
    samples: tuple[Sample, ...]
    minutes: float
    chrf: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    exact_match: float | None = None


@dataclass(frozen=True)
class Note:
    """A message for the user; training goes on."""

    step: int
    text: str


@dataclass(frozen=True)
class Stopped:
    """The run was stopped on request; it can be resumed."""

    step: int


Event = Report | Validation | Note | Stopped


class Run(Protocol):
    """A run as callbacks see it: nothing that they are given changes it."""

    @property
    def weights(self) -> Mapping[str, Any]:
        """Copies of the network's weights by name, each a tensor made when it is read."""
        ...

    @property
    def optimizer_state(self) -> Mapping[str, Any]:
        """Copies of the optimizer's tensors by name, `WEIGHT/KEY`, made when they are read."""
        ...

    def model(self) -> Any:
        """Return a copy of the network in evaluation mode."""
        ...

    def stop(self, reason: str) -> None:
        """End the run after the next update, as if its totals were reached."""
        ...


class Callback:
    """Code that runs while a model trains; the hook `zoo_callbacks` returns callbacks.

    Each method does nothing until it is overridden. If one raises, the error is reported and the
    callback is not called again in this run. torch's default generators are restored after each
    call.
    """

    run: Run
    """The run, from `begin` on."""

    def begin(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Training begins or is resumed: the run's folder, and its model, data and recipe."""

    def report(self, report: Report) -> None:
        """A report on some updates is ready."""

    def validation(self, validation: Validation) -> None:
        """A validation is finished."""

    def end(self) -> None:
        """Training has ended: finished, stopped or failed."""
