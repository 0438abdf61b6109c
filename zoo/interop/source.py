"""The files of a foreign checkpoint."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo.errors import ConversionError
from zoo.files import TEXT_LIMIT, read_bytes, read_json, read_text
from zoo.interop.unusable import FOLLOW, LINK, check_content, fault_in

MOST_FILES = 10_000
"""The most files of a folder that an import looks at."""


class Source:
    """A folder of foreign files, or one file and the folder in which it lies.

    Nothing is read but what an importer asks for by name, with checks and within limits.

    Args:
        path: the folder or the file.

    Raises:
        ConversionError: there is no such file or folder, or it is a pipe or a device.
    """

    def __init__(self, path: Path) -> None:
        if not os.path.exists(path):  # pathlib's raises if a name is too long
            raise ConversionError(f"no file or folder {str(path)!r}", "", "Check its path")
        if not path.is_file() and not path.is_dir():
            why = "it is a pipe or a device"
            raise ConversionError(f"{path} cannot be read", why, "Name a file or a folder")
        self.file = path if path.is_file() else None
        self.folder = path.parent if path.is_file() else path
        self._parsed: dict[tuple[str, int], dict[str, Any]] = {}

    def __str__(self) -> str:
        return str(self.file or self.folder)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the regular files directly in the folder, sorted.

        Raises:
            ConversionError: there are more than 10,000.
        """
        names = []
        for path in self.folder.iterdir():
            if path.is_file():
                names.append(path.name)
            if len(names) > MOST_FILES:
                raise ConversionError(
                    f"{self.folder} cannot be imported",
                    f"it has more than {MOST_FILES:,} files",
                    "Name the folder that holds the checkpoint alone",
                )
        return tuple(sorted(names))

    def has(self, name: str) -> bool:
        """Return whether the folder has a regular file of this name."""
        try:
            return (self.folder / name).is_file()
        except OSError:  # a name that is too long
            return False

    def path(self, name: str) -> Path:
        """Return the path of a file of the folder.

        Raises:
            ConversionError: the folder has no such file, or `name` leads out of the folder.
        """
        path = self.folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ConversionError(
                f"{self} cannot be imported", f"{name[:200]!r} is outside its folder"
            )
        if os.path.islink(path) and not os.path.exists(path):
            raise ConversionError(f"{self} cannot be imported", f"{name[:200]} is {LINK}", FOLLOW)
        if not self.has(name):
            raise ConversionError(f"{self} cannot be imported", f"it has no {name[:200]}")
        return path

    def json(self, name: str, limit: int = TEXT_LIMIT) -> dict[str, Any]:
        """Return the JSON object in a file of at most `limit` bytes, which is parsed once.

        The object is new each time, what it contains is not.

        Raises:
            ConversionError: the folder has no such file, or it is a pointer of Git LFS.
            CheckpointError: it is too large, or not a JSON object.
        """
        if (name, limit) not in self._parsed:
            self._parsed[name, limit] = read_json(self._with_content(name), limit)
        return dict(self._parsed[name, limit])

    def text(self, name: str, limit: int = TEXT_LIMIT) -> str:
        """Return the text of a file of at most `limit` bytes.

        Raises:
            ConversionError: the folder has no such file, or it is a pointer of Git LFS.
            CheckpointError: it is too large, or not UTF-8.
        """
        return read_text(self._with_content(name), limit)

    def bytes(self, name: str, limit: int) -> bytes:
        """Return the content of a file of at most `limit` bytes.

        Raises:
            ConversionError: the folder has no such file, or it is a pointer of Git LFS.
            CheckpointError: it is too large.
        """
        return read_bytes(self._with_content(name), limit)

    def fault(self) -> tuple[str, str]:
        """Return why files of no known format may be a checkpoint, and what to do, or two "".

        Links lead nowhere, a file is a pointer of Git LFS or incomplete, or all is in an archive.
        """
        return fault_in(self.folder, self.names, self.file)

    def _with_content(self, name: str) -> Path:
        """Return the path of a file of the folder, which is not a pointer of Git LFS."""
        path = self.path(name)
        check_content(path)
        return path
