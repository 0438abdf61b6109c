"""Careful reading and whole-file writing.

Files that may come from anywhere are read only if they are regular, of bounded size and
unambiguous. Files of the zoo are written completely or not at all. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import secrets
import shutil
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from zoo.errors import CheckpointError, LockedError, naming_full_disk

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

JSON_LIMIT = 4_000_000
"""The largest size of a configuration, in bytes."""

TEXT_LIMIT = 100_000_000
"""The largest size of a tokenizer, a training record or a card, in bytes."""

VALUES_LIMIT = 5_000_000
"""The most values in a JSON text: each takes up to a hundred times its two bytes in memory."""

_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # by a file system, such as a share's


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
        with open(file, "rb", buffering=0, opener=lambda path, _: os.open(path, flags)) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{file} cannot be read", "it is not a regular file")
            if limit is not None and status.st_size > limit:
                why = f"it has {status.st_size:,} bytes; the limit is {limit:,}"
                raise CheckpointError(f"{file} cannot be read", why)
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
    """Parse JSON without duplicate keys, NaN, infinities and lone surrogates, of bounded memory.

    Raises:
        ValueError: the text is not such JSON.
    """

    def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        if len(value := dict(pairs)) < len(pairs):
            (name, _), *_ = (Counter(name for name, _ in pairs)).most_common(1)
            raise ValueError(f"duplicate key {name[:100]!r}")
        return value

    def finite(number: str) -> float:
        if math.isfinite(value := float(number)):
            return value
        raise ValueError(f"{number[:40]} is too large for a number")

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a JSON number")

    content = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    if sum(map(content.count, "[{,")) > VALUES_LIMIT:
        raise ValueError(f"it has over {VALUES_LIMIT:,} values")
    try:
        value = json.loads(
            content, object_pairs_hook=without_duplicates, parse_constant=refuse, parse_float=finite
        )
        if "\\u" in content:  # half of a surrogate pair can be escaped, but not be written again
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair") from None
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
        raise CheckpointError(f"{file} cannot be read", str(error)) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read", "it is not a JSON object")
    return value


def damaged(file: Path, reason: object) -> CheckpointError:
    """Return the error for a file whose content is damaged."""
    hint = "The file is damaged: pull or train it again"
    return CheckpointError(f"{file} cannot be read", str(reason), hint)


@contextlib.contextmanager
def locked(file: Path, wait: float = 60.0) -> Iterator[None]:
    """Hold the lock of a file that several processes read, change and write.

    The lock is the system's, on the folder, or else on the file `.NAME.lock`, which stays.
    It ends with its process. `wait` is the longest time in seconds to wait for it.

    Raises:
        LockedError: another process holds it for longer.
        OSError: there is no such folder, or the lock file cannot be opened.
    """
    from filelock import FileLock, Timeout

    file.parent.stat()
    end = time.monotonic() + wait
    try:
        with contextlib.ExitStack() as stack:
            while (free := stack.enter_context(held(file.parent))) is False:
                stack.close()
                if time.monotonic() > end:
                    raise Timeout(str(file))
                time.sleep(0.02)
            if free is None or fcntl is None:
                stack.enter_context(FileLock(file.with_name(f".{file.name}.lock"), timeout=wait))
            yield
    except Timeout:
        raise LockedError(
            f"{file} is in use", f"another process has changed it for {wait:g} s", "Try again later"
        ) from None


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` if the block succeeds, else it is removed.

    An existing folder is replaced in one step where the system can exchange two names. What killed
    processes left of earlier attempts is removed first.

    Raises:
        CheckpointError: `folder` exists and `replace` is not set.
    """
    folder = folder.resolve() if folder.is_symlink() else folder  # a link stays
    folder.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is not None:
        mend_folder(folder)
    with _held_part(folder, is_folder=True) as part:
        yield part
        for file in [*part.rglob("*"), part]:
            flush(file)
        if replace and folder.exists():
            _replace_folder(folder, part)
        elif folder.exists():
            raise CheckpointError(f"{folder} already exists", "it was created in the meantime")
        else:
            part.rename(folder)
            flush(folder.parent)


def _replace_folder(folder: Path, part: Path) -> None:
    """Give `part` the name of `folder`, and remove the old folder once that is on disk."""
    old = part
    if not exchange_names(folder, part):
        # If the process is killed between the two renames, `mend_folder` restores the old folder.
        old = part.with_suffix(".old")
        with held(folder):
            folder.rename(old)
            part.rename(folder)
    flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def exchange_names(one: Path, other: Path) -> bool:
    """Exchange the names of two files or folders in one system call.

    Returns False, and changes nothing, where the system or the file system cannot.
    """
    name, here = ("renameatx_np", -2) if sys.platform == "darwin" else ("renameat2", -100)
    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, TypeError, OSError):
        return False
    exchange = ctypes.c_uint(2)  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
    if call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (*_UNSUPPORTED, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(one))


def mend_folder(folder: Path) -> list[str]:
    """Clean up after processes that were killed while they wrote `folder`; return a report.

    A half-written folder is removed. The previous folder is restored if no new one replaced it.
    Folders that another process is writing are kept; where the system has no such locks (Windows),
    no other process may be writing `folder`.
    """
    report = []
    left = [f for f in _left_over(folder, ".old", ".part") if f.is_dir() and not f.is_symlink()]
    for old in sorted((f for f in left if f.suffix == ".old"), key=lambda f: f.stat().st_mtime):
        with held(old) as abandoned:
            if abandoned and folder.exists():
                shutil.rmtree(old)
            elif abandoned:
                old.rename(folder)
                report.append(f"{folder} is restored: the process that replaced it was killed")
    for part in (f for f in left if f.suffix == ".part"):
        with held(part) as abandoned:
            if abandoned:
                shutil.rmtree(part, ignore_errors=True)
                report.append(f"a half-written {folder.name} is removed")
    return report


def _left_over(path: Path, *suffixes: str) -> list[Path]:
    """Return the temporary files and folders of all attempts to write `path`."""
    prefix = f".{path.name}."
    try:
        names = [e for e in os.listdir(path.parent) if e.startswith(prefix)]
    except OSError:
        return []
    return [
        path.with_name(name)
        for name in names
        for suffix in suffixes
        if name.endswith(suffix) and name[len(prefix) : -len(suffix)].isdigit()
    ]


@contextlib.contextmanager
def _held_part(path: Path, *, is_folder: bool) -> Iterator[Path]:
    """Create a temporary file or folder beside `path`; it is locked, and removed at the end.

    Its permissions are those of what it replaces.
    """
    free: bool | None = False
    with contextlib.ExitStack() as stack:
        while free is False:  # unless another process has taken it for abandoned in this moment
            part = path.with_name(f".{path.name}.{secrets.randbelow(10**12)}.part")
            try:
                (part.mkdir if is_folder else part.touch)()
            except OSError as error:  # the name of the temporary file says nothing to a user
                raise OSError(error.errno, error.strerror, str(path)) from None
            with contextlib.suppress(OSError):  # there is nothing yet, or no such permissions
                part.chmod(path.stat().st_mode & 0o777 | (0o700 if is_folder else 0o600))
            free = stack.enter_context(held(part))
            free = free if part.exists() else False
        stack.enter_context(naming_full_disk(path))
        try:
            yield part
        finally:
            shutil.rmtree(part, ignore_errors=True) if is_folder else part.unlink(missing_ok=True)


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool | None]:
    """Lock a file or folder until the block or the process ends; yield whether it was free.

    None: it cannot be locked here.
    """
    handle: int | None = None
    free: bool | None = True
    try:
        if fcntl is not None:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # it may be that another process has locked it, or removed it
        free = False if error.errno in (errno.EAGAIN, errno.ENOENT) else None
    try:
        yield free
    finally:
        if handle is not None:
            os.close(handle)


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `file` if the block succeeds, else it is removed."""
    file = Path(os.path.realpath(file))  # a link stays, unless it is one to itself
    for left in _left_over(file, ".part") if fcntl is not None else ():
        with held(left) as abandoned:
            if abandoned and left.is_file():
                left.unlink(missing_ok=True)
    with _held_part(file, is_folder=False) as part:
        yield part
        flush(part)
        part.replace(file)
        flush(file.parent)


def replace_file(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all; an existing file is replaced."""
    with whole_file(file) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def flush(path: Path) -> None:
    """Flush a file or folder to disk (fsync), if it can be; on Windows, files that are writable."""
    if fcntl is None and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if fcntl is None else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)


def write_json(file: Path, value: object) -> None:
    """Write a value as readable JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    file.write_text(f"{text}\n", encoding="utf-8")
