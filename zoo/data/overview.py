"""What is in a dataset: pairs, lengths, characters, duplicates, and sources that splits share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from zoo.data.datasets import text_hash
from zoo.registry.declarations import Dataset, Pair


@dataclass
class Side:
    """Counts of the texts of one side."""

    characters: int = 0
    words: int = 0
    longest: int = 0
    alphabet: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count a text."""
        self.characters += len(text)
        self.words += len(text.split())
        self.longest = max(self.longest, len(text))
        self.alphabet.update(text)

    def describe(self, pairs: int) -> dict[str, Any]:
        """Return the counts per pair, as plain values."""
        count = max(pairs, 1)
        return {
            "characters": round(self.characters / count, 1),
            "words": round(self.words / count, 1),
            "longest": self.longest,
            "distinct_characters": len(self.alphabet),
        }


@dataclass
class Split:
    """Counts of one split; texts are remembered by hashes of eight bytes."""

    examples: list[Pair] = field(default_factory=list)
    source: Side = field(default_factory=Side)
    target: Side = field(default_factory=Side)
    pairs: int = 0
    duplicates: int = 0
    empty: int = 0
    copies: int = 0
    sources: set[bytes] = field(default_factory=set)
    seen: set[bytes] = field(default_factory=set)

    def add(self, pair: Pair, examples: int) -> None:
        """Count a pair."""
        if len(self.examples) < examples:
            self.examples.append(pair)
        self.pairs += 1
        self.source.add(pair.source)
        self.target.add(pair.target)
        whole = text_hash(f"{pair.source}\0{pair.target}")
        self.duplicates += whole in self.seen
        self.seen.add(whole)
        self.sources.add(text_hash(pair.source))
        self.empty += not pair.source.strip() or not pair.target.strip()
        self.copies += pair.source == pair.target

    def describe(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "pairs": self.pairs,
            "distinct_sources": len(self.sources),
            "duplicates": self.duplicates,
            "empty": self.empty,
            "copies": self.copies,
            "source": self.source.describe(self.pairs),
            "target": self.target.describe(self.pairs),
            "examples": [list(pair) for pair in self.examples],
        }


def overview(dataset: Dataset, limit: int | None, examples: int) -> dict[str, Any]:
    """Return a dataset's statistics as plain values.

    `duplicates` are pairs that occurred before in the split, `empty` those with an empty side,
    `copies` those whose sides are equal. Lengths are means per text. `overlap` counts, for each two
    splits, the distinct sources that both have; the split `all` of files is left out if there are
    others.

    Raises:
        DataError: the data is missing or malformed.
    """
    names = [name for name in dataset.splits if name != "all"] or list(dataset.splits)
    splits = {name: Split() for name in names}
    for name, split in splits.items():
        for pair in dataset.stream(name, limit):
            split.add(pair, examples)
    overlap = {
        f"{one}, {other}": len(splits[one].sources & splits[other].sources)
        for number, one in enumerate(names)
        for other in names[number + 1 :]
    }
    return {
        "name": dataset.name,
        "summary": dataset.summary,
        "languages": list(dataset.languages),
        "terms": dataset.terms,
        "splits": {name: split.describe() for name, split in splits.items()},
        "overlap": overlap,
    }
