"""Addresses of checkpoints, such as `hf://owner/repo@revision`. No hub is imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from zoo.errors import HubError

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*")


@dataclass(frozen=True)
class Address:
    """`SCHEME://PATH` or `SCHEME://PATH@REVISION`; the revision is a branch, a tag or a commit."""

    scheme: str
    path: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

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
        path, at, revision = rest.rpartition("@") if "@" in rest else (rest, "", "")
        fits = _REVISION.fullmatch(revision) and ".." not in revision and len(revision) <= 200
        if not path or (at and not fits):
            why = "it has no path" if not path else f"invalid branch, tag or commit {revision!r}"
            raise HubError(f"{text!r} is not an address", why)
        return cls(scheme, path, revision or None)

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
        return f"{self.scheme}://{self.path}" + (f"@{self.revision}" if self.revision else "")


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
