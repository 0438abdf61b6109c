"""What data there is, by name, and parallel text of the user's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zoo.errors import DataError


class Pair(NamedTuple):
    """A source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Dataset:
    """Parallel text with named splits.

    `read(split, limit)` yields that split's pairs in order; `limit` bounds how many pairs of each
    file count, before any split is made. `recipe` names the recipe to train on it by, where that
    has another name than the dataset. `files` are what it reads, if that is all that decides its
    text.
    """

    name: str
    summary: str
    read: Callable[[str, int | None], Iterable[Pair]]
    languages: tuple[str, str] = ("", "")
    splits: tuple[str, ...] = ("train", "validation", "test")
    terms: str = ""
    recipe: str = ""
    files: tuple[Path, ...] = ()

    def load(self, split: str, limit: int | None = None) -> list[Pair]:
        """Return a split's pairs.

        Raises:
            DataError: there is no such split, or its files are missing, empty or not well-formed.
        """
        return list(self.stream(split, limit))

    def stream(self, split: str, limit: int | None = None) -> Iterator[Pair]:
        """Yield a split's pairs, as `load` returns them, without holding them all.

        Raises:
            DataError: there is no such split, or its files are missing, empty or not well-formed.
        """
        if split not in self.splits:
            raise DataError(f"{self.name} has no split {split!r}", f"it has {_and(self.splits)}")
        yield from self.read(split, limit)

    @property
    def scored_split(self) -> str:
        """The split that a score is computed on when none is named."""
        return "test" if "test" in self.splits else self.splits[0]


def _and(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def is_file_spec(spec: str) -> bool:
    """Tell whether `spec` names the user's own files rather than a dataset."""
    path, languages = _languages(spec)
    return bool(languages) or Path(path).suffix in (".tsv", ".jsonl")


def file_dataset(spec: str) -> Dataset:
    """Return the dataset in the user's own files.

    `PREFIX:en-de` reads `PREFIX.en` and `PREFIX.de`; `FILE.tsv` its first two columns;
    `FILE.jsonl` the keys `source` and `target`, and `FILE.jsonl:en-de` the keys `en` and `de`.
    The splits are `all`, and `train` and `validation`: one source in twenty, at most 1,000, is
    held out for validation, chosen by a hash of its text.

    Raises:
        DataError: a file is missing. What is inside is read, and checked, on `load`.
    """
    path, languages = _languages(spec)
    suffix = Path(path).suffix
    if suffix == ".tsv" or suffix == ".jsonl":
        files = [Path(path)]
    else:
        files = [Path(f"{path}.{language}") for language in languages]
    for file in files:
        if not file.is_file():
            raise DataError(f"no file {file}", f"{spec!r} names it", "Check the path")

    def pairs() -> Iterator[Pair]:
        if suffix == ".tsv":
            return read_tsv(files[0])
        if suffix == ".jsonl":
            return _read_jsonl(files[0], languages or ("source", "target"))
        return read_parallel(*files)

    def read(split: str, limit: int | None) -> Iterable[Pair]:
        if split == "all":
            return islice(pairs(), limit)
        held_out = _held_out(pair.source for pair in islice(pairs(), limit))
        wanted = split == "validation"
        return (pair for pair in islice(pairs(), limit) if (pair.source in held_out) == wanted)

    return Dataset(
        name=Path(spec).name,
        summary="parallel text of your own",
        read=read,
        languages=(languages[0], languages[1]) if languages else ("", ""),
        splits=("all", "train", "validation"),
        files=tuple(file.absolute() for file in files),
    )


def _held_out(sources: Iterable[str], part: int = 20, most: int = 1000) -> set[str]:
    """Return the sources that `hash_split` holds out for validation, in memory that is bounded.

    Once so many distinct sources were seen that `most` of them are held out, no more need to be
    counted: the `most` with the smallest hashes are kept.
    """
    seen: dict[str, bytes] = {}
    enough = False
    for source in sources:
        if source not in seen:
            seen[source] = _text_hash(source)
        if len(seen) >= part * most:
            enough = True
            seen = dict(sorted(seen.items(), key=lambda item: item[1])[:most])
    ranked = sorted(seen, key=seen.__getitem__)
    return set(ranked[: most if enough else len(ranked) // part])


def _languages(spec: str) -> tuple[str, tuple[str, ...]]:
    path, colon, pair = spec.rpartition(":")
    parts = tuple(pair.split("-"))
    return (path, parts) if colon and len(parts) == 2 and all(parts) else (spec, ())


def hash_split(
    pairs: list[Pair], held_out: dict[str, int], kept: Collection[str] = ()
) -> dict[str, list[Pair]]:
    """Split by a hash of the source text, so that no source stands on two sides.

    `held_out` maps a split to n: one distinct source in n goes there, at most 1,000. The rest is
    `train`, and so are the sources in `kept`. The same on every machine; order is kept.
    """
    ranked = sorted({pair.source for pair in pairs}.difference(kept), key=_text_hash)
    split_of: dict[str, str] = {}
    start = 0
    for split, part in held_out.items():
        size = min(len(ranked) // part, 1000)
        split_of.update(dict.fromkeys(ranked[start : start + size], split))
        start += size
    splits: dict[str, list[Pair]] = {"train": [], **{split: [] for split in held_out}}
    for pair in pairs:
        splits[split_of.get(pair.source, "train")].append(pair)
    return splits


def _text_hash(text: str) -> bytes:
    import hashlib  # here, since most commands read no data

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def read_lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without their ends.

    Raises:
        DataError: the file is missing, empty, or not UTF-8 (with the line's number).
    """
    try:
        with file.open("rb") as lines:
            number = 0
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                yield decode_line(text, number, str(file))
    except OSError as error:
        raise DataError(f"cannot read {file}", error.strerror or str(error)) from None
    if number == 0:
        raise DataError(f"{file} is empty", "it has no lines")


def decode_line(line: bytes, number: int, where: str) -> str:
    """Return a line's text without its end.

    Raises:
        DataError: it is not UTF-8; tells `where`, the line's number and the byte.
    """
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}, line {number}, is not UTF-8",
            f"byte {error.start + 1} is 0x{line[error.start]:02x}",
            "Convert it, for example with iconv",
        ) from None


def half_a_pair(text: str) -> bool:
    """Tell whether a text holds half of a surrogate pair, which no UTF-8 can hold."""
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def read_parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Yield pairs from two files aligned by line.

    Raises:
        DataError: the files differ in length (both counts are told), or `read_lines` raised.
    """
    sources, targets = read_lines(source), read_lines(target)
    pairs = 0
    while True:
        one, other = next(sources, None), next(targets, None)
        if one is None or other is None:
            break
        pairs += 1
        yield Pair(one, other)
    if one is not None or other is not None:
        counts = [
            pairs + (line is not None) + sum(1 for _ in rest)
            for line, rest in ((one, sources), (other, targets))
        ]
        raise DataError(
            f"{source} and {target} differ in length",
            f"{counts[0]:,} and {counts[1]:,} lines",
            "Line n of one must translate line n of the other",
        )


def read_tsv(file: Path) -> Iterator[Pair]:
    """Yield pairs from a file's first two columns, parted by tabs."""
    for number, line in enumerate(read_lines(file), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(f"{file}, line {number}, has no tab", "a line is source, tab, target")
        yield Pair(columns[0], columns[1])


def _read_jsonl(file: Path, keys: tuple[str, ...]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(file), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}, line {number}, is not JSON", str(error)) from None
        texts = [record.get(key) for key in keys] if isinstance(record, dict) else []
        strings = [text for text in texts if isinstance(text, str)]
        if len(strings) != 2:
            raise DataError(
                f"{file}, line {number}, has no text under {_and(keys)}",
                "a line is an object with both keys",
                f"Name other keys after the file: {file}:en-de",
            )
        if any(half_a_pair(text) for text in strings):
            raise DataError(
                f"{file}, line {number}, is not text", "it has half of a surrogate pair"
            )
        yield Pair(*strings)


def cache_folder() -> Path:
    """Return where generated data is kept: `ZOO_CACHE`, or `zoo` in the user's cache folder."""
    given = os.environ.get("ZOO_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zoo"
