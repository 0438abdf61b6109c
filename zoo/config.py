"""Configurations, and the parameter table that each can write down by arithmetic alone.

A dimension is a formula and a number at once, so that the two cannot disagree:

    d, ff = Dim("d", 512), Dim("f", 2048)
    table.add("encoder.inner.weight", "W_1", (ff, d))      # shape f × d = 2048 × 512
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.errors import ConfigError, near

Width = Annotated[int, Field(ge=1, le=65_536)]
"""A dimension in a config, bounded so that no file can ask for the impossible."""

Depth = Annotated[int, Field(ge=1, le=512)]
"""A number of layers in a config, bounded likewise."""


@dataclass(frozen=True)
class Dim:
    """A dimension's formula and size; sums and whole multiples of dimensions are dimensions."""

    formula: str
    size: int

    def __add__(self, other: Dim) -> Dim:
        return Dim(f"{self.formula} + {other.formula}", self.size + other.size)

    def __rmul__(self, times: int) -> Dim:
        inner = f"({self.formula})" if "+" in self.formula else self.formula
        return Dim(f"{times}{inner}", times * self.size)


@dataclass(frozen=True)
class Row:
    """One symbol of the paper: a weight, or a slice of its first dimension.

    `zero_gradient` is the reason why no loss can move these weights, where there is one.
    """

    block: str
    path: str
    symbol: str
    formula: str
    shape: tuple[int, ...]
    slice: tuple[int, int] | None = None
    zero_gradient: str | None = None

    @property
    def count(self) -> int:
        """The number of parameters."""
        return math.prod(self.shape)

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values, without the keys it has no value for."""
        values = {
            "block": self.block,
            "path": self.path,
            "slice": list(self.slice) if self.slice else None,
            "symbol": self.symbol,
            "formula": self.formula,
            "shape": list(self.shape),
            "count": self.count,
            "zero_gradient": self.zero_gradient,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass
class Table:
    """Every parameter of a model, in the order of its computation."""

    rows: list[Row] = field(default_factory=list)
    _block: str = ""

    def block(self, name: str) -> None:
        """Put the rows that follow under `name`."""
        self._block = name

    def add(
        self,
        path: str,
        symbol: str,
        shape: tuple[Dim, ...],
        *,
        zero_gradient: str | None = None,
    ) -> None:
        """Add the whole weight at `path`."""
        self._append(path, symbol, shape, None, zero_gradient)

    def split(
        self,
        path: str,
        symbols: tuple[str, ...],
        shape: tuple[Dim, ...],
        *,
        zero_gradient: Mapping[str, str] | None = None,
    ) -> None:
        """Add the weight at `path`, which stacks one block of `shape` for each of `symbols`."""
        size = shape[0].size
        for index, symbol in enumerate(symbols):
            reason = (zero_gradient or {}).get(symbol)
            self._append(path, symbol, shape, (index * size, (index + 1) * size), reason)

    def _append(
        self,
        path: str,
        symbol: str,
        shape: tuple[Dim, ...],
        part: tuple[int, int] | None,
        zero_gradient: str | None,
    ) -> None:
        formula = " × ".join(f"({d.formula})" if "+" in d.formula else d.formula for d in shape)
        sizes = tuple(d.size for d in shape)
        self.rows.append(Row(self._block, path, symbol, formula, sizes, part, zero_gradient))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def total(self) -> int:
        """The number of parameters of the whole model."""
        return sum(row.count for row in self.rows)

    def blocks(self) -> dict[str, int]:
        """Return each block's sum, in order."""
        sums: dict[str, int] = {}
        for row in self.rows:
            sums[row.block] = sums.get(row.block, 0) + row.count
        return sums


class LengthLimits(NamedTuple):
    """The most tokens a source and a target may have, special ones included; None: no limit."""

    source: int | None = None
    target: int | None = None


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
