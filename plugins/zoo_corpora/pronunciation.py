"""The CMU Pronouncing Dictionary: English words to phones with stress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from zoo import DataError, Pair
from zoo_corpora.corpora import corpus_folder
from zoo_corpora.near_copies import split_groups

FILE = "cmudict.dict"
HELD_OUT = {"test": (10_000, 12), "validation": (2_000, 60)}
"""The words of a split, and the fewest pairs for one of them."""

ENTRY = re.compile(r"(?P<word>[^\s(]+)(?:\(\d+\))? (?P<phones>[A-Z]+[0-2]?(?: [A-Z]+[0-2]?)*)")


def pronunciations(split: str, limit: int | None) -> Iterable[Pair]:
    """Return words with their phones, such as `hello` and `HH AH0 L OW1`.

    A word has a pair for each of its pronunciations. No word is in two splits; neither are words
    that differ by punctuation or an ending 's or ' alone, such as `baker` and `baker's`.
    """
    file = corpus_folder("cmudict", (FILE,), "g2p-en") / FILE
    status = file.stat()
    return _splits(file, limit, status.st_size, status.st_mtime_ns)[split]


@lru_cache(maxsize=1)
def _splits(file: Path, limit: int | None, *_: int) -> dict[str, list[Pair]]:
    pairs = list(islice(read_dictionary(file), limit))
    held_out = {split: min(most, len(pairs) // part) for split, (most, part) in HELD_OUT.items()}
    return split_groups(pairs, [stem(pair.source) for pair in pairs], held_out, largest=100)


def stem(word: str) -> str:
    """Return the letters and digits of a word, without a possessive ending."""
    return re.sub(r"[\W_]", "", re.sub(r"'s?$", "", word.casefold())) or word


def read_dictionary(file: Path) -> Iterator[Pair]:
    """Yield the entries of a dictionary: word, number of the pronunciation, phones, comment.

    Raises:
        DataError: a line is no entry.
    """
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].strip()
            if not text or line.startswith(";;;"):
                continue
            entry = ENTRY.fullmatch(text)
            if entry is None:
                raise DataError(
                    f"{file}, line {number}, is no entry", "an entry is a word and its phones"
                )
            yield Pair(entry["word"], entry["phones"])
