"""Very short sentences, greetings among them, of which the corpus of everyday ones has few.

A visitor's first try is "Hello!", which its 76,037 pairs do not contain; the 5,000 shortest pairs
of a later year do. Those that are held out there, and near copies of what is held out here, are
left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from rewritten_sentences import typed

from zoo import Pair
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry
from zoo_corpora.near_copies import variants, words

TIMES = 4
"""How often each pair is repeated, each time as it is and as somebody may type it."""


def short_sentences(task: str) -> list[Pair]:
    """Return short pairs for a task whose corpus has a smaller one, such as `tatoeba-en-fr-76k`."""
    registry = default_registry()
    larger = find_dataset(registry, task)
    smaller = find_dataset(registry, task.removesuffix("-76k"))
    held_out = {
        key for split in ("validation", "test") for pair in larger.load(split) for key in keys(pair)
    }
    pairs = [pair for pair in smaller.load("train") if held_out.isdisjoint(keys(pair))]
    draw = random.Random(1)
    return [
        each
        for _ in range(TIMES)
        for pair in pairs
        for each in (pair, Pair(typed(pair.source, draw), pair.target))
    ]


def keys(pair: Pair) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield what a pair has in common with its near copies: a side's number and words."""
    for side, text in enumerate(pair):
        for variant in variants(words(text)):
            yield side, variant
