"""Settings of foreign checkpoints: of their kinds, within limits, and refused by name."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from zoo.interop.reasons import Reasons

MOST_VALUES = 100_000
"""The most values that a file of settings describes, aliases counted as often as they are used."""

LARGE = 10**12
"""From here on an integer is no setting."""


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 60, 60
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 4

    def repr1(self, value: Any, level: int) -> str:
        if type(value).__module__ != "builtins":
            return f"<{type(value).__name__}>"
        if is_large(value):
            return "<a large number>"
        return super().repr1(value, level)


def is_large(value: Any) -> bool:
    """Return whether a value is an integer that no setting has, which Python may not print."""
    return isinstance(value, int) and abs(value) >= LARGE


_BRIEF = _Brief()


def brief(value: Any) -> str:
    """Return a value for a message: short, whatever the value holds."""
    return _BRIEF.repr(value)


@dataclass(frozen=True)
class Settings:
    """The settings of a network.

    Attributes:
        settings: their values by name, as on the command line.
        reasons: every fault so far.
    """

    settings: Mapping[str, Any]
    reasons: Reasons

    def get(self, name: str, default: Any) -> Any:
        """Return a setting, of the kind that the default is."""
        value = self.settings.get(name)
        if value is None:
            return default
        if isinstance(default, bool):
            return brief(value).strip("'").lower() in ("1", "true")
        if isinstance(default, int | float):
            try:
                number = type(default)(value)
                if not is_large(number):
                    return number
            except (TypeError, ValueError, OverflowError):
                pass
            self.reasons.add(f"its setting {name} is {brief(value)}, not a number")
            return default
        if isinstance(default, str) and not isinstance(value, str):
            return brief(value)
        return value

    def refuse(self, **allowed: Any) -> None:
        """Record each setting that has another value than the one that is expressed exactly."""
        for name, value in allowed.items():
            setting = self.settings.get(name)
            if setting not in (None, value) and not (value is False and setting in (0, "")):
                self.reasons.add(f"its setting {name} = {brief(setting)} has no counterpart")


def read_yaml(text: str) -> Any:
    """Return the plain values of a YAML document.

    Raises:
        ValueError: it is not YAML, has tags that construct objects, a number that is too long, or
            more than 100,000 values, such as by aliases of aliases.
    """
    content, large = None, False
    try:
        loader = yaml.SafeLoader(text)  # it refuses some characters here
        node = loader.get_single_node()
        large = node is not None and _values(node, {}) > MOST_VALUES
        if node is not None and not large:
            content = loader.construct_document(node)
    except Exception as error:  # constructors of YAML raise arbitrary built-in exceptions
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"is not YAML: {reason}") from None
    if large:
        raise ValueError(f"describes more than {MOST_VALUES:,} values")
    return content


def named_in_yaml(text: str) -> list[str]:
    """Return the words of a YAML document as names of files, without their folders."""
    return [word.rpartition("/")[2] for word in re.split(r"[\s'\",\[\]{}]+", text)]


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node describes, at most one more than are allowed."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MOST_VALUES + 1  # of a node that contains itself
    parts = node.value if isinstance(node, yaml.CollectionNode) else []
    count = 1
    for part in parts:
        for each in part if isinstance(part, tuple) else (part,):
            count = min(count + _values(each, known), MOST_VALUES + 1)
    known[id(node)] = count
    return count
