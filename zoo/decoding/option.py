"""One option of a search: its declaration, and the check of its value; imports no torch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from zoo.errors import shown
from zoo.registry.open_shelf import parse_named

T = TypeVar("T")

PLAIN = (int, float, bool, str, NoneType)
"""Python's own types of one value."""


class Limits(NamedTuple):
    """The range of a number: `at_least` and `at_most` are inclusive, `above` is not."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf

    def contain(self, value: float) -> bool:
        """Return whether a number is finite and within the limits."""
        within = self.at_least <= value <= self.at_most and value > self.above
        return within and abs(value) < 1e300  # some integers are beyond every float

    def __str__(self) -> str:
        """Return the limits in words: ` above 0 and at most 1`."""
        bounds = zip(("of at least", "above", "at most"), self, strict=True)
        parts = [f"{name} {bound:,}" for name, bound in bounds if math.isfinite(bound)]
        return " and ".join(parts)


def declared(default: T, help: str, limits: Limits | None = None, flag: str = "") -> T:
    """Return a field of a dataclass of options with its help text and the limits of its value.

    `flag` is the option of a value that names an entry; the others have the name of their field.
    """
    return field(default=default,
                 metadata={"help": help, "limits": limits or Limits(), "flag": flag})  # fmt: skip


class Option(NamedTuple):
    """A field of `Search`: its name, type, default, help text and limits.

    Attributes:
        kind: `int`, `float`, `bool` or `str`; the type of one item where `repeated`.
        choices: the values that a `str` may have; empty if it may have any.
        optional: whether None is a value.
        repeated: whether the value is a tuple.
        word: the flag's name, if a value names an entry of a shelf; empty otherwise.
    """

    name: str
    kind: type
    choices: tuple[str, ...]
    optional: bool
    repeated: bool
    default: object
    help: str
    limits: Limits
    word: str = ""

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return f"--{self.word or self.name.replace('_', '-')}"

    def plain(self, value: Any) -> Any:
        """Return a value as one of Python's own types, a list as a tuple; any other unchanged.

        Numbers of other libraries, such as `numpy.int64` and `numpy.float32`, become int or float.
        """
        if self.repeated and isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return tuple(plain_number(item, whole=True) for item in value)
        return plain_number(value, whole=self.kind is not float)

    def error(self, value: Any) -> str | None:
        """Return what a wrong value must be, or None for a valid one."""
        value = self.plain(value)
        if self.word and value is not None:
            items = value if self.repeated else (value,)
            whole = isinstance(items, tuple) and all(isinstance(item, str) for item in items)
            try:
                for item in items if whole else ():
                    parse_named(item)
            except ValueError as error:
                return f"{error}, not {shown(value)}"
            return None if whole else f"a name, or a tuple of names, not {shown(value)}"
        if self.repeated:
            valid = isinstance(value, tuple) and all(
                isinstance(item, int | str) and not isinstance(item, bool) for item in value
            )
            return None if valid else f"a tuple of token ids and tokens, not {shown(value)}"
        if value is None and self.optional:
            return None
        if self.kind is bool:
            return None if isinstance(value, bool) else f"true or false, not {shown(value)}"
        if self.kind is str:
            valid = isinstance(value, str) and value in self.choices
            return None if valid else f"{' or '.join(self.choices)}, not {shown(value)}"
        types = int if self.kind is int else int | float
        if isinstance(value, types) and not isinstance(value, bool) and self.limits.contain(value):
            return None
        what = "an integer" if self.kind is int else "a number"
        return f"{f'{what} {self.limits}'.strip()}, not {shown(value)}"


def plain_number(value: Any, *, whole: bool = True) -> Any:
    """Return a number or truth value of any library as Python's own; any other value unchanged.

    Args:
        value: the value.
        whole: whether only integers are numbers here.
    """
    if type(value) in PLAIN:
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") == "b" and value.ndim == 0:
        return bool(value)  # numpy's
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    if not whole:
        with contextlib.suppress(OverflowError):  # a fraction may be beyond every float
            return float(value)
    return value


def described(name: str, kind: Any, default: object, metadata: Mapping[str, Any]) -> Option:
    """Return a field's option from its type hint."""
    repeated = get_origin(kind) is tuple
    optional = NoneType in get_args(kind)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if repeated or choices:
        kind = str
    elif optional:
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    more = (metadata["help"], metadata["limits"], metadata["flag"])
    return Option(name, kind, choices, optional, repeated, default, *more)
