"""Real corpora, read from the folder that `ZOO_DATA` names."""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from zoo import DataError, Pair, hash_split, read_parallel, read_tsv

LESSON = ("Go.", "I lost.", "I'm calm.", "I'm home.")
"""Sentences of the lesson that this zoo follows; it translates them after training on them, so they
stay in the training split."""


def corpora_folder() -> Path:
    """Return the folder of downloaded corpora.

    Raises:
        DataError: ZOO_DATA is not set.
    """
    folder = os.environ.get("ZOO_DATA")
    if not folder:
        raise DataError(
            "this dataset needs files that are not part of the zoo",
            "ZOO_DATA is not set",
            "Set it to the folder that holds multi30k/ and tatoeba-en-fr/",
        )
    return Path(folder)


def multi30k(source: str, target: str, split: str, limit: int | None) -> Iterable[Pair]:
    """Return pairs of Multi30k (Elliott et al. 2016); the test split is Flickr 2016."""
    stem = {"train": "train", "validation": "val", "test": "test_2016_flickr"}[split]
    folder = corpora_folder() / "multi30k"
    return islice(read_parallel(folder / f"{stem}.{source}", folder / f"{stem}.{target}"), limit)


def tatoeba(from_french: bool, split: str, limit: int | None) -> Iterable[Pair]:
    """Return pairs of Tatoeba, English to French, or the other way round."""
    pairs = list(islice(read_tsv(corpora_folder() / "tatoeba-en-fr" / "fra.txt"), limit))
    chosen = hash_split(pairs, {"validation": 20, "test": 20}, kept=LESSON)[split]
    return [Pair(pair.target, pair.source) for pair in chosen] if from_french else chosen
