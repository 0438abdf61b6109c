"""The first line of a table: a pair, or the names of the columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from zoo.data.languages import named_language
from zoo.errors import DataError

SIDES = ("source", "target", "src", "tgt", "trg", "input", "output", "reference", "ref")
ROLES = {f"{side}{ending}" for side in SIDES for ending in ("", "text", "sentence")} | {
    *("text", "original", "translation", "label", "question", "answer"),
    *("sentence", "sentence1", "sentence2"),
}
"""What tables call a column, besides names and codes of languages."""

ENDINGS = ("lang", "language", "segment")
"""Words that may stand beside one of `ROLES`."""

SHORT_NAME = 3
"""Up to so many letters, the name of a language may be a word of a text, such as `la` or `no`."""

IN_BRACKETS = re.compile(r"(.+?)\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]")
SEPARATORS = re.compile(r"[\s_.:-]+")


def check_no_header(file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Make sure that the first line is a pair, and not the names of the columns.

    They are names where most of the next lines have several words: of a list of words they may be
    the first pair. Two names of one language are a pair too.

    Raises:
        DataError: it is not.
    """
    names = [cell.strip() for cell in rows[0][:2]] if len(rows) > 2 else []
    several = sum(" " in row[0].strip() for row in rows[1:])
    if len({name.casefold() for name in names}) < 2 or 2 * several < len(rows) - 1:
        return
    source, target = map(named_language, names)
    if all(map(names_column, names)) and not (source and source == target):
        raise DataError(
            f"{file} has the names of columns in its first line, {' and '.join(names)}",
            "each line of such a file is a pair",
            f"Leave it out: tail -n +2 {shlex.quote(str(file))} > without-header.tsv",
        )


def names_column(cell: str) -> bool:
    """Return whether a cell is a column's name: `fr`, `eng_Latn`, `Source text`, `TARGET (fr)`.

    Beside a word such as `text`, a code of a language has another separator than a space.
    """
    if named_language(cell):
        return True
    bracketed = IN_BRACKETS.fullmatch(cell)
    name = bracketed[1] if bracketed and named_language(bracketed[2]) else cell
    words = SEPARATORS.split(name.casefold())
    others = [word for word in words if word not in ROLES]
    apart = name.casefold().split()
    return len(others) < len(words) and all(
        word in ENDINGS or (named_language(word) and (len(word) > SHORT_NAME or word not in apart))
        for word in others
    )
