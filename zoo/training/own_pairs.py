"""Pairs that are given from Python: a run keeps them as files, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

from zoo.data.pairs import PairLike, write_pairs
from zoo.training.plan import Plan

Data = str | PathLike[str] | Iterable[PairLike]
"""The name of a dataset or of files, or pairs of texts."""


def as_file(data: Data | None, name: str, copies: list[Path]) -> str | None:
    """Return the name of data; pairs are written to a file `NAME.jsonl`, which joins `copies`.

    Raises:
        DataError: it is neither a name nor pairs.
    """
    if data is None or isinstance(data, str):
        return data
    if isinstance(data, PathLike):
        return fspath(data)
    copies.append(write_pairs(data, name))
    return str(copies[-1])


def moved(plan: Plan, copies: Sequence[Path], folder: Path) -> Plan:
    """Return a plan that reads files of pairs from a run's folder, which has copies of them."""
    paths = {str(file): str(folder / file.name) for file in copies}
    validation = plan.validation and paths.get(plan.validation, plan.validation)
    return replace(plan, data=paths.get(plan.data, plan.data), validation=validation)
