"""What plugins declare for the open shelves: named classes or functions, which a recipe can name.

An entry's object is declared by its import path, `"package.module:Name"`, and imported on first
use. It is called with what its kind gives, by position, and with its options, by name: every
further parameter of its signature is an option, whose annotation is its type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from zoo.registry.imports import import_object

E = TypeVar("E", bound="Entry")


@dataclass(frozen=True)
class Entry:
    """A named class or function at `path`; each kind of entry is a subclass.

    `kind` is the noun for one of them, and `given` names what its object is called with.
    """

    name: str
    summary: str
    path: str

    kind: ClassVar[str] = "entry"
    given: ClassVar[tuple[str, ...]] = ()
    reserved: ClassVar[tuple[str, ...]] = ("name",)
    """Keys of a table of options that are not the object's own."""

    def fault(self) -> str:
        """Return what is wrong with this declaration, or an empty string."""
        for key in ("name", "summary", "path"):
            if not isinstance(getattr(self, key), str):
                return f"its {key} is {getattr(self, key)!r}, not a string"
        module, _, name = self.path.partition(":")
        if not module or not name:
            return f"its path is {self.path!r}, not 'package.module:Name'"
        return "" if self.name else "it has no name"

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
