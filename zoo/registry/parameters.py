"""The parameter table of a model, which a config computes by arithmetic.

A dimension is both a formula and a number, so that the two always agree:

    d, ff = Dim("d", 512), Dim("f", 2048)
    table.add("encoder.inner.weight", "W_1", (ff, d))      # shape f × d = 2048 × 512
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VOCABULARY_LIMIT = 10_000_000
"""The most entries of a vocabulary."""

MAIN = "text"
"""The name of the first source, which the others accompany."""


@dataclass(frozen=True)
class Dim:
    """A dimension's formula and size; sums and integer multiples of dimensions are dimensions."""

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

    `zero_gradient` is the reason why the gradient of these weights is always zero, if it is.
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
        """Return the row as plain values, without keys whose value is None."""
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
    """Every parameter of a model, in the order of computation."""

    rows: list[Row] = field(default_factory=list)
    _block: str = ""

    def block(self, name: str) -> None:
        """Begin a block: the rows added next belong to `name`."""
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
        symbols: tuple[str, ...] | Mapping[str, Dim],
        shape: tuple[Dim, ...],
        *,
        zero_gradient: Mapping[str, str] | None = None,
    ) -> None:
        """Add the weight at `path`, in which one part is stacked for each symbol.

        Args:
            path: the weight's name in the network.
            symbols: the symbols in order; where parts differ, each with its first dimension.
            shape: of every part; where parts differ, without the first dimension.
            zero_gradient: the reason why a symbol's gradient is always zero, by symbol.
        """
        if isinstance(symbols, str):
            raise TypeError(f"the symbols of {path} are one text: write ({symbols!r},)")
        start = 0
        for symbol in symbols:
            part = (symbols[symbol], *shape) if isinstance(symbols, Mapping) else shape
            reason = (zero_gradient or {}).get(symbol)
            row = self._append(path, symbol, part, start, reason)
            start += row.shape[0]

    def _append(
        self,
        path: str,
        symbol: str,
        shape: tuple[Dim, ...],
        start: int | None,
        zero_gradient: str | None,
    ) -> Row:
        if not isinstance(shape, tuple | list) or not all(isinstance(dim, Dim) for dim in shape):
            raise TypeError(
                f"the shape of {path} is {shape!r}: a tuple of zoo.Dim is needed, such as (d,)"
            )
        formula = " × ".join(f"({d.formula})" if "+" in d.formula else d.formula for d in shape)
        sizes = tuple(d.size for d in shape)
        part = None if start is None else (start, start + sizes[0])
        self.rows.append(Row(self._block, path, symbol, formula, sizes, part, zero_gradient))
        return self.rows[-1]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def total(self) -> int:
        """The number of parameters of the whole model."""
        return sum(row.count for row in self.rows)

    def blocks(self) -> dict[str, int]:
        """Return the number of parameters of each block, in order."""
        sums: dict[str, int] = {}
        for row in self.rows:
            sums[row.block] = sums.get(row.block, 0) + row.count
        return sums


class LengthLimits(NamedTuple):
    """The most tokens of a source and a target, special tokens included; None is no limit."""

    source: int | None = None
    target: int | None = None
