"""The tokenizer and the size of a vocabulary that a text supports, for the recipe `auto`."""

from __future__ import annotations

import math
from collections.abc import Callable

from zoo.data.statistics import CorpusStatistics, SideStatistics

HEAPS = 10.0
"""Entries of a vocabulary per square root of the words: the distinct words of a text grow so."""
SMALLEST_VOCABULARY = 200
MOSTLY_NEW = 0.6
"""The share of unseen words above which a text has new strings, not the words of a language."""
NEW_NUMBERS = 0.1
"""The same of texts that are mostly numbers: fewer new ones can be learned as words."""
RESPELLED = 0.8
"""The correlation of the lengths of words above which each is spelled in another way.

That is, in another script, inflected or with accents; of translations it is below 0.5.
"""
FEW_WORDS = 100
"""So many different words can be learned one by one, without their spelling."""
SHORT_TEXT = 100
"""The mean length in characters up to which a text is read character by character."""
SHORT_UNSPACED = 12
"""The same of scripts without spaces, whose sentences are short."""
ALPHABET = 150
"""The most characters of a script whose letters spell sounds; Chinese has thousands."""
NEW_PIECES = 100
"""The fewest entries beside the characters."""


def tokenizer_kind(statistics: CorpusStatistics) -> tuple[str, str]:
    """Return a kind of tokenizer, and why."""
    source, target = statistics.source, statistics.target
    if source.closed and target.closed:
        distinct = max(source.distinct_words, target.distinct_words)
        return "word", f"the text has only {distinct:,} different words"
    if source.words <= 1.2 * statistics.sampled and not source.unspaced:
        return "char", "the sources are single words"
    if max(source.mean_length, target.mean_length) <= SHORT_TEXT:
        if _has_new_numbers(source, target):
            return "char", "most words are numbers"
        if any(map(_is_spelled, (source, target))):
            return "char", "short strings, of which hardly any word recurs"
        if statistics.respelled > RESPELLED and source.distinct_words > FEW_WORDS:
            return "char", "each word is spelled in another way"
    if source.unspaced or target.unspaced:
        return "bpe", "the text has no spaces: pieces of text"
    new = 100 * max(source.unseen, target.unseen)
    return "bpe", f"{new:.0f}% of the words are seen once: pieces of words"


def _has_new_numbers(source: SideStatistics, target: SideStatistics) -> bool:
    """Return whether most words of both sides are numbers, and new texts have others."""
    new = max(source.unseen, target.unseen) > NEW_NUMBERS
    return min(source.numbers, target.numbers) > 1 / 2 and new


def _is_spelled(side: SideStatistics) -> bool:
    """Return whether new texts of a side share characters with the others, and hardly any words."""
    if 3 * side.unspaced_letters > side.characters:
        return side.mean_length <= SHORT_UNSPACED and side.distinct_characters <= ALPHABET
    return side.unseen > MOSTLY_NEW


def vocabulary_size(
    statistics: CorpusStatistics, kinds: tuple[str, str], shared: bool, largest: int
) -> int:
    """Return the most entries of a vocabulary that the text supports.

    Args:
        statistics: of the text.
        kinds: the tokenizers of source and target.
        shared: whether the vocabulary is that of both sides.
        largest: the model's usual size.
    """
    sides = (statistics.source, statistics.target)
    scale = statistics.pairs / max(statistics.sampled, 1)
    if kinds[0] == kinds[1]:
        return _size_of_kind(kinds[0], sides, scale, sum if shared else max, largest)
    return max(
        _size_of_kind(kind, (side,), scale, max, largest)
        for kind, side in zip(kinds, sides, strict=True)
    )


def _size_of_kind(
    kind: str,
    sides: tuple[SideStatistics, ...],
    scale: float,
    combine: Callable[[list[int]], int],
    largest: int,
) -> int:
    """Return the entries that a kind of tokenizer needs for these sides, `scale` times as large."""
    if kind == "char":
        return _rounded(2 * combine([side.distinct_characters for side in sides]) + 50)
    if kind == "byte":
        return 260
    if kind == "word":
        # A word counts twice where it occurs with and without a space before it.
        distinct = combine([side.distinct_words for side in sides])
        growth = 1.0 if all(side.closed for side in sides) else math.sqrt(scale)
        return min(_rounded(2 * distinct * growth + 50), largest)
    words = combine([word_like(side) for side in sides]) * scale
    characters = combine([side.distinct_characters for side in sides])
    least = max(SMALLEST_VOCABULARY, 2 * characters + NEW_PIECES)
    return min(_rounded(max(HEAPS * math.sqrt(words), least)), largest)


def word_like(side: SideStatistics) -> int:
    """Return the words of a side; without spaces, two characters are about one word."""
    return side.characters // 2 if side.unspaced else side.words


def _rounded(value: float) -> int:
    """Return a number with two significant digits, rounded up."""
    unit = 10 ** max(math.floor(math.log10(max(value, 1))) - 1, 0)
    return math.ceil(value / unit) * unit


def longest_in_tokens(statistics: CorpusStatistics, kinds: tuple[str, str]) -> int:
    """Return how many tokens nearly all texts have at most, special ones included.

    Args:
        statistics: of the text.
        kinds: the tokenizers of source and target.
    """
    longest = 0
    for kind, side in zip(kinds, (statistics.source, statistics.target), strict=True):
        if kind == "word":
            tokens = side.long_length * side.words / max(side.characters, 1)
        else:
            tokens = side.long_length / (1 if kind in ("char", "byte") or side.unspaced else 2)
        longest = max(longest, math.ceil(tokens) + 2)
    return longest
