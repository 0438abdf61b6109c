"""The first lines of a table: pairs, or numbers, texts in quotes or the names of columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from zoo.data.languages import is_language, named_language
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

MARKS = (".", "!", "?", "…", "。", "！", "？")
"""What a sentence ends in, and a word does not."""

NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
"""A cell that is a number, as of a line or a score."""

QUOTED = re.compile(r'"(?:[^"]|"")*"')
"""A cell as spreadsheets write it where it has a comma or a quote; quotes inside are doubled."""


def check_table(file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Make sure that the first rows of a table are pairs of texts.

    Raises:
        DataError: a column has no text, texts are in quotes, or the first row names the columns.
    """
    _check_unnumbered(file, rows)
    _check_unquoted(file, rows)
    _check_no_header(file, rows)


def _check_unnumbered(file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Make sure that the first of more than two columns does not number or label the lines.

    The exports of Tatoeba, for example, have the columns number, text, number, text; mined pairs
    begin with a score, or with the codes of both languages. Those of tables have the columns' names
    in the first line.

    Raises:
        DataError: it does, in all of the rows but perhaps the first.
    """
    rest = rows[1:]
    if len(rest) < 2 or not all(len(row) > 2 for row in rest):
        return
    columns = [[row[i].strip() for row in rest] for i in range(min(map(len, rest)))]
    texts = [str(i) for i, cells in enumerate(columns, 1) if not _labels(cells)]
    labels = _labels(columns[0])
    if labels and len(texts) > 1:
        named = _labels([rows[0][0].strip()]) != labels
        before = f"tail -n +2 {shlex.quote(str(file))} | " if named else ""
        raise DataError(
            f"{file} has only {labels} in its first column" + " after the first line" * named,
            "its first two columns are read as source and target",
            f"Keep those of the text, such as {before}cut -f{','.join(texts[:2])}; or "
            f"{before}cut -f1,2 if they are the source",
        )


def _labels(cells: Sequence[str]) -> str:
    """Return what a column has instead of text, numbers or one language; empty if it has text."""
    if all(NUMBER.fullmatch(cell) for cell in cells):
        return "numbers"
    return f"{cells[0]!r}" if len({*cells}) == 1 and is_language(cells[0]) else ""


def _check_unquoted(file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Make sure that texts have no quotes around them, as spreadsheets write them.

    Raises:
        DataError: all have them, or one that has them has doubled quotes inside.
    """
    cells = [cell for row in rows for cell in row[:2]]
    quoted = [cell for cell in cells if len(cell) > 2 and QUOTED.fullmatch(cell)]
    if any('""' in cell[1:-1] for cell in quoted) or (len(rows) > 2 and len(quoted) == len(cells)):
        name = shlex.quote(str(file))
        raise DataError(
            f"{file} has quotes around its texts, such as {quoted[0][:40]}",
            "they would be read as part of the text",
            "Read it as CSV, with the columns' names in its first line: "
            f"(printf 'source\\ttarget\\n'; cat {name}) > new.csv",
        )


def _check_no_header(file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Make sure that the first line is a pair, and not the names of the columns.

    They are names where most of the next lines have several words or end in a mark: of a list of
    words they may be the first pair, unless they are `source` and `target` or the like. Two names
    of one language are a pair too.

    Raises:
        DataError: it is not.
    """
    # With single spaces: in runs of them, `IN_BRACKETS` would have too many ways to match.
    names = [" ".join(cell.split()) for cell in rows[0][:2]] if rows else []
    first = [row[0].strip() for row in rows[1:]]
    several = sum(" " in cell or cell.endswith(MARKS) for cell in first)
    roles = all(len(name) > SHORT_NAME and name.casefold() in ROLES for name in names)
    sentences = several > 0 and 2 * several >= len(rows) - 1
    if len({name.casefold() for name in names}) < 2 or not (roles or sentences):
        return
    source, target = map(named_language, names)
    if all(map(_names_column, names)) and not (source and source == target):
        raise DataError(
            f"{file} has the names of columns in its first line, {' and '.join(names)}",
            "each line of such a file is a pair",
            f"Leave it out: tail -n +2 {shlex.quote(str(file))} > without-header.tsv",
        )


def _names_column(cell: str) -> bool:
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
