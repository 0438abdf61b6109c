"""Where files are kept that can be made again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from zoo.files import held

KINDS = {
    "imported": "checkpoints of other projects, converted",
    "exports": "exports that other engines run",
    "tokens": "tokenized training data",
    "pairs": "training data from Python iterables",
    "datasets": "generated datasets",
    "downloads": "downloaded datasets",
    "kernels": "compiled kernels",
}
"""The folders in the cache, and what they hold."""


class Contents(NamedTuple):
    """What a folder of the cache holds: how many things, and their size in bytes."""

    kind: str
    number: int
    size: int


def cache_folder() -> Path:
    """Return the folder for generated data: `ZOO_CACHE`, or `zoo` in the user's cache folder."""
    given = os.environ.get("ZOO_CACHE")
    if given:
        return Path(os.path.expanduser(given))
    return user_folder("XDG_CACHE_HOME", ".cache") / "zoo"


def user_folder(variable: str, name: str) -> Path:
    """Return the folder that a variable names, or that of this name in the user's home.

    A user without a home has none: the path is then one at which nothing can be.
    """
    try:
        return Path(os.environ.get(variable) or Path.home() / name)
    except RuntimeError:
        return Path(os.devnull) / name


@contextlib.contextmanager
def locked_entry(entry: Path) -> Iterator[None]:
    """Hold the lock of an entry of the cache: of several processes, one writes it.

    Raises:
        OSError: the lock cannot be had, as on a file system without locks; it names the entry.
    """
    from filelock import FileLock  # slow to import, and every command imports this module

    lock = FileLock(f"{entry}.lock")
    try:
        lock.acquire()
    except OSError as error:
        error.filename = error.filename or str(entry)
        raise
    try:
        yield
    finally:
        lock.release()


def contents() -> list[Contents]:
    """Return what the folders of the cache hold, without those that are empty."""
    entries = {kind: list(_entries(kind)) for kind in KINDS}
    return [Contents(kind, len(of), sum(map(_size, of))) for kind, of in entries.items() if of]


def clean(kinds: Sequence[str]) -> tuple[int, list[Path]]:
    """Remove what folders of the cache hold; return the freed bytes, and what others write now.

    Files that a running process has open stay readable for it. A lock file is removed while its
    lock is held here: a process that opened it just before finds it gone and locks a new one.
    """
    from filelock import FileLock, Timeout

    freed, busy = 0, []
    for kind in kinds:
        for entry in _entries(kind):
            try:
                with FileLock(f"{entry}.lock", timeout=0):
                    size = _size(entry)
                    with contextlib.suppress(FileNotFoundError):  # another process removed it
                        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                        freed += size
            except Timeout:
                busy.append(entry)
        for lock in sorted((cache_folder() / kind).glob(f"{_pattern(kind)}.lock")):
            if not lock.with_suffix("").exists() and lock.is_file():
                # Windows removes no file that is open.
                with contextlib.suppress(Timeout, OSError), FileLock(lock, timeout=0):
                    lock.unlink()
    return freed, busy


def _pattern(kind: str) -> str:
    """Return where a folder of the cache has its entries: exports are in one for each format."""
    return "*/*" if kind == "exports" else "*"


def _entries(kind: str) -> Iterator[Path]:
    """Yield what a folder holds, without locks and what another process is writing."""
    for entry in sorted((cache_folder() / kind).glob(_pattern(kind))):
        if entry.name.endswith(".lock") or entry.is_symlink():
            continue
        if not entry.name.startswith(".") or _is_abandoned(entry):
            yield entry


def _is_abandoned(entry: Path) -> bool:
    """Return whether an entry is a half-written folder whose process was killed."""
    if os.name == "nt" or entry.suffix not in (".part", ".old") or not entry.is_dir():
        return False  # on Windows no such folder is locked
    with held(entry) as free:
        return free is True


def _size(entry: Path) -> int:
    """Return the size of a file or folder; what is removed meanwhile counts for nothing."""
    files = [os.path.join(top, name) for top, _, names in os.walk(entry) for name in names]
    size = 0
    for file in files if entry.is_dir() else [entry]:
        with contextlib.suppress(FileNotFoundError):
            size += os.lstat(file).st_size
    return size
