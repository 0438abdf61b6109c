"""A sentence that is longer than those of training, divided where that harms least."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from zoo.translation.long_texts import Count
from zoo.translation.scripts import CLAUSE, STOP
from zoo.translation.sentences import Piece

# A clause of a language without spaces is a word here; only its marks end it.
WORD = re.compile(r"(\s*)([^\s、，；：]+[、，；：]*|[、，；：]+)")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Characters of scripts that write no space between words."""

MOST_OF_A_WORD = 3
"""A word counts as at most so many tokens: a name or a number of ten makes no sentence long."""

LONG_WORD = 1.25
"""A single word of more tokens than so many times the usual ones is no word, but several."""

AFTER_WORD, AFTER_STOP = 2.0, 3.0
"""The cost of a cut between words, in parts; after a stop, it may be that of an abbreviation."""


def lengths_of(words: Sequence[str], count: Count) -> list[int]:
    """Return how much each word adds to the length of a sentence, at least one token."""
    return [
        max(tokens, 1) if UNSPACED.search(word) else min(max(tokens, 1), MOST_OF_A_WORD)
        for word, tokens in zip(words, count(words), strict=True)
    ]


def divide(text: str, most: int, count: Count) -> list[Piece]:
    """Return a sentence in parts of words, each of at most `most` tokens unless it is one word.

    The parts minimize the sum of one for each part, of (1 − length / most)² of each, which makes
    them even, and of what each cut costs: nothing after a comma or another mark of a clause.

    Args:
        text: the sentence.
        most: the usual tokens of a sentence.
        count: returns the numbers of tokens of texts.

    Returns:
        The parts, which with their spaces are the text; one if the sentence is not long.
    """
    matches = list(WORD.finditer(text))
    words = [match[2] for match in matches]
    lengths = lengths_of(words, count)
    if sum(lengths) <= most:
        return [Piece("", text.strip())]
    # best[i]: the least cost of the first i words, and where their last part begins
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(words) + 1):
        options = []
        total = 0
        for begin in range(end - 1, -1, -1):
            total += lengths[begin]
            if total > most and begin < end - 1:
                break
            cost = best[begin][0] + 1 + max(1 - total / most, 0.0) ** 2
            options.append((cost + (_cost(words[begin - 1]) if begin else 0.0), begin))
        best.append(min(options))
    cuts = [len(words)]
    while cuts[-1]:
        cuts.append(best[cuts[-1]][1])
    cuts.reverse()
    pieces = []
    for begin, end in itertools.pairwise(cuts):
        first, last = matches[begin], matches[end - 1]
        pieces.append(Piece(first[1] if begin else "", text[first.start(2) : last.end()]))
    return pieces


def divide_word(text: str, most: int, count: Count) -> list[Piece]:
    """Return a single word in parts of at most `most` tokens if it is much longer than words are.

    It is cut after hyphens, and else in equal runs of characters: of what has more characters than
    any word, a network writes the beginning, or sounds without end.
    """
    if count([text])[0] <= LONG_WORD * most:
        return [Piece("", text)]
    pieces: list[Piece] = []
    for part in re.findall(r"[^-]+-*|-+", text):
        number = -(-len(part) // most)
        size = -(-len(part) // number)
        pieces += [Piece("", part[i : i + size]) for i in range(0, len(part), size)]
    return pieces


def _cost(word: str) -> float:
    """Return what a cut after a word costs."""
    if CLAUSE.search(word):
        return 0.0
    return AFTER_STOP if STOP.search(word) else AFTER_WORD
