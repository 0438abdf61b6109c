"""Read parallel text from files, one line at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from zoo.errors import DataError
from zoo.registry.declarations import Pair

Item = TypeVar("Item")


def read_lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without their line ends, and without a byte order mark.

    Raises:
        DataError: the file is missing, empty, or not UTF-8; the message has the line's number.
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


def decode_line(line: bytes, number: int, file: str) -> str:
    """Return a line's text without its line end.

    Raises:
        DataError: it is not UTF-8; the message has the file, the line's number and the byte.
    """
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}, line {number}, is not UTF-8",
            f"byte {error.start + 1} is 0x{line[error.start]:02x}",
            "Convert it, for example with iconv",
        ) from None


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which UTF-8 cannot encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def read_parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Yield pairs from two files that are aligned by line.

    Raises:
        DataError: the files differ in length (the message has both counts), or as `read_lines`.
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
            "Line n of one file must translate line n of the other",
        )


def read_tsv(file: Path) -> Iterator[Pair]:
    """Yield pairs from the first two columns of a file of tab-separated values.

    Raises:
        DataError: a line has no tab, or as `read_lines`.
    """
    for number, line in enumerate(read_lines(file), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(
                f"{file}, line {number}, has no tab", "each line is a source, a tab and a target"
            )
        yield Pair(columns[0], columns[1])


def read_jsonl(file: Path, keys: tuple[str, ...]) -> Iterator[Pair]:
    """Yield pairs from a file of JSON objects, one per line, with text under both keys.

    Raises:
        DataError: a line is not such an object, or as `read_lines`.
    """
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
                "each line is an object with both keys",
                f"To use other keys, name them after the file: {file}:en-de",
            )
        if any(has_lone_surrogate(text) for text in strings):
            raise DataError(
                f"{file}, line {number}, is not text", "it has half of a surrogate pair"
            )
        yield Pair(*strings)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` consecutive items; the last one may be shorter."""
    chunk: list[Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
