"""A shelf: named objects of one kind, each with its owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from zoo.errors import UnknownNameError, shown
from zoo.registry.owners import BUILTIN, Owner, Plugin

T = TypeVar("T")


class Shelf(Mapping[str, T], Generic[T]):
    """Things of one kind by name. The first to bring a name keeps it; later ones are ignored.

    Args:
        kind: the singular noun for one of them in messages: `metric`, `recipe`, …
        hint: the advice in the error about an unknown name.
        plural: the kind in the plural, as JSON keys and tables name it; by default with an s.
    """

    def __init__(self, kind: str, hint: str = "", plural: str = "") -> None:
        self.kind, self.hint, self.plural = kind, hint, plural or f"{kind}s"
        self.problems: list[str] = []
        self._values: dict[str, T] = {}
        self._owners: dict[str, Owner] = {}

    def add(self, name: str, value: T, owner: Owner = BUILTIN) -> None:
        """Add a thing; a taken name is ignored and reported in `problems`."""
        if name in self._values:
            self.problems.append(
                f"{self.kind} {name!r} of {owner} is ignored: {self._owners[name]} brings one of "
                "the same name"
            )
            return
        self._values[name], self._owners[name] = value, owner

    def find(self, name: str) -> T:
        """Return the thing called `name`.

        Raises:
            UnknownNameError: there is none; near names are suggested.
        """
        if not isinstance(name, str) or name not in self._values:
            given = name if isinstance(name, str) else shown(name)
            raise UnknownNameError(self.kind, given, self._values, self.hint)
        return self._values[name]

    def owner(self, name: str) -> Owner:
        """Return the owner of `name`; raise KeyError if the shelf has no such name."""
        return self._owners[name]

    def brought_by(self, plugin: Plugin) -> list[str]:
        """Return the names that a plugin brings, by itself or in its files."""
        return [name for name, owner in self._owners.items() if owner.plugin == plugin]

    def __getitem__(self, name: str) -> T:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
