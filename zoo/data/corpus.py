"""Token files: a corpus is tokenized once, a chunk at a time, and then memory-mapped.

A folder in the cache holds one corpus: `source.tokens`, `source.starts`, `target.tokens`,
`target.starts` and `corpus.json`. Its name is a hash of the text, the tokenizers and the limits, so
that every later run with the same ones maps the same files. The folders can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from zoo.data import datasets
from zoo.data.batches import Corpus, LeftOut, Sequences, encode_pairs
from zoo.data.features import FeatureReader, Features
from zoo.data.readers import chunks, without_long_words
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.sources import Sources
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, DataError
from zoo.files import read_json, whole_folder, write_json
from zoo.registry.cache_folder import cache_folder, locked_entry
from zoo.registry.config import Config
from zoo.registry.declarations import Dataset
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry

FORMAT = 1
CHUNK = 8192
"""Pairs that are held in memory at a time."""

FEATURE_CHUNK = 64
"""Sequences of feature vectors that are held in memory at a time."""

SIDES = ("source", "target")
KINDS = ("tokens", "starts")


def learn_tokenizers(
    dataset: Dataset,
    limit: int | None,
    recipe: Recipe,
    registry: Registry | None = None,
    config: Config | None = None,
) -> tuple[Tokenizer, Tokenizer]:
    """Learn the tokenizers of source and target; they are one if the recipe shares it.

    Args:
        dataset, limit: the texts.
        recipe: the tokenizers' kinds and sizes.
        registry: where the kinds are looked up; by default that of the installed plugins.
        config: the model's, which says whether it reads several sources, or feature vectors, of
            which the first pair gives the size; by default one text.

    Raises:
        DataError: as `check_source`.
    """

    def texts(side: int) -> Iterator[str]:
        return (without_long_words(pair[side]) for pair in dataset.stream("train", limit))

    sources = ("text",) if config is None else config.sources
    first = next(iter(dataset.stream("train", 1)), None)
    if first is not None:
        check_source(first.source, dataset.name, config)
    if config is not None and config.features and first is not None:
        of_target = Tokenizer.train(texts(1), recipe.tokenizers[1], recipe.vocab_size, registry)
        return FeatureReader.of_text(first.source), of_target
    if recipe.shared_vocab:
        both = Tokenizer.train(
            chain(texts(0), texts(1)), recipe.tokenizer, recipe.vocab_size, registry
        )
        return both, both
    source, target = recipe.tokenizers
    if len(sources) > 1:
        of_source: Tokenizer = SourceTokenizer.learn(
            lambda: (pair.source for pair in dataset.stream("train", limit)),
            sources,
            source,
            recipe.vocab_size,
            registry,
        )
    else:
        of_source = Tokenizer.train(texts(0), source, recipe.vocab_size, registry)
    return of_source, Tokenizer.train(texts(1), target, recipe.vocab_size, registry)


def check_source(source: str, data: str, config: Config | None) -> None:
    """Make sure that a model reads sources like this one; `data` is where it is from.

    Raises:
        DataError: there are several, and the model reads one; or it is feature vectors, and the
            model reads text.
    """
    if (config is None or len(config.sources) == 1) and isinstance(source, Sources):
        raise DataError(
            f"{data} has several sources",
            "this model reads one",
            "Name the file or the key of one source, or take a model that reads several",
        )
    if (config is None or not config.features) and isinstance(source, Features):
        raise DataError(f"{data} has feature vectors", "this model reads text")


def open_corpus(
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> Corpus:
    """Return the training split as memory-mapped token ids; files that are missing are written.

    Raises:
        DataError: the data is missing or malformed.
        OSError: the cache cannot be written.
    """
    folder = cache_folder() / "tokens" / _key(dataset, limit, tokenizers, limits)
    with contextlib.suppress(CheckpointError):
        return _map(folder)  # without the lock: the cache may be another user's, or read-only
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked_entry(folder):
        try:
            return _map(folder)
        except CheckpointError:
            with _naming(folder), whole_folder(folder, replace=True) as part:
                _build(part, dataset, limit, tokenizers, limits)
        return _map(folder)


@contextlib.contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Name a folder in errors of writing that name no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(folder)
        raise


def _key(
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, dataset.name, limit, *limits]).encode())
    if "validation" not in dataset.splits:  # nothing is held out
        digest.update(b"whole")
    for tokenizer in tokenizers:
        digest.update(tokenizer.to_json().encode())
    # Other code that reads files, such as a plugin's, may have changed since: its text is compared.
    own = getattr(dataset.read, "__module__", "") == datasets.__name__
    if dataset.files and own and not isinstance(tokenizers[0], FeatureReader):
        for file in dataset.files:
            status = file.stat()
            digest.update(json.dumps([str(file), status.st_size, status.st_mtime_ns]).encode())
    else:
        for pair in dataset.stream("train", limit):
            digest.update(json.dumps(pair).encode())
            if isinstance(tokenizers[0], FeatureReader) and not isinstance(pair.source, Features):
                status = Path(pair.source).stat()
                digest.update(json.dumps([status.st_size, status.st_mtime_ns]).encode())
    return digest.hexdigest()[:32]


def _build(
    folder: Path,
    dataset: Dataset,
    limit: int | None,
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
) -> None:
    """Write the files. At most one chunk of the corpus is in memory."""
    left_out = LeftOut()
    with (
        _Writer(folder, "source", tokenizers[0]) as source_files,
        _Writer(folder, "target", tokenizers[1]) as target_files,
    ):
        both = (source_files, target_files)
        pairs = dataset.stream("train", limit)
        size = CHUNK if source_files.dim is None else FEATURE_CHUNK
        for chunk in chunks(pairs, size, lambda pair: len(pair[0]) + len(pair[1])):
            kept = []
            for ids in encode_pairs(chunk, *tokenizers, limits):
                if isinstance(ids, LeftOut):
                    left_out += ids
                else:
                    kept.append(ids)
            source_files.write([source for source, _ in kept])
            target_files.write([target for _, target in kept])
        digest = hashlib.sha256("".join(side.fingerprint() for side in both).encode())
        write_json(
            folder / "corpus.json",
            {
                "format": FORMAT,
                "data": dataset.name,
                "left_out": asdict(left_out),
                "fingerprint": digest.hexdigest(),
                **{side.name: side.describe() for side in both},
            },
        )


class _Writer:
    """Writes the two files of one side, a chunk at a time."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer) -> None:
        self.name, self.folder = name, folder
        self.dim = tokenizer.dim if isinstance(tokenizer, FeatureReader) else None
        integers = "<u2" if tokenizer.size <= 2**16 else "<u4"
        self.type: np.dtype[Any] = np.dtype(integers if self.dim is None else "<f4")
        self.count = self.end = 0
        self.digests = [hashlib.sha256(), hashlib.sha256()]

    def __enter__(self) -> Self:
        self.files = [(self.folder / f"{self.name}.{kind}").open("wb") for kind in KINDS]
        self._append(1, np.zeros(1, dtype="<i8"))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def write(self, sequences: list[Sequence[int]]) -> None:
        """Append sequences."""
        ends = self.end + np.cumsum([len(s) for s in sequences], dtype="<i8")
        if sequences:
            self.count, self.end = self.count + len(sequences), int(ends[-1])
        if self.dim is None:
            self._append(0, np.fromiter(chain.from_iterable(sequences), dtype="<i4"))
        elif sequences:
            self._append(0, np.concatenate(sequences))
        self._append(1, ends)

    def _append(self, which: int, values: npt.NDArray[Any]) -> None:
        # The fingerprint does not depend on how many bytes the file has per number.
        self.digests[which].update(values.tobytes())
        file: IO[bytes] = self.files[which]
        file.write(values.astype(self.type).tobytes() if which == 0 else values.tobytes())

    def fingerprint(self) -> str:
        """Return a hash of everything that was written."""
        return "".join(digest.hexdigest() for digest in self.digests)

    def describe(self) -> dict[str, Any]:
        """Return what `_map` needs to know about the files."""
        described = {"sequences": self.count, "tokens": self.end, "type": self.type.str}
        return described if self.dim is None else {**described, "dim": self.dim}


def _map(folder: Path) -> Corpus:
    """Map a corpus's files into memory.

    Raises:
        CheckpointError: they are missing or incomplete.
    """
    description = read_json(folder / "corpus.json")
    sides: dict[str, Sequences] = {}
    try:
        for side in SIDES:
            count, tokens = description[side]["sequences"], description[side]["tokens"]
            dim = description[side].get("dim")
            sizes, types = (tokens * (dim or 1), count + 1), (description[side]["type"], "<i8")
            files = zip(KINDS, sizes, types, strict=True)
            arrays = [_array(folder / f"{side}.{kind}", size, t) for kind, size, t in files]
            values = arrays[0] if dim is None else arrays[0].reshape(-1, dim)
            sides[side] = Sequences(values, arrays[1])
        return Corpus(
            **sides,
            left_out=LeftOut(**description["left_out"]),
            fingerprint=description["fingerprint"],
        )
    except (KeyError, TypeError, ValueError, SyntaxError, OSError) as error:  # of a wrong type too
        reason = str(error)[:200]  # it may repeat what the file says
        raise CheckpointError(f"{folder} is incomplete", reason) from None


def _array(file: Path, size: int, kind: str) -> npt.NDArray[Any]:
    """Map a file of exactly `size` numbers: reading a truncated one would kill the process."""
    if file.stat().st_size != size * np.dtype(kind).itemsize:
        raise ValueError(f"{file.name} does not have the size it was written with")
    return np.memmap(file, dtype=kind, mode="r") if size else np.zeros(0, dtype=kind)
