"""Where files are kept that can be made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zoo"


def contents() -> list[Contents]:
    """Return what the folders of the cache hold, without those that are empty."""
    entries = {kind: list(_entries(kind)) for kind in KINDS}
    return [Contents(kind, len(of), sum(map(_size, of))) for kind, of in entries.items() if of]


def clean(kinds: Sequence[str]) -> tuple[int, list[Path]]:
    """Remove what folders of the cache hold; return the freed bytes, and what others write now.

    Files that a running process has open stay readable for it.
    """
    from filelock import FileLock, Timeout  # slow to import, and every command imports this module

    freed, busy = 0, []
    for kind in kinds:
        for entry in _entries(kind):
            try:
                with FileLock(f"{entry}.lock", timeout=0):
                    size = _size(entry)
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                    freed += size
            except Timeout:
                busy.append(entry)
    return freed, busy


def _entries(kind: str) -> Iterator[Path]:
    """Yield what a folder holds, without locks and what is half-written, whose names are hidden.

    Exports are in a folder for each format.
    """
    pattern = "*/*" if kind == "exports" else "*"
    for entry in sorted((cache_folder() / kind).glob(pattern)):
        hidden = entry.name.startswith(".")
        if not hidden and not entry.name.endswith(".lock") and not entry.is_symlink():
            yield entry


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(path.lstat().st_size for path in files if path.is_file())
