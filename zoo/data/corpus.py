"""Token files: a corpus is tokenised once, a piece at a time, and then read through the page cache.

A folder below the cache holds one corpus: `source.tokens`, `source.starts`, `target.tokens`,
`target.starts` and `corpus.json`. Its name is a hash of all that decides what is in it, so that
every later run with the same text, tokenizers and limits maps the same files; any of it can be
removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from zoo.data.batches import Corpus, LeftOut, Sequences, encode_pairs
from zoo.data.datasets import cache_folder
from zoo.data.readers import chunks
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.files import read_json, whole_folder, write_json
from zoo.registry.declarations import Dataset
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe

FORMAT = 1
PIECE = 8192
"""Pairs held at a time."""

SIDES = ("source", "target")


def learn_tokenizers(
    dataset: Dataset, limit: int | None, recipe: Recipe
) -> tuple[Tokenizer, Tokenizer]:
    """Learn the source's and the target's vocabulary; one and the same if the recipe shares it."""

    def texts(side: int) -> Iterator[str]:
        return (pair[side] for pair in dataset.stream("train", limit))

    if recipe.shared_vocab:
        both = Tokenizer.train(chain(texts(0), texts(1)), recipe.tokenizer, recipe.vocab_size)
        return both, both
    return (
        Tokenizer.train(texts(0), recipe.tokenizer, recipe.vocab_size),
        Tokenizer.train(texts(1), recipe.tokenizer, recipe.vocab_size),
    )


def open_corpus(
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> Corpus:
    """Return the training split as token ids in memory-mapped files, which are made if need be.

    Raises:
        DataError: the data is missing or not well-formed.
        OSError: the cache cannot be written.
    """
    tokens = cache_folder() / "tokens"
    tokens.mkdir(parents=True, exist_ok=True)
    folder = tokens / _key(dataset, limit, tokenizers, limits)
    with FileLock(f"{folder}.lock"):  # of processes that begin together, one makes the files
        try:
            return _map(folder)
        except CheckpointError:
            with whole_folder(folder, replace=True) as part:
                _build(part, dataset, limit, tokenizers, limits)
        return _map(folder)


def _key(
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, dataset.name, limit, *limits]).encode())
    for tokenizer in tokenizers:
        digest.update(tokenizer.to_json().encode())
    if dataset.files:
        for file in dataset.files:
            status = file.stat()
            digest.update(json.dumps([str(file), status.st_size, status.st_mtime_ns]).encode())
    else:
        for pair in dataset.stream("train", limit):
            digest.update(json.dumps(pair).encode())
    return digest.hexdigest()[:32]


def _build(
    folder: Path,
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> None:
    """Write the files, holding no more than a piece of the corpus."""
    left_out = LeftOut()
    with _Writer(folder, "source", tokenizers[0]) as one, _Writer(
        folder, "target", tokenizers[1]
    ) as other:  # fmt: skip
        for piece in chunks(dataset.stream("train", limit), PIECE):
            kept = []
            for ids in encode_pairs(piece, *tokenizers, limits):
                if isinstance(ids, LeftOut):
                    left_out += ids
                else:
                    kept.append(ids)
            one.write([source for source, _ in kept])
            other.write([target for _, target in kept])
        digest = hashlib.sha256("".join(side.fingerprint() for side in (one, other)).encode())
        write_json(
            folder / "corpus.json",
            {
                "format": FORMAT,
                "data": dataset.name,
                "left_out": asdict(left_out),
                "fingerprint": digest.hexdigest(),
                **{side.name: side.describe() for side in (one, other)},
            },
        )


class _Writer:
    """One side's two files, which grow by a piece at a time."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer) -> None:
        self.name, self.folder = name, folder
        self.type = np.dtype("<u2" if tokenizer.size <= 2**16 else "<u4")
        self.count = self.end = 0
        self.digests = [hashlib.sha256(), hashlib.sha256()]

    def __enter__(self) -> _Writer:
        self.files = [(self.folder / f"{self.name}.{kind}").open("wb") for kind in KINDS]
        self._append(1, np.zeros(1, dtype="<i8"))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def write(self, sequences: list[list[int]]) -> None:
        """Add sequences."""
        ends = self.end + np.cumsum([len(s) for s in sequences], dtype="<i8")
        if sequences:
            self.count, self.end = self.count + len(sequences), int(ends[-1])
        self._append(0, np.fromiter(chain.from_iterable(sequences), dtype="<i4"))
        self._append(1, ends)

    def _append(self, which: int, values: npt.NDArray[Any]) -> None:
        # The fingerprint is of the numbers, however many bytes the file gives each.
        self.digests[which].update(values.tobytes())
        file: IO[bytes] = self.files[which]
        file.write(values.astype(self.type).tobytes() if which == 0 else values.tobytes())

    def fingerprint(self) -> str:
        """Return a hash of all that was written."""
        return "".join(digest.hexdigest() for digest in self.digests)

    def describe(self) -> dict[str, Any]:
        """Return what is needed to read the files."""
        return {"sequences": self.count, "tokens": self.end, "type": self.type.str}


KINDS = ("tokens", "starts")


def _map(folder: Path) -> Corpus:
    """Map a corpus's files.

    Raises:
        CheckpointError: they are not there, or not whole.
    """
    told = read_json(folder / "corpus.json")
    sides: dict[str, Sequences] = {}
    try:
        for side in SIDES:
            count, tokens = told[side]["sequences"], told[side]["tokens"]
            kinds = zip(KINDS, (tokens, count + 1), (told[side]["type"], "<i8"), strict=True)
            arrays = [_array(folder / f"{side}.{kind}", size, t) for kind, size, t in kinds]
            sides[side] = Sequences(arrays[0], arrays[1])
        return Corpus(
            **sides, left_out=LeftOut(**told["left_out"]), fingerprint=told["fingerprint"]
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise CheckpointError(f"{folder} is not whole", str(error)) from None


def _array(file: Path, size: int, kind: str) -> npt.NDArray[Any]:
    """Map a file of exactly so many numbers: one cut short would end the process when read."""
    if file.stat().st_size != size * np.dtype(kind).itemsize:
        raise ValueError(f"{file.name} has another size than it was written with")
    return np.memmap(file, dtype=kind, mode="r") if size else np.zeros(0, dtype=kind)
