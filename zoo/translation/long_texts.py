"""Long texts split into parts that a model can read; no word is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from zoo.translation.scripts import CLAUSES, OTHER_CLAUSES, OTHER_STOPS, STOPS
from zoo.translation.sentences import Piece
from zoo.translation.translation import Translation

# Boundaries at which a text may be split, the best first: of sentences, of clauses, of words.
# Chinese and Japanese have no space after a full stop or a comma.
BOUNDARIES = (
    re.compile(rf"(?<=[{STOPS}])\s+|(?<=[{OTHER_STOPS}])\s*"),
    re.compile(rf"(?<=[{CLAUSES}])\s+|(?<=[{OTHER_CLAUSES}])\s*"),
    re.compile(r"\s+"),
)

MOST_CHARACTERS = 16
"""Characters for each token of a part beyond which a text is split without counting its tokens."""

Count = Callable[[Sequence[str]], Sequence[int]]
"""Returns the number of tokens of each text."""


def in_parts(translations: Sequence[Translation]) -> list[str]:
    """Return a warning if sources that were to be read whole are too long for that, or nothing."""
    if not (number := sum(len(one.hypotheses) > 1 for one in translations)):
        return []
    are = "source is" if number == 1 else "sources are"
    return [f"{number:,} {are} longer than the model reads, and translated in parts"]


def split_long(text: str, max_tokens: int, count: Count) -> list[Piece]:
    """Return the text in parts of at most `max_tokens`, each filled greedily from the left.

    A single word that is too long is split between characters. Takes time linear in the text.

    Args:
        text: what to split.
        max_tokens: tokens of a part, at least 1.
        count: returns the numbers of tokens of texts; those of a single character need not fit.
    """
    pieces = [piece for piece, _ in _parts(Piece("", text.strip()), max_tokens, count, 0)]
    # The tokens of two neighbors may be more than those of each by itself.
    checked: list[Piece] = []
    for piece, tokens in zip(pieces, count([piece.text for piece in pieces]), strict=True):
        if tokens > max_tokens and len(piece.text) > 1 and max_tokens > 1:
            first, *rest = split_long(piece.text, max_tokens // 2, count)
            checked += [Piece(piece.space, first.text), *rest]
        else:
            checked.append(piece)
    return checked


def _parts(given: Piece, max_tokens: int, count: Count, level: int) -> Iterator[tuple[Piece, int]]:
    """Yield the parts of a text and their tokens, split at boundaries of this level, or finer."""
    part, total = Piece("", ""), 0
    segments = list(_segments(given, max_tokens, level))
    for segment, tokens in zip(segments, _counts(segments, max_tokens, count), strict=True):
        if part.text and total + tokens <= max_tokens:
            part = Piece(part.space, f"{part.text}{segment.space}{segment.text}")
            total += tokens
            continue
        if part.text:
            yield part, total
        if tokens <= max_tokens or len(segment.text) == 1:
            part, total = segment, tokens
        else:
            *complete, (part, total) = _parts(segment, max_tokens, count, level + 1)
            yield from complete
    if part.text:
        yield part, total


def _counts(segments: Sequence[Piece], max_tokens: int, count: Count) -> list[int]:
    """Return the tokens of each segment; for a very long one, more than fit."""
    short = [s.text for s in segments if len(s.text) <= MOST_CHARACTERS * max_tokens]
    counted = iter(count(short))
    return [
        next(counted) if len(s.text) <= MOST_CHARACTERS * max_tokens else max_tokens + 1
        for s in segments
    ]


def _segments(given: Piece, max_tokens: int, level: int) -> Iterator[Piece]:
    """Yield a text's segments between boundaries of a level; beyond the last, runs of characters.

    Runs are as long as a part has tokens, then half as long at each further level.
    """
    space, text = given
    if level >= len(BOUNDARIES):
        size = max(1, min(max_tokens >> (level - len(BOUNDARIES)), -(-len(text) // 2)))
        for start in range(0, len(text), size):
            yield Piece("" if start else space, text[start : start + size])
        return
    start = 0
    for match in BOUNDARIES[level].finditer(text):
        if start < match.start():
            yield Piece(space, text[start : match.start()])
            space, start = match.group(), match.end()
    yield Piece(space, text[start:])
