"""Addresses of checkpoints, such as `hf://owner/repo@revision`. No hub is imported here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from zoo.errors import HubError

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEME = r"[a-z][a-z0-9+.-]*"
_ADDRESS = re.compile(f"({_SCHEME})://(.*)", re.DOTALL)
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*")

LONGEST_REVISION = 200
"""The most characters of a revision."""


@dataclass(frozen=True)
class Address:
    """`SCHEME://PATH` or `SCHEME://PATH@REVISION`; the revision is a branch, a tag or a commit.

    Raises:
        HubError: the path is empty, or the revision is invalid.
    """

    scheme: str
    path: str
    revision: str | None = None

    def __post_init__(self) -> None:
        """Check the path and the revision."""
        name = self.revision
        if not all(isinstance(part, str) for part in (self.scheme, self.path, name or "")):
            raise HubError(f"{str(self)!r} is not an address", "a part of it is not a text")
        if not self.path:
            raise HubError(f"{str(self)!r} is not an address", "it has no path")
        if name is not None and (
            not _REVISION.fullmatch(name) or ".." in name or len(name) > LONGEST_REVISION
        ):
            why = f"invalid branch, tag or commit {name!r}"
            raise HubError(f"{str(self)!r} is not an address", why)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        The last @ begins the revision, but in `file://` not if it is in the name of a folder that
        exists, unless a commit follows.

        Raises:
            HubError: it is not an address, or its revision is invalid.
        """
        match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise HubError(
                f"{text!r} is not an address",
                "an address is SCHEME://PATH or SCHEME://PATH@REVISION",
            )
        scheme, rest = match.groups()
        path, at, revision = rest.rpartition("@")
        folder = f"{path}@{revision.partition('/')[0]}"
        if not at or (
            scheme == "file" and not COMMIT.fullmatch(revision) and os.path.isdir(folder)
        ):
            return cls(scheme, rest)
        return cls(scheme, path, revision)

    @staticmethod
    def is_one(text: str) -> bool:
        """Return whether a text has the form of an address."""
        return _ADDRESS.fullmatch(text) is not None

    @property
    def commit(self) -> str | None:
        """The revision if it is a commit, else None."""
        return self.revision if self.revision and COMMIT.fullmatch(self.revision) else None

    def at(self, revision: str | None) -> Address:
        """Return the address with another revision."""
        return replace(self, revision=revision)

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{self.scheme}://{self.path}{revision}"


def is_scheme(name: str) -> bool:
    """Return whether an address can begin with `NAME://`."""
    return re.fullmatch(_SCHEME, name) is not None


def is_inside(path: str) -> bool:
    """Return whether a relative path of a hub or a catalogue stays inside its folder."""
    parts = PurePosixPath(path).parts
    return (
        0 < len(path) <= 500
        and path == "/".join(parts)
        and not path.startswith("/")
        and ".." not in parts
        and not any(character < " " or character in '\\:*?"<>|\x7f' for character in path)
    )
