"""Pairs from a Python iterable, written to a file, so that training can read them many times."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.data.readers import fault_of_text
from zoo.data.sources import Sources, join_sources
from zoo.errors import DataError
from zoo.registry.cache_folder import cache_folder
from zoo.registry.declarations import two_values

PairLike = tuple[str | Mapping[str, str], str] | list[str] | Mapping[str, Any]
"""A source and a target, or a mapping with the keys `source` and `target`.

Several sources are a mapping from names to texts.
"""


def write_pairs(pairs: Iterable[PairLike], name: str = "pairs") -> Path:
    """Write pairs to a file in the cache, `NAME.jsonl`, and return it.

    The iterable is read once, and may be a generator. The file's folder is named after a hash of
    the text.

    Raises:
        DataError: an item is not a pair of texts, or there is none; or it has feature vectors.
    """
    from zoo.data.features import Features  # which imports torch

    checked = checked_pairs(pairs)
    folder = cache_folder() / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    part = folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}.part"
    try:
        with part.open("w", encoding="utf-8") as out:
            for source, target in checked:
                if isinstance(source, Features):
                    raise _is_features(source)
                record = {"source": source, "target": target}
                if isinstance(source, Sources) and source:
                    record["source"] = json.loads(source)
                line = json.dumps(record, ensure_ascii=False) + "\n"
                digest.update(line.encode())
                size += out.write(line)
        if not size:
            raise DataError("there are no pairs", "the iterable is empty")
        file = folder / digest.hexdigest()[:32] / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return file


def _is_features(source: str) -> DataError:
    return DataError(
        f"a run cannot keep feature vectors such as {str(source)[:60]!r}",
        "pairs that are given are kept as text",
        "Save each matrix as FILE.npy, and train on a table FILE.tsv of these names and the "
        "targets; or bring a dataset",
    )


def checked_pairs(pairs: Iterable[PairLike]) -> Iterator[tuple[str, str]]:
    """Return an iterator of the sources and targets, which checks each when it is reached.

    Raises:
        DataError: this is nothing that can be iterated, or, later, an item is not a pair of texts.
    """
    scalar = getattr(pairs, "ndim", 1) == 0  # such an array cannot be iterated
    if scalar or isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        why = f"the data is of type {type(pairs).__name__}"
        raise DataError("no pairs", why, "Give an iterable of pairs, or the name of data")
    return (_texts(pair, number) for number, pair in enumerate(pairs, 1))


def _texts(pair: object, number: int) -> tuple[str, str]:
    """Return the two texts of an item: a pair, a mapping, or a row of an array.

    Raises:
        DataError: it has no two texts.
    """
    row = getattr(pair, "tolist", None)  # of an array
    values = two_values(row() if callable(row) else pair)
    if values is None:
        raise DataError(
            f"item {number:,} is not a pair",
            f"it is {repr(pair)[:60]}",
            "Give (source, target), or a mapping with the keys source and target",
        )
    if isinstance(values[0], Mapping):
        values = (join_sources(values[0]), values[1])
    for side, text in zip(("source", "target"), values, strict=True):
        if not isinstance(text, str):
            raise DataError(
                f"item {number:,} has no {side}", f"a text is needed, not {repr(text)[:60]}"
            )
        if fault := fault_of_text(text):
            raise DataError(f"the {side} of item {number:,} is not text", fault)
    return values[0], values[1]
