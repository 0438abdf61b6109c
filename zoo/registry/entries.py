"""What plugins declare for the open shelves: named classes or functions, which a recipe can name.

An entry's object is declared by its import path, `"package.module:Name"`, and imported on first
use. It is called with what its kind gives, by position, and with its options, by name: every
further parameter of its signature is an option, whose annotation is its type.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from zoo.registry.imports import fault_of_path, import_object

E = TypeVar("E", bound="Entry")


@dataclass(frozen=True)
class Entry:
    """A named class or function at `path`; each kind of entry is a subclass.

    `kind` is the noun for one of them, `plural` that for several, by default with an s, and `given`
    names what its object is called with.
    """

    name: str
    summary: str
    path: str

    kind: ClassVar[str] = "entry"
    plural: ClassVar[str] = ""
    given: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[tuple[str, ...]] = ()
    """Keys beside `name` and the options that a recipe's table may have, each a number."""

    def fault(self) -> str:
        """Return what is wrong with this declaration, or an empty string."""
        for key in ("name", "summary", "path"):
            if not isinstance(getattr(self, key), str):
                return f"its {key} is {reprlib.repr(getattr(self, key))}, not a string"
        if fault := fault_of_path(self.path):
            return fault
        if not re.fullmatch(r"[\w.-]+", self.name):
            return f"its name is {self.name!r}: letters, digits, _, - and . are allowed"
        return ""

    def load(self) -> Callable[..., Any]:
        """Import and return the class or function.

        Raises:
            PluginError: it cannot be imported.
        """
        loaded: Callable[..., Any] = import_object(self.path, f"{self.kind} {self.name!r}")
        return loaded


@dataclass(frozen=True)
class Schedule(Entry):
    """A learning rate schedule.

    The object is called once with the recipe, and returns a function of the progress of the run:
    its attributes are `step`, the update, counted from 1; `done`, the fraction of the run that is
    over; `width`, the model's width; `epoch`; and `not_improved`, the validations since the best
    one. The function returns the learning rate. If it has `state_dict` and `load_state_dict`, its
    state is saved with the run's.
    """

    kind = "schedule"
    given = ("recipe",)


@dataclass(frozen=True)
class Optimizer(Entry):
    """An optimizer.

    The object is called with groups of parameters, each a dictionary with `params` and
    `weight_decay`, and with the recipe; it returns a `torch.optim.Optimizer`.
    """

    kind = "optimizer"
    given = ("groups", "recipe")


@dataclass(frozen=True)
class Initialization(Entry):
    """A way to draw a network's first weights.

    The object is called with the network and its parameter table, without gradients and with
    torch's default generator seeded, and changes the weights in place.
    """

    kind = "initialization"
    given = ("network", "table")


@dataclass(frozen=True)
class Objective(Entry):
    """A training objective, or a part of one.

    The object is called once with a `zoo.training.Setup` and the network, and returns a function of
    a `zoo.training.TrainingBatch`, which may be a `torch.nn.Module` with weights of its own. The
    function returns the loss, a scalar: a sum over the rows of the batch, which the trainer divides
    by the number of target tokens of the update. If it has `state_dict` and `load_state_dict`, its
    state is saved with the run's.
    """

    kind = "objective"
    given = ("setup", "network")
    numbers = ("weight",)


@dataclass(frozen=True)
class Augmentation(Entry):
    """An augmentation, which changes the corpus of each epoch or the inputs of each batch.

    The object is called once with a `zoo.training.Setup`, and returns a
    `zoo.training.Augmentation`.
    """

    kind = "augmentation"
    given = ("setup",)
