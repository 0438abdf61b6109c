"""Splits of pairs such that no text, and no near copy of one, is in two of them.

The normalized words of a text have no letter case, accents and punctuation, and English
contractions written out. Two texts are near copies if their normalized words are equal, or become
equal after at most one word of each is left out; the latter only for texts of at least five words,
because leaving one out of fewer makes another sentence. Near copies of near copies are in the same
split too.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from zoo import Pair

LEAST = 5
"""The fewest words of a text of which one may be left out."""

CONTRACTIONS = {
    "won't": "will not", "can't": "can not", "cannot": "can not", "n't": " not", "'m": " am",
    "'re": " are", "'ve": " have", "'ll": " will", "let's": "let us",
}  # fmt: skip
"""In the order in which they are replaced."""

Words = tuple[str, ...]


def words(text: str) -> Words:
    """Return the normalized words of a text."""
    plain = text.casefold().replace("’", "'")
    if not plain.isascii():
        decomposed = unicodedata.normalize("NFKD", plain)
        plain = "".join(each for each in decomposed if not unicodedata.combining(each))
    for short, long in CONTRACTIONS.items():
        plain = plain.replace(short, long)
    return tuple(re.findall(r"\w+", plain))


def variants(text: Words) -> Iterator[Words]:
    """Yield the words of a text, and if they are enough, the words with each one left out."""
    yield text
    if len(text) >= LEAST:
        for position in range(len(text)):
            yield text[:position] + text[position + 1 :]


def keys(pair: Pair) -> Iterator[tuple[int, Words]]:
    """Yield what a pair has in common with its near copies: a side's number and words."""
    for side, text in enumerate(pair):
        for variant in variants(words(text)):
            yield side, variant


def groups(pairs: Sequence[Pair]) -> list[int]:
    """Return a number for each pair, equal if two pairs have near copies on either side.

    Numbers are those of the first pair of each group.
    """
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[tuple[int, Words], int] = {}
    for index, pair in enumerate(pairs):
        for key in keys(pair):
            one, other = root(index), root(first.setdefault(key, index))
            parent[max(one, other)] = min(one, other)
    return [root(index) for index in range(len(pairs))]


def split_groups(
    pairs: Sequence[Pair],
    group_of: Sequence[Hashable],
    held_out: Mapping[str, int],
    largest: int,
) -> dict[str, list[Pair]]:
    """Split pairs by their groups.

    Each split of `held_out` gets whole groups of at most `largest` pairs until it has that many
    distinct sources, in the order of a hash of each group's first pair; the rest is `train`. The
    result is the same on every machine, and keeps the order of the pairs.
    """
    sizes = Counter(group_of)
    members: dict[Hashable, list[Pair]] = {}
    for pair, group in zip(pairs, group_of, strict=True):
        if sizes[group] <= largest:
            members.setdefault(group, []).append(pair)
    ranked = iter(sorted(members, key=lambda group: _hash(members[group][0])))
    split_of: dict[Hashable, str] = {}
    for split, least in held_out.items():
        sources = 0
        for group in ranked:
            split_of[group] = split
            sources += len({pair.source for pair in members[group]})
            if sources >= least:
                break
    splits: dict[str, list[Pair]] = {"train": [], **{split: [] for split in held_out}}
    for pair, group in zip(pairs, group_of, strict=True):
        splits[split_of.get(group, "train")].append(pair)
    return splits


def _hash(pair: Pair) -> bytes:
    return hashlib.blake2b("\t".join(pair).encode(), digest_size=8).digest()
