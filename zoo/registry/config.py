"""Configurations: validated, frozen values that know their keys."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.errors import ConfigError, near
from zoo.registry.parameters import LengthLimits, Table

Width = Annotated[int, Field(ge=1, le=65_536)]
"""A dimension in a config, bounded so that no file can ask for the impossible."""

Depth = Annotated[int, Field(ge=1, le=512)]
"""A number of layers in a config, bounded likewise."""


class Settings(BaseModel):
    """Frozen values that know all of their keys: the base of configs and recipes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate plain values, the same way whether from TOML, JSON or `--set`.

        Raises:
            ConfigError: names every wrong key and value at once; `where` says what was read.
        """
        try:
            return cls.model_validate_json(json.dumps(values))
        except ValidationError as error:
            faults = [cls._fault(dict(fault)) for fault in error.errors()]
            more = [f"and {len(faults) - 20} more"] if len(faults) > 20 else []
            raise ConfigError(where, "; ".join(faults[:20] + more)) from None

    @classmethod
    def _fault(cls, fault: dict[str, Any]) -> str:
        key = ".".join(str(part) for part in fault["loc"])[:100]
        if fault["type"] == "extra_forbidden":
            guess = near(key, cls.model_fields)
            known = ", ".join(sorted(cls.model_fields))
            return f"unknown key {key!r} " + (
                f"(did you mean {' or '.join(guess)}?)" if guess else f"(known: {known})"
            )
        message = str(fault["msg"]).removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        given = repr(fault["input"])
        given = given if len(given) <= 100 else f"{given[:100]}…"
        return f"{key} = {given}: {message}" if key else message


class Config(Settings):
    """What sets one network of an architecture apart from another.

    A subclass gives each field a description, and answers the questions below by arithmetic
    alone: no torch.
    """

    @classmethod
    @abstractmethod
    def example(cls) -> Self:
        """Return a tiny config, for the laws."""

    @abstractmethod
    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table for vocabularies of these sizes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The model's width, by which schedules such as Noam's scale the rate."""

    @property
    def one_vocabulary(self) -> bool:
        """Whether source and target must share one vocabulary."""
        return False

    @property
    def length_limits(self) -> LengthLimits:
        """The longest source and target, in tokens, special ones included."""
        return LengthLimits()


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Read `key=value` texts; a value that is not JSON is a string.

    Raises:
        ConfigError: names every text without an equals sign.
    """
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise ConfigError("settings are key=value", f"not so {', '.join(map(repr, wrong))}")
    settings = {}
    for text in given:
        key, _, value = text.partition("=")
        try:
            settings[key.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            settings[key.strip()] = value
    return settings
