"""The white space of texts: what of it is read, and lines."""

from __future__ import annotations

import re

from zoo.translation.sentences import Piece
from zoo.translation.spelling import OPEN, OPEN_MARKS

SPACES, SEVERAL_SPACES = re.compile(r"\s+"), re.compile(r"\s{2,}")
"""White space of a sentence; and of a text that is not split, where one tab is between columns."""

LINE = re.compile(r"(\s*)(\S(?:.*\S)?)")
"""A line, and the white space before it."""


def as_read(text: str, spaces: re.Pattern[str], closes: bool = True) -> str:
    """Return a text with single spaces for some white space, and perhaps without a last comma."""
    spaced = spaces.sub(" ", text.strip())
    return OPEN.sub("", spaced) if closes and spaced.endswith(OPEN_MARKS) else spaced


def lines_of(text: str) -> list[Piece]:
    """Return the lines of a text that are not blank."""
    return [Piece(*match.groups()) for match in LINE.finditer(text.rstrip())]
