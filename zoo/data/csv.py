"""Pairs from files of comma-separated values, with quoted fields and a header (RFC 4180)."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.data.compressed import open_text
from zoo.data.languages import named_language
from zoo.data.readers import bounded_lines, decode_bytes, naming
from zoo.data.tables import MARKS
from zoo.errors import DataError, did_you_mean, in_brackets
from zoo.registry.declarations import Pair

if TYPE_CHECKING:
    from _csv import Reader

DELIMITERS = ",;\t|"
NAMES = ("source", "target")
SENTENCE = re.compile(rf".*[{''.join(MARKS)}]|(\S+\s+){{4,}}\S+")
"""What is no name of a column: it ends in a mark, or has five words or more."""

STATED = re.compile(r'"?sep=([,;\t|])"?\s*')
"""A first line that states the delimiter, as Excel reads and some programs write it."""


def read_csv(file: Path, columns: Sequence[str] = ()) -> Iterator[Pair]:
    """Yield pairs from two columns of a file whose first record has the columns' names.

    The columns are those that `columns` names, or `source` and `target`, or the only two. The
    delimiter is a comma, a semicolon, a tab or a bar: that of a first line `sep=;`, or the one that
    divides the first line into most cells.

    Raises:
        DataError: there are no such columns, the first record looks like text, a record has more or
            fewer cells than the header, quotes are not closed, or as `read_lines`.
    """
    reader, header = _open(file)
    source, target = _columns(file, header, columns)
    with _as_data_error(file, reader):
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{file}, line {reader.line_num}, has {len(row)} cells",
                    f"the header has {len(header)}",
                    'Put text with a delimiter in quotes: "one, two"',
                )
            yield Pair(*(" ".join(row[i].splitlines()) for i in (source, target)))


def header_languages(file: Path) -> tuple[str, ...]:
    """Return the names of the only two columns if they are of two languages; else nothing."""
    with contextlib.suppress(DataError, OSError):  # which `read_csv` reports
        header = _open(file)[1]
        languages = {named_language(name) for name in header} - {""}
        if len(header) == len(languages) == 2:
            return tuple(header)
    return ()


def _open(file: Path) -> tuple[Reader, list[str]]:
    """Return a reader of the records after the header, and the header."""
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{file} is empty", "it has no lines")
    stated = STATED.fullmatch(first)
    delimiter = stated[1] if stated else max(DELIMITERS, key=lambda d: _cells(first, d))

    def all_lines() -> Iterator[str]:
        yield "\n" if stated else first  # an empty line, so that lines are counted from the first
        yield from lines

    # Some programs write a space after each comma, which would hide the quotes after it.
    reader = csv.reader(all_lines(), delimiter=delimiter, strict=True, skipinitialspace=True)
    with _as_data_error(file, reader):
        return reader, [" ".join(cell.split()) for cell in next(filter(None, reader), [])]


@contextlib.contextmanager
def _as_data_error(file: Path, reader: Reader) -> Iterator[None]:
    """Turn an error of the reader into one that names the file and the line."""
    try:
        yield
    except csv.Error as error:
        advice = "Close each quote, and double quotes inside of quotes"
        if "field limit" in str(error):
            advice += f". Longer text than {csv.field_size_limit():,} can be in .tsv or .jsonl"
        raise DataError(f"{file}, line {reader.line_num}, is not CSV", str(error), advice) from None


def _cells(line: str, delimiter: str) -> int:
    """Return into how many cells a delimiter divides a line; 0 if it is not CSV."""
    try:
        return len(next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), []))
    except csv.Error:
        return 0


def _lines(file: Path) -> Iterator[str]:
    with open_text(file) as stream:
        for number, line in enumerate(bounded_lines(stream, str(file)), 1):
            yield decode_bytes(line, number, str(file))


def _columns(file: Path, header: list[str], columns: Sequence[str]) -> tuple[int, int]:
    """Return the indices of source and target in the header."""
    lowered = [name.casefold() for name in header]
    wanted = [name.casefold() for name in columns or NAMES]
    if all(name in lowered for name in wanted):
        return lowered.index(wanted[0]), lowered.index(wanted[1])
    if not columns and len(header) == 2:
        if any(map(SENTENCE.fullmatch, header)):
            raise DataError(
                f"{file} has no header",
                f"its first record, {header[0][:40]!r}, looks like text",
                "Put a line with the names before it: source,target",
            )
        return 0, 1
    missing = [name for name in columns or NAMES if name.casefold() not in lowered]
    hint = in_brackets(did_you_mean(missing[0], header))
    listed = ", ".join(header[:20])[:500]
    raise DataError(
        f"{file} has no column {' or '.join(map(repr, missing))}{hint}",
        f"its columns are {listed}",
        f"Name two of them after the file, such as {naming(file, header)}",
    )
