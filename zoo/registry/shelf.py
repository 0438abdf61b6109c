"""A shelf: the named things of one kind, each with the package that brings it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from zoo.errors import UnknownNameError

T = TypeVar("T")

BUILTIN = "seq2seq-zoo"
"""The distribution of the zoo itself, which brings what is built in."""


class Shelf(Mapping[str, T], Generic[T]):
    """Things of one kind by name. The first to bring a name keeps it; later ones are ignored.

    Args:
        kind: what one of them is called in messages: `metric`, `recipe`, …
        hint: what to do about an unknown name.
    """

    def __init__(self, kind: str, hint: str = "") -> None:
        self.kind, self.hint = kind, hint
        self.problems: list[str] = []
        self._values: dict[str, T] = {}
        self._owners: dict[str, str] = {}

    def add(self, name: str, value: T, owner: str = BUILTIN) -> None:
        """Add a thing; a name that is taken is ignored, and `problems` says whose won."""
        if name in self._values:
            self.problems.append(
                f"{self.kind} {name!r} of {owner} is ignored: {self._owners[name]} brings one of "
                "the same name"
            )
            return
        self._values[name], self._owners[name] = value, owner

    def find(self, name: str) -> T:
        """Return the thing of that name.

        Raises:
            UnknownNameError: there is none; near names are suggested.
        """
        if name not in self._values:
            raise UnknownNameError(self.kind, name, self._values, self.hint)
        return self._values[name]

    def owner(self, name: str) -> str:
        """Return who brings a name."""
        return self._owners[name]

    def __getitem__(self, name: str) -> T:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
