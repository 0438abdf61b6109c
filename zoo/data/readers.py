"""Read parallel text from files, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from zoo.errors import DataError
from zoo.registry.declarations import Pair


def read_lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without their ends.

    Raises:
        DataError: the file is missing, empty, or not UTF-8 (with the line's number).
    """
    try:
        with file.open("rb") as lines:
            number = 0
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                yield decode_line(text, number, str(file))
    except OSError as error:
        raise DataError(f"cannot read {file}", error.strerror or str(error)) from None
    if number == 0:
        raise DataError(f"{file} is empty", "it has no lines")


def decode_line(line: bytes, number: int, where: str) -> str:
    """Return a line's text without its end.

    Raises:
        DataError: it is not UTF-8; tells `where`, the line's number and the byte.
    """
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}, line {number}, is not UTF-8",
            f"byte {error.start + 1} is 0x{line[error.start]:02x}",
            "Convert it, for example with iconv",
        ) from None


def half_a_pair(text: str) -> bool:
    """Tell whether a text holds half of a surrogate pair, which no UTF-8 can hold."""
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def read_parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Yield pairs from two files aligned by line.

    Raises:
        DataError: the files differ in length (both counts are told), or `read_lines` raised.
    """
    sources, targets = read_lines(source), read_lines(target)
    pairs = 0
    while True:
        one, other = next(sources, None), next(targets, None)
        if one is None or other is None:
            break
        pairs += 1
        yield Pair(one, other)
    if one is not None or other is not None:
        counts = [
            pairs + (line is not None) + sum(1 for _ in rest)
            for line, rest in ((one, sources), (other, targets))
        ]
        raise DataError(
            f"{source} and {target} differ in length",
            f"{counts[0]:,} and {counts[1]:,} lines",
            "Line n of one must translate line n of the other",
        )


def read_tsv(file: Path) -> Iterator[Pair]:
    """Yield pairs from a file's first two columns, parted by tabs."""
    for number, line in enumerate(read_lines(file), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(f"{file}, line {number}, has no tab", "a line is source, tab, target")
        yield Pair(columns[0], columns[1])


def read_jsonl(file: Path, keys: tuple[str, ...]) -> Iterator[Pair]:
    """Yield pairs from a file of JSON objects, one a line, with text under both keys."""
    for number, line in enumerate(read_lines(file), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}, line {number}, is not JSON", str(error)) from None
        texts = [record.get(key) for key in keys] if isinstance(record, dict) else []
        strings = [text for text in texts if isinstance(text, str)]
        if len(strings) != 2:
            raise DataError(
                f"{file}, line {number}, has no text under {' and '.join(keys)}",
                "a line is an object with both keys",
                f"Name other keys after the file: {file}:en-de",
            )
        if any(half_a_pair(text) for text in strings):
            raise DataError(
                f"{file}, line {number}, is not text", "it has half of a surrogate pair"
            )
        yield Pair(*strings)
