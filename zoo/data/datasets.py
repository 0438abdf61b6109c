"""Datasets by name, or from files of parallel text; splits by a hash of the source."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from glob import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zoo.data.compressed import file_or_compressed, without_suffix
from zoo.data.csv import header_languages, read_csv
from zoo.data.jsonl import read_jsonl
from zoo.data.languages import code_of, split_pair
from zoo.data.pairs import PairLike, checked_pairs
from zoo.data.readers import read_parallel, read_tsv
from zoo.errors import DataError, UnknownNameError, shown
from zoo.registry.arguments import checked
from zoo.registry.cache_folder import cache_folder
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.registry import Registry

KINDS = (".tsv", ".csv", ".jsonl")
"""The suffixes of files that hold both sides."""

FORMATS = (".tmx", ".xliff", ".xlf", ".xml", ".xlsx", ".xls", ".ods", ".parquet", ".zip")
"""Suffixes of files that no other name makes readable."""

LANGUAGE = re.compile(r"[a-z]{2,3}(?:[_-](?:[A-Z]{2}|[A-Z][a-z]{3}))?")
"""The end of the name of a file that has texts of one language."""

PART = 20
"""One source in so many of files is held out for validation."""

NO_LANGUAGES = {"txt", "csv", "tsv", "zip", "log", "run", "py", "md"}
"""Ends of names that look like languages."""


def find_dataset(registry: Registry, spec: str) -> Dataset:
    """Return the dataset called `spec`, or the one in the files that `spec` names.

    Raises:
        UnknownNameError: `spec` is neither.
        DataError: a file it names is missing.
    """
    if spec in registry.datasets:
        return replace(registry.datasets[spec], owner=str(registry.datasets.owner(spec)))
    if is_file_spec(spec):
        return file_dataset(spec)
    if os.path.isdir(spec):
        why, hint = "it is a folder", "Name files in it, such as FOLDER/PREFIX:en-de"
        raise DataError(f"{spec} cannot be read", why, hint)
    if os.path.exists(spec):
        raise DataError(
            f"{spec} cannot be read",
            "a file of pairs ends in .tsv, .csv or .jsonl, or in one of these and .gz, .bz2, .xz "
            "or .zst",
            _of_two_files(os.path.splitext(without_suffix(spec))[0]) or _as_pairs(spec),
        )
    raise UnknownNameError(
        "dataset",
        spec,
        registry.datasets,
        _of_two_files(spec) or "For files, write PREFIX:en-de, FILE.tsv, FILE.csv or FILE.jsonl",
    )


def _as_pairs(spec: str) -> str:
    """Return how a file of another kind becomes one of pairs: by its name alone if it is text."""
    kind = _kind(spec)
    if kind == ".json":
        convert = f"jq -c '.[]' {shlex.quote(spec)} > {shlex.quote(Path(spec).stem)}.jsonl"
        return f"It needs one object a line; of an array: {convert}"
    if kind in FORMATS:
        return "Save its pairs as CSV in UTF-8, with a first line source,target"
    return "Rename it; two files, one of each language, are named PREFIX:en-de"


def _of_two_files(prefix: str) -> str:
    """Return how two files `PREFIX.en` and `PREFIX.de` are named; empty if there are not two."""
    path = Path(prefix)
    beside = path.parent.glob(f"{escape(path.name)}.*") if path.name else ()
    ends = (without_suffix(file.name)[len(path.name) + 1 :] for file in beside)
    one, *others = sorted({end for end in ends if LANGUAGE.fullmatch(end)} - NO_LANGUAGES) or [""]
    if len(others) != 1:
        return ""
    return f"For these two files, write {prefix}:{one}-{others[0]} or {prefix}:{others[0]}-{one}"


class Item(NamedTuple):
    """A source text, and every target text that is a reference for its translation."""

    source: str
    references: tuple[str, ...]


def items_to_score(pairs: Iterable[tuple[str, str]], several_references: bool) -> list[Item]:
    """Return an item for each pair; or for each source, with all its distinct targets."""
    if not several_references:
        return [Item(source, (target,)) for source, target in pairs]
    targets: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        targets.setdefault(source, {})[target] = None
    return [Item(source, tuple(each)) for source, each in targets.items()]


def _first(pairs: Iterable[tuple[str, str]], limit: int | None) -> Iterable[tuple[str, str]]:
    """Return the first pairs; `islice` refuses larger limits than the system's largest number."""
    return islice(pairs, limit and min(limit, sys.maxsize))


def read_items(
    dataset: Dataset, split: str | None, limit: int | None, several_references: bool = False
) -> tuple[str, list[Item]]:
    """Return the name of the split to score, and its sources with their references.

    Args:
        dataset: the dataset.
        split: its split; by default the one that is scored.
        limit: the most pairs of the split, as it is without a limit.
        several_references: whether the targets of one source are references of one translation, as
            they are anyway where the dataset says so.

    Raises:
        DataError: there is no such split, or it is empty.
    """
    split = split or dataset.scored_split
    pairs = _first(dataset.stream(split), limit)
    items = items_to_score(pairs, several_references or dataset.several_references)
    if not items:
        why = f"{dataset.name}, {split}, is empty"
        raise DataError("nothing to score", why, "Name another --split")
    return split, items


def metrics_of_data(registry: Registry, named: tuple[str, ...], trained_on: str) -> tuple[str, ...]:
    """Return the metrics that data names, or else those of what a checkpoint was trained on."""
    if named or trained_on not in registry.datasets:
        return named
    return registry.datasets[trained_on].metrics


def given_items(
    registry: Registry,
    data: str | os.PathLike[str] | Iterable[PairLike],
    split: str | None,
    limit: int | None,
) -> tuple[Dataset, str, list[Item]]:
    """Return a dataset, the split to score, and its items; pairs are of one without a name.

    Args:
        registry: where a dataset is looked up.
        data: a dataset's name, files of parallel text, or pairs of source and target.
        split: of a dataset; by default the one that is scored.
        limit: the most pairs.

    Raises:
        UnknownNameError: there is no such dataset.
        DataError: there is no such split and no pair, an item is not a pair of texts, or the limit
            is not possible.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        why = f"the limit is {shown(limit)}, not a whole number from 1 on"
        raise DataError("these pairs cannot be read", why)
    if isinstance(data, str | os.PathLike):
        data = os.fspath(data)
        dataset = find_dataset(registry, data)
        return dataset, *read_items(dataset, split, limit)
    if split is not None:
        why = f"split {shown(split)} is of a dataset, and pairs are given"
        raise DataError("these pairs cannot be read", why)
    items = items_to_score(_first(checked_pairs(data), limit), False)
    if not items:
        raise DataError("nothing to score", "there are no pairs")
    return Dataset("", "", lambda split, limit: ()), "", items


def is_file_spec(spec: str) -> bool:
    """Return whether `spec` has the form of a file name rather than of a dataset's name."""
    path, languages = _split_languages(spec)
    return bool(languages) or _kind(path) in KINDS


def _kind(path: str) -> str:
    """Return the suffix of a file's name, before that of its compression."""
    return Path(without_suffix(path)).suffix.lower()


def file_dataset(spec: str) -> Dataset:
    """Return a dataset that reads parallel text from files.

    `PREFIX:en-de` reads `PREFIX.en` and `PREFIX.de`; `FILE.tsv` its first two columns;
    `FILE.jsonl` the keys `source` and `target`, and `FILE.jsonl:en-de` the keys `en` and `de`;
    `FILE.csv` columns likewise, or its only two, whose names may be languages. Any of these files
    may be compressed, with `.gz`, `.bz2`, `.xz` or `.zst` at the end of its name; `PREFIX:en-de`
    reads `PREFIX.en.gz` if there is no `PREFIX.en`. `PREFIX:en+context-de` also reads the source
    `context` from `PREFIX.context`, line by line, and `FILE.jsonl:en+context-de` the key `context`.
    The splits are `all`, `train` and `validation`. One source in twenty, at most 1,000, is held out
    for validation, chosen by a hash of its text.

    Raises:
        DataError: a file is missing. Its content is read and checked by `load` and `stream`.
    """
    path, languages = _split_languages(spec)
    sources = languages[0].split("+") if languages else ["source"]
    target = languages[1] if languages else "target"
    languages = (sources[0], target) if languages else ()
    suffix = _kind(path)
    if len(sources) > 1 and suffix in (".tsv", ".csv"):
        raise DataError(
            f"cannot read {spec!r}", f"a {suffix} file has one source",
            "Several sources are in PREFIX:en+context-de or FILE.jsonl:en+context-de",
        )  # fmt: skip
    if suffix in KINDS:
        files = [Path(path)]
    else:
        files = [file_or_compressed(Path(f"{path}.{name}")) for name in (*sources, target)]
    _check_files(files, spec)
    if suffix == ".csv":
        languages = languages or header_languages(files[0])

    def pairs() -> Iterator[Pair]:
        if suffix == ".tsv":
            return read_tsv(files[0])
        if suffix == ".csv":
            return read_csv(files[0], languages)
        if suffix == ".jsonl":
            return read_jsonl(files[0], (sources[0], target), sources[1:])
        return read_parallel(files[0], files[-1], dict(zip(sources[1:], files[1:-1], strict=True)))

    def read(split: str, limit: int | None) -> Iterable[Pair]:
        if split == "all":
            return islice(pairs(), limit)
        held_out = held_out_sources(pair.source for pair in islice(pairs(), limit))
        validation = split == "validation"
        return (pair for pair in islice(pairs(), limit) if (pair.source in held_out) == validation)

    return Dataset(
        name=Path(spec).name,
        summary="parallel text from files",
        read=read,
        languages=(code_of(languages[0]), code_of(languages[1])) if languages else ("", ""),
        splits=("all", "train", "validation"),
        files=tuple(file.absolute() for file in files),
    )


def _check_files(files: Iterable[Path], spec: str) -> None:
    """Make sure that the files that `spec` names can be read.

    Raises:
        DataError: one is missing, or no regular file.
    """
    for file in files:
        if not file.is_file():
            why = "" if str(file) == spec else f"{spec!r} names it"
            if file.exists():
                why = "it is a folder" if file.is_dir() else "it is a pipe or a device"
                raise DataError(f"{file} cannot be read", why, "Name a regular file")
            advice = _of_two_files(_split_languages(spec)[0]) or "Check the path"
            raise DataError(f"there is no file {file}", why, advice)


def without_held_out(dataset: Dataset) -> Dataset:
    """Return files of text whose split `train` is all of them; another dataset stays as it is."""
    if "all" not in dataset.splits:
        return dataset
    read = dataset.read
    return replace(
        dataset,
        read=lambda split, limit: read("all" if split == "train" else split, limit),
        splits=("all", "train"),
    )


def held_out_sources(sources: Iterable[str], most: int = 1000) -> set[str]:
    """Return the sources that `hash_split` holds out for validation, in bounded memory.

    The `most` sources with the smallest hashes suffice as soon as `PART` × `most` distinct sources
    have been read; until then, all of them are kept. A source with so many pairs that more than
    two in `PART` would be held out stays in training.
    """
    hashes: dict[str, bytes] = {}
    counts = Counter[str]()
    enough, total = False, 0
    for source in sources:
        total += 1
        counts[source] += 1
        if source not in hashes:
            hashes[source] = text_hash(source)
        if len(hashes) >= PART * most:
            enough = True
            hashes = dict(sorted(hashes.items(), key=lambda item: item[1])[:most])
            # Exact for those that remain in the end: they have been among these since the first.
            counts = Counter({source: counts[source] for source in hashes})
    held_out, room = set[str](), 2 * total // PART
    for source in sorted(hashes, key=hashes.__getitem__):
        if len(held_out) == (most if enough else len(hashes) // PART):
            break
        if counts[source] <= room:
            held_out.add(source)
            room -= counts[source]
    return held_out


def _split_languages(spec: str) -> tuple[str, tuple[str, ...]]:
    """Return `spec` without a pair of languages after a colon, and that pair, if there is one."""
    path, colon, pair = spec.rpartition(":")
    parts = split_pair(pair)
    return (path, parts) if colon and parts and not os.path.isfile(spec) else (spec, ())


@checked
def hash_split(
    pairs: Iterable[Pair], held_out: Mapping[str, int], kept: Collection[str] = ()
) -> dict[str, list[Pair]]:
    """Split pairs by a hash of the source text, so that no source is in two splits.

    `held_out` maps the name of a split to n: it gets one in n distinct sources, at most 1,000. The
    rest is `train`, including the sources in `kept`. The result is the same on every machine, and
    keeps the order of the pairs.

    Raises:
        DataError: an n is not a whole number of at least 1.
    """
    wrong = [key for key, part in held_out.items() if not isinstance(part, int) or part < 1]
    if wrong:
        why = f"{wrong[0]!r} is {shown(held_out[wrong[0]])}, not a whole number of at least 1"
        raise DataError("these splits cannot be made", why)
    pairs = list(pairs)  # also those of a generator, which are read twice
    ranked = sorted({pair.source for pair in pairs}.difference(kept), key=text_hash)
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


def text_hash(text: str) -> bytes:
    """Return the 8 bytes by which texts are compared and put into splits."""
    import hashlib  # here, because most commands read no data

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def downloads_folder() -> Path:
    """Return the folder to which `zoo data get` downloads the public files of datasets."""
    return cache_folder() / "downloads"
