"""Files that may come from anywhere, read with care: regular, bounded, and of one meaning only;
and files of our own, written whole or not at all. No torch here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from zoo.errors import CheckpointError

JSON_LIMIT = 4_000_000
"""The most bytes of a configuration."""

TEXT_LIMIT = 200_000_000
"""The most bytes of a tokenizer, a training record or a card."""


def read_bytes(file: Path, limit: int | None = None, *, first: int = -1) -> bytes:
    """Return a regular file's bytes, or the `first` so many of them.

    Raises:
        CheckpointError: it is missing, is no regular file, or has more than `limit` bytes.
    """
    try:
        # Without waiting: a pipe in the file's place would otherwise never be opened.
        how = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(file, how)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{file} cannot be read", "it is not a regular file")
            if limit is not None and status.st_size > limit:
                raise CheckpointError(
                    f"{file} cannot be read",
                    f"it has {status.st_size:,} bytes, and {limit:,} are the most",
                )
            return stream.read(first)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read", error.strerror or str(error)) from None


def read_text(file: Path, limit: int = TEXT_LIMIT) -> str:
    """Return a regular file's text.

    Raises:
        CheckpointError: as `read_bytes`, or it is not UTF-8.
    """
    try:
        return read_bytes(file, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{file} cannot be read", f"it is not UTF-8: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON in which a key stands once and every number is finite.

    Raises:
        ValueError: it is not such.
    """

    def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} stands twice")
        return value

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(file: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointError: the file is not one, or too large.
    """
    try:
        value = parse_json(read_bytes(file, limit))
    except ValueError as error:
        raise CheckpointError(f"{file} cannot be read", " ".join(str(error).split())) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read", "it is not a JSON object")
    return value


def damaged(file: Path, reason: object) -> CheckpointError:
    """Return the error that says so."""
    return CheckpointError(
        f"{file} cannot be read",
        " ".join(str(reason).split()),
        "It is damaged: fetch or train it again",
    )


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a folder to write to; it becomes `folder` when the block ends well, and else vanishes.

    Raises:
        CheckpointError: `folder` is there and not to be replaced.
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
            # No file system swaps two folders for certain: a process that ends between the two
            # renames leaves the old one aside, and `mend_folder` brings it back.
            old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
        elif folder.exists():
            raise CheckpointError(f"{folder} is in the way", "it was not there at the start")
        else:
            beside.rename(folder)
        flush(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def mend_folder(folder: Path) -> list[str]:
    """Put right what processes that were killed left of writing `folder`; return what was done.

    A half-written folder is removed; an old one that was set aside comes back if no new one took
    its place. Nobody else may be writing `folder`.
    """
    done = []
    aside = f".{folder.name}."
    found = [f for f in folder.parent.glob(".*") if f.name.startswith(aside) and f.is_dir()]
    for old in sorted((f for f in found if f.suffix == ".old"), key=lambda f: f.stat().st_mtime):
        if _number_between(old.name, aside, ".old"):
            if folder.exists():
                shutil.rmtree(old)
            else:
                old.rename(folder)
                done.append(f"{folder} is back as it was before it was to be replaced")
    for part in found:
        if part.suffix == ".part" and _number_between(part.name, aside, ".part"):
            shutil.rmtree(part)
            done.append(f"a half-written {folder.name} is removed")
    return done


def _number_between(name: str, start: str, end: str) -> bool:
    return name.removeprefix(start).removesuffix(end).isdigit()


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Give a file to write to; it takes the place of `file` when the block ends well, and else
    vanishes.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield part
        flush(part)
        part.replace(file)
        flush(file.parent)
    finally:
        part.unlink(missing_ok=True)


def replace_file(file: Path, content: str | bytes) -> None:
    """Write a file whole, in place of the one that is there."""
    with whole_file(file) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def flush(path: Path) -> None:
    """Bring a file or folder to the disk itself."""
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
