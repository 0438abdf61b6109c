"""Text files, compressed or not, as streams of bounded size."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from zoo.errors import DataError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
MAGIC = {
    ".gz": b"\x1f\x8b", ".bz2": b"BZh9", ".xz": b"\xfd7zXZ", ".zst": b"\x28\xb5\x2f\xfd",
    ".zip": b"PK\x03\x04",
}  # fmt: skip
"""How compressed files, and archives, begin."""

FREE_SIZE = 1_000_000_000
"""Bytes that any file may unpack to."""

RATIO_LIMIT = 200
"""Beyond that, the most bytes that one compressed byte may unpack to; text seldom exceeds 20."""

MEMORY_LIMIT = 256 * 2**20
"""The most memory of xz's decompressor; the largest preset of `xz` needs 65 MiB."""

DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""What the decompressors of every Python raise on a damaged file."""

CHUNK = 2**16


def without_suffix(name: str) -> str:
    """Return a file's name without the suffix of its compression."""
    return next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name)


def file_or_compressed(file: Path) -> Path:
    """Return a file, or its compressed form if there is only that."""
    compressed = (file.with_name(f"{file.name}{suffix}") for suffix in SUFFIXES)
    return file if file.is_file() else next((f for f in compressed if f.is_file()), file)


@contextlib.contextmanager
def open_text(file: Path) -> Iterator[IO[bytes]]:
    """Open a text file; one with a suffix of `SUFFIXES` is unpacked while it is read.

    Raises:
        DataError: the file cannot be read, is damaged, or unpacks to too many bytes.
    """
    with contextlib.ExitStack() as stack:
        try:
            raw = stack.enter_context(file.open("rb"))
            stream = stack.enter_context(_unpacked(file, raw))
        except OSError as error:
            raise DataError(f"cannot read {file}", error.strerror or str(error)) from None
        yield stream


def _unpacked(file: Path, raw: IO[bytes]) -> IO[bytes]:
    """Return the stream of a file's content."""
    stream: Any
    damage: tuple[type[Exception], ...] = DAMAGE
    if file.suffix == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif file.suffix == ".bz2":
        stream = bz2.BZ2File(raw)
    elif file.suffix == ".xz":
        stream = _Streams(raw)
    elif file.suffix == ".zst":
        zstd = _zstd(file)
        stream, damage = zstd.ZstdFile(raw), (*DAMAGE, zstd.ZstdError)
    else:
        _check_unpacked(file, cast(io.BufferedReader, raw).peek(6))
        return raw
    return cast("IO[bytes]", io.BufferedReader(_Bounded(file, stream, damage), CHUNK))


def _check_unpacked(file: Path, begin: bytes) -> None:
    """Make sure that a file whose name has no suffix of a compression is not compressed.

    Raises:
        DataError: its first bytes are those of a compressed file, or of an archive.
    """
    suffix = next((suffix for suffix, magic in MAGIC.items() if begin.startswith(magic)), None)
    if suffix == ".zip":
        why, next_ = "it may be a table of a spreadsheet", "Unpack it, or save the table as CSV"
    elif suffix:
        name = shlex.quote(str(file))
        why, next_ = f"its name does not end in {suffix}", f"Rename it: mv {name} {name}{suffix}"
    else:
        return
    raise DataError(f"{file} is packed, as {suffix} files are", why, next_)


def _zstd(file: Path) -> Any:
    """Return Python's module for zstd.

    Raises:
        DataError: this Python has none.
    """
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:  # an older Python, or one that was built without the library
        raise DataError(
            f"cannot read {file}",
            "this Python has no zstd; most have it from version 3.14 on",
            f"Unpack it: zstd -d {file}",
        ) from None


class _Streams(io.RawIOBase):
    """The content of an xz file, whose decompressor has a limit of memory."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        self.decompressor = lzma.LZMADecompressor(memlimit=MEMORY_LIMIT)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self.decompressor.eof:
                rest = self.decompressor.unused_data.lstrip(b"\0") or self.raw.read(CHUNK)
                if not rest:
                    return 0
                self.decompressor = lzma.LZMADecompressor(memlimit=MEMORY_LIMIT)
            else:
                rest = self.raw.read(CHUNK) if self.decompressor.needs_input else b""
                if self.decompressor.needs_input and not rest:
                    raise EOFError("it ends early")
            content = self.decompressor.decompress(rest, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)


class _Bounded(io.RawIOBase):
    """What another stream unpacks, up to a size that depends on the compressed file's."""

    def __init__(self, file: Path, stream: Any, damage: tuple[type[Exception], ...]) -> None:
        self.file, self.stream, self.damage, self.size = file, stream, damage, 0
        self.most = FREE_SIZE + RATIO_LIMIT * file.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = int(self.stream.readinto(buffer))
        except self.damage as error:
            reason = str(error)
            raise DataError(
                f"{self.file} is damaged", reason, "Pack or download it again"
            ) from None
        self.size += count
        if self.size > self.most:
            raise DataError(
                f"{self.file} unpacks to more than {self.most:,} bytes",
                "no text is compressed so well",
                "If you trust it, unpack it first",
            )
        return count
