"""Real corpora, read from the folder that `ZOO_DATA` names, or downloaded."""

import os
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path

from zoo import DataError, Pair, downloads_folder, hash_split, read_parallel, read_tsv
from zoo_corpora.near_copies import groups, split_groups

LESSON = ("Go.", "I lost.", "I'm calm.", "I'm home.")
"""Sentences of the lesson that this zoo follows; it translates them after training on them, so they
stay in the training split."""


def corpus_folder(name: str, files: tuple[str, ...], dataset: str) -> Path:
    """Return the folder of a corpus's files: in `ZOO_DATA`, or where `zoo data get` puts them.

    Raises:
        DataError: they are in neither.
    """
    given = os.environ.get("ZOO_DATA")
    folders = [Path(given) / name] if given else []
    folders.append(downloads_folder() / name)
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return folder
    raise DataError(
        f"{dataset} is not on this machine",
        f"{folders[0]} lacks {' and '.join(files)}" if given else "ZOO_DATA is not set",
        f"Download it: zoo data get {dataset}",
    )


def multi30k(source: str, target: str, split: str, limit: int | None) -> Iterable[Pair]:
    """Return pairs of Multi30k (Elliott et al. 2016); the test split is Flickr 2016."""
    stem = {"train": "train", "validation": "val", "test": "test_2016_flickr"}[split]
    files = (f"{stem}.{source}", f"{stem}.{target}")
    folder = corpus_folder("multi30k", files, f"multi30k-{source}-{target}")
    return islice(read_parallel(folder / files[0], folder / files[1]), limit)


def tatoeba(from_french: bool, split: str, limit: int | None) -> Iterable[Pair]:
    """Return pairs of Tatoeba, English to French, or the other way round.

    Each direction is split by its own sources, so that none is in two splits.
    """
    dataset = "tatoeba-fr-en" if from_french else "tatoeba-en-fr"
    folder = corpus_folder("tatoeba-en-fr", ("fra.txt",), dataset)
    pairs = list(islice(read_tsv(folder / "fra.txt"), limit))
    if from_french:
        pairs = [Pair(pair.target, pair.source) for pair in pairs]
    return hash_split(pairs, {"validation": 20, "test": 20}, kept=LESSON)[split]


def tatoeba_76k(from_french: bool, split: str, limit: int | None) -> Iterable[Pair]:
    """Return pairs of the larger part of Tatoeba, split without near copies.

    Both directions have the same splits. No sentence of either language, and no near copy of one,
    is in two of them (see `zoo_corpora.near_copies`). A sentence has a pair for each of its
    translations.
    """
    dataset = "tatoeba-fr-en-76k" if from_french else "tatoeba-en-fr-76k"
    file = corpus_folder("tatoeba-en-fr-76k", ("fra.txt",), dataset) / "fra.txt"
    status = file.stat()
    chosen = _tatoeba_splits(file, status.st_size, status.st_mtime_ns)[split][:limit]
    return [Pair(pair.target, pair.source) for pair in chosen] if from_french else chosen


@lru_cache(maxsize=1)
def _tatoeba_splits(file: Path, *_: int) -> dict[str, list[Pair]]:
    pairs = list(read_tsv(file))
    held_out = {"test": min(1000, len(pairs) // 20), "validation": min(1000, len(pairs) // 20)}
    return split_groups(pairs, groups(pairs), held_out, largest=20)
