"""Careful reading and whole-file writing.

Files that may come from anywhere are read only if they are regular, of bounded size and
unambiguous. Files of the zoo are written completely or not at all. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from zoo.errors import CheckpointError

JSON_LIMIT = 4_000_000
"""The largest size of a configuration, in bytes."""

TEXT_LIMIT = 200_000_000
"""The largest size of a tokenizer, a training record or a card, in bytes."""


@contextlib.contextmanager
def open_regular(file: Path, limit: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading, without buffering.

    Raises:
        CheckpointError: the file is missing, is not a regular file, has more than `limit` bytes, or
            cannot be read.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer would otherwise wait forever.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(file, flags)
        with os.fdopen(handle, "rb", buffering=0) as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{file} cannot be read", "it is not a regular file")
            if limit is not None and status.st_size > limit:
                raise CheckpointError(
                    f"{file} cannot be read",
                    f"it has {status.st_size:,} bytes; the limit is {limit:,}",
                )
            yield stream
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read", error.strerror or str(error)) from None


def read_bytes(file: Path, limit: int | None = None) -> bytes:
    """Return the content of a regular file.

    Raises:
        CheckpointError: as `open_regular`.
    """
    with open_regular(file, limit) as stream:
        return stream.read()


def read_text(file: Path, limit: int = TEXT_LIMIT) -> str:
    """Return the text of a regular file.

    Raises:
        CheckpointError: as `open_regular`, or the file is not UTF-8.
    """
    try:
        return read_bytes(file, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{file} cannot be read", f"it is not UTF-8: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON without duplicate keys, NaN and infinities.

    Raises:
        ValueError: the text is not such JSON.
    """

    def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"duplicate key {next(n for n in names if names.count(n) > 1)!r}")
        return value

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, object_pairs_hook=without_duplicates, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(file: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointError: the file is not a JSON object, or too large.
    """
    try:
        value = parse_json(read_bytes(file, limit))
    except ValueError as error:
        raise CheckpointError(f"{file} cannot be read", " ".join(str(error).split())) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read", "it is not a JSON object")
    return value


def damaged(file: Path, reason: object) -> CheckpointError:
    """Return the error for a file whose content is damaged."""
    return CheckpointError(
        f"{file} cannot be read",
        " ".join(str(reason).split()),
        "The file is damaged: pull or train it again",
    )


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` if the block succeeds, else it is removed.

    Raises:
        CheckpointError: `folder` exists and `replace` is not set.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        for file in [*beside.rglob("*"), beside]:
            flush(file)
        if replace and folder.exists():
            # Folders cannot be swapped atomically everywhere. If the process is killed between the
            # two renames, the old folder stays under its temporary name: `mend_folder` restores it.
            old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
        elif folder.exists():
            raise CheckpointError(f"{folder} already exists", "it was created in the meantime")
        else:
            beside.rename(folder)
        flush(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def mend_folder(folder: Path) -> list[str]:
    """Clean up after processes that were killed while they wrote `folder`; return a report.

    A half-written folder is removed. The previous folder is restored if no new one replaced it.
    No other process may be writing `folder`.
    """
    report = []
    prefix = f".{folder.name}."
    folders = [f for f in folder.parent.glob(".*") if f.name.startswith(prefix) and f.is_dir()]
    for old in sorted((f for f in folders if f.suffix == ".old"), key=lambda f: f.stat().st_mtime):
        if _number_between(old.name, prefix, ".old"):
            if folder.exists():
                shutil.rmtree(old)
            else:
                old.rename(folder)
                report.append(f"{folder} is restored: the process that replaced it was killed")
    for part in folders:
        if part.suffix == ".part" and _number_between(part.name, prefix, ".part"):
            shutil.rmtree(part)
            report.append(f"a half-written {folder.name} is removed")
    return report


def _number_between(name: str, start: str, end: str) -> bool:
    return name.removeprefix(start).removesuffix(end).isdigit()


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `file` if the block succeeds, else it is removed."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield part
        flush(part)
        part.replace(file)
        flush(file.parent)
    finally:
        part.unlink(missing_ok=True)


def replace_file(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all; an existing file is replaced."""
    with whole_file(file) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def flush(path: Path) -> None:
    """Flush a file or folder to disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(file: Path, value: object) -> None:
    """Write a value as readable JSON."""
    file.write_text(
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
