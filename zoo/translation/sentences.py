"""Long texts split into parts that a model can read; no word is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# Boundaries at which a text may be split, the best first: of sentences, of clauses, of words.
BOUNDARIES = (r"(?<=[.!?…。！？])\s+", r"(?<=[,;:،、])\s+", r"\s+")


def split(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Return the text in parts of at most `max_tokens`, each filled greedily from the left.

    White space at a boundary is dropped; a single word that is too long is split between
    characters.

    Args:
        text: what to split.
        max_tokens: tokens of a part, at least 1.
        count_tokens: returns the number of tokens of a text; 1 for a single character.
    """
    return list(_parts(text.strip(), max_tokens, count_tokens, 0))


def _parts(
    text: str, max_tokens: int, count_tokens: Callable[[str], int], level: int
) -> Iterator[str]:
    """Yield the parts of a text that is split at boundaries of this level, or finer ones."""
    if count_tokens(text) <= max_tokens or len(text) == 1:
        yield text
    elif level == len(BOUNDARIES):
        half = len(text) // 2
        for part in (text[:half], text[half:]):
            yield from _parts(part, max_tokens, count_tokens, level)
    else:
        part = ""
        for segment in re.split(BOUNDARIES[level], text):
            longer = f"{part} {segment}" if part else segment
            if count_tokens(longer) <= max_tokens:
                part = longer
                continue
            if part:
                yield part
            *complete, part = _parts(segment, max_tokens, count_tokens, level + 1)
            yield from complete
        if part:
            yield part
