"""Long texts in parts that a model can read, none of the text left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# Where a text may be cut, the best place first: after a sentence, after a clause, between words.
CUTS = (r"(?<=[.!?…。！？])\s+", r"(?<=[,;:،、])\s+", r"\s+")


def split(text: str, most: int, count: Callable[[str], int]) -> list[str]:
    """Return the text in parts of at most `most` tokens, as few as one pass finds.

    White space at a cut goes; a word that is too long by itself is cut between characters.

    Args:
        text: what to split.
        most: tokens that a part may have, at least 1.
        count: tells how many tokens a text has; of one character, 1.
    """
    return list(_parts(text.strip(), most, count, 0))


def _parts(text: str, most: int, count: Callable[[str], int], level: int) -> Iterator[str]:
    if count(text) <= most or len(text) == 1:
        yield text
    elif level == len(CUTS):
        half = len(text) // 2
        for part in (text[:half], text[half:]):
            yield from _parts(part, most, count, level)
    else:
        held = ""
        for piece in re.split(CUTS[level], text):
            joined = f"{held} {piece}" if held else piece
            if count(joined) <= most:
                held = joined
                continue
            if held:
                yield held
            held = ""
            *whole, held = _parts(piece, most, count, level + 1)
            yield from whole
        if held:
            yield held
