"""Real corpora, read from the folder that `ZOO_DATA` names, or downloaded."""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from zoo import DataError, Pair, downloads_folder, hash_split, read_parallel, read_tsv

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
    """Return pairs of Tatoeba, English to French, or the other way round."""
    dataset = "tatoeba-fr-en" if from_french else "tatoeba-en-fr"
    folder = corpus_folder("tatoeba-en-fr", ("fra.txt",), dataset)
    pairs = list(islice(read_tsv(folder / "fra.txt"), limit))
    chosen = hash_split(pairs, {"validation": 20, "test": 20}, kept=LESSON)[split]
    return [Pair(pair.target, pair.source) for pair in chosen] if from_french else chosen
