"""Read parallel text from files, compressed or not, one line at a time."""

from __future__ import annotations

import codecs
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, groupby, islice, zip_longest
from os import PathLike
from pathlib import Path
from typing import IO, TypeVar

from zoo.data.compressed import open_text
from zoo.data.sources import join_sources
from zoo.data.tables import check_table
from zoo.errors import DataError
from zoo.registry.arguments import checked
from zoo.registry.declarations import Pair
from zoo.registry.parameters import MAIN

Item = TypeVar("Item")

LINE_LIMIT = 10_000_000
"""The most bytes of a line of text, its line end included."""

WORD_LIMIT = 300
"""Longest word, in characters, from which a tokenizer learns.

Normalization makes a text up to three times longer, and a token has at most 1,000 characters.
"""

NO_FILES: Mapping[str, Path] = {}

NUMBERED = 20
"""How many lines of a file show whether its first column numbers them."""

SHOWN_BY = 1_000
"""How many bytes of a line show whether it is text in UTF-16 or UTF-32."""

MARKED = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # which begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
"""Byte order marks, and the encodings of files that begin with them."""

CHUNK_LIMIT = 5_000_000
"""The weight, such as characters, at which a chunk ends before it has its number of items."""


def read_lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without their line ends, and without a byte order mark.

    Raises:
        DataError: the file is missing, empty, or not UTF-8, or a line is too long; the message has
            the line's number. Or as `open_text`.
    """
    with open_text(file) as stream:
        number = 0
        for number, line in enumerate(bounded_lines(stream, str(file)), 1):
            yield decode_line(line, number, str(file))
    if number == 0:
        raise DataError(f"{file} is empty", "it has no lines")


def bounded_lines(stream: IO[bytes], where: str) -> Iterator[bytes]:
    """Yield the lines of a stream with their line ends; at most `LINE_LIMIT` bytes are in memory.

    `where` names the stream in errors.

    Raises:
        DataError: a line is longer, or cannot be read; the message has its number.
    """
    for number in count(1):
        try:
            line = stream.readline(LINE_LIMIT + 1)
        except OSError as error:
            raise DataError(
                f"{where}, line {number}, cannot be read", error.strerror or str(error)
            ) from None
        if not line:
            return
        if len(line) > LINE_LIMIT:
            raise DataError(
                f"{where}, line {number}, is too long",
                f"it has over {LINE_LIMIT:,} bytes",
                "Is it text? If so, put line ends between its sentences",
            )
        yield line


def count_lines(file: Path, see: Callable[[bytes], object] = len) -> int:
    """Return the number of line ends in a file, and one more for a last line without one.

    `see` is called with each block of its text, unpacked.
    """
    ends, last = 0, b"\n"
    with open_text(file) as stream:
        while block := stream.read(1 << 20):
            see(block)
            ends, last = ends + block.count(b"\n"), block[-1:]
    return ends + (last != b"\n")


def decode_line(line: bytes, number: int, file: str) -> str:
    """Return a line's text without its line end, and without a byte order mark in the first line.

    Raises:
        DataError: it is not UTF-8, has a NUL byte, or the first line has a carriage return inside;
            the message has the file and the line's number.
    """
    return decode_bytes(line.rstrip(b"\r\n"), number, file)


def decode_bytes(line: bytes, number: int, file: str) -> str:
    """Return a line's text, its line end included.

    Raises:
        DataError: as `decode_line`.
    """
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
        if marked := next((name for mark, name in MARKED if line.startswith(mark)), ""):
            raise DataError(
                f"{file} is in {marked}", "", f"Convert it: {_conversion(file, marked)}"
            )
    if b"\0" in line:
        encoding = "UTF-32" if line[:4].count(0) == 3 else "UTF-16"
        encoding += "BE" if line[:1] == b"\0" else "LE"
        advice = "Convert it to UTF-8"
        if number == 1 and b"\0" in line[:2] and _may_be(line, encoding):
            advice = f"Convert it: {_conversion(file, encoding)}"
        why = f"it is not text, or text in {encoding[:6]}"
        raise DataError(f"{file}, line {number}, has a NUL byte", why, advice)
    if number == 1 and b"\r" in line.rstrip(b"\r\n"):
        raise DataError(
            f"{file}, line 1, has a carriage return inside",
            "its lines may end in carriage returns alone",
            f"Convert it: tr '\\r' '\\n' < {_as_argument(file)} > NEW",
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}, line {number}, is not UTF-8",
            f"byte {error.start + 1} is 0x{line[error.start]:02x}",
            f"Convert it, if it is from Windows: {_conversion(file, 'WINDOWS-1252')}",
        ) from None


def _may_be(line: bytes, encoding: str) -> bool:
    """Return whether the start of a line is text in an encoding, of characters that texts have."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(line[:SHOWN_BY])
    return "\ufffd" not in text and all(
        character in "\t\r" or unicodedata.category(character) not in ("Cc", "Cn", "Co")
        for character in text
    )


def _conversion(file: str, encoding: str) -> str:
    """Return a command that converts a file to UTF-8."""
    return f"iconv -f {encoding} -t UTF-8 {_as_argument(file)} > NEW"


def _as_argument(file: str) -> str:
    """Return a file's name as a command has it; FILE for the name of a stream."""
    return shlex.quote(file) if Path(file).is_file() else "FILE"


def naming(file: Path, names: Iterable[str]) -> str:
    """Return how a user names two columns or keys after a file: as an example, the last two."""
    words = [name for name in names if re.fullmatch(r"\w+", name)]
    return f"{file}:{'-'.join(words[-2:]) if len(words) > 1 else 'en-de'}"


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which UTF-8 cannot encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def fault_of_text(text: str) -> str:
    """Return why a text cannot be one of a pair; empty if it can."""
    if has_lone_surrogate(text):
        return "it has half of a surrogate pair"
    return "it has a NUL character" if "\0" in text else ""


@checked
def read_parallel(
    source: str | PathLike[str], target: str | PathLike[str], more: Mapping[str, Path] = NO_FILES
) -> Iterator[Pair]:
    """Yield pairs from two files that are aligned by line.

    Args:
        source, target: the two files.
        more: the files of further sources, by name.

    Raises:
        DataError: the files differ in length (the message has both counts), or one is missing,
            empty, damaged or not UTF-8.
    """
    source, target = Path(source), Path(target)
    sources = _joined_lines(source, more) if more else read_lines(source)
    targets = read_lines(target)
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


def _joined_lines(source: Path, more: Mapping[str, Path]) -> Iterator[str]:
    """Yield the lines of several sources, which are aligned, as one text each.

    Raises:
        DataError: the files differ in length.
    """
    files = {MAIN: source, **more}
    for number, lines in enumerate(zip_longest(*map(read_lines, files.values())), 1):
        if None in lines:
            short = [str(f) for f, line in zip(files.values(), lines, strict=True) if line is None]
            raise DataError(f"{short[0]} is too short", f"another source has a line {number:,}")
        yield join_sources(dict(zip(files, lines, strict=True)))


@checked
def read_tsv(file: str | PathLike[str]) -> Iterator[Pair]:
    """Yield pairs from the first two columns of a file of tab-separated values.

    Empty lines are skipped.

    Raises:
        DataError: a line has no tab, the lines are numbered, the first names the columns, texts are
            in quotes, or the file is missing, empty, damaged or not UTF-8.
    """
    file = Path(file)
    lines = read_lines(file)
    first = list(islice(lines, NUMBERED))
    check_table(file, [line.split("\t") for line in first])
    for number, line in enumerate(chain(first, lines), 1):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(
                f"{file}, line {number}, has no tab", "each line is a source, a tab and a target"
            )
        yield Pair(columns[0], columns[1])


def chunks(
    items: Iterable[Item], size: int, weight: Callable[[Item], int] | None = None
) -> Iterator[list[Item]]:
    """Yield lists of `size` consecutive items; the last one may be shorter.

    With `weight`, a list also ends at an item with which its weights reach `CHUNK_LIMIT`, so that
    long texts do not fill the memory.
    """
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += weight(item) if weight is not None else 0
        if len(chunk) == size or total >= CHUNK_LIMIT:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def without_long_words(text: str) -> str:
    """Return a text without its words of over `WORD_LIMIT` characters.

    Such a word is no word, and learning from it takes hours: each merge reads the word again.
    Punctuation separates words, so that a paragraph without spaces keeps its words.
    """
    if len(text) <= WORD_LIMIT:
        return text
    return re.sub(rf"\S{{{WORD_LIMIT + 1},}}", _without_long_parts, text)


def _without_long_parts(run: re.Match[str]) -> str:
    """Return a run of characters without its parts of over `WORD_LIMIT` characters."""
    parts = ("".join(part) for _, part in groupby(run[0], _separates))
    return "".join(part if len(part) <= WORD_LIMIT else " " for part in parts)


def _separates(character: str) -> bool:
    """Return whether a character separates words for every kind of tokenizer that has words."""
    kind = unicodedata.category(character)
    return kind[0] == "P" and kind != "Pc" and character not in "-'’"
