"""Where a checkpoint is found: addresses such as `hf://owner/repo@revision`, and the hubs they
lead to. No hub is imported here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from zoo.errors import HubError

if TYPE_CHECKING:
    pass

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
            HubError: it is not one, or its revision cannot be a name.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise HubError(
                f"{text!r} is no address", "one reads SCHEME://PATH or SCHEME://PATH@REVISION"
            )
        scheme, rest = match.groups()
        path, at, revision = rest.rpartition("@") if "@" in rest else (rest, "", "")
        fits = _REVISION.fullmatch(revision) and ".." not in revision and len(revision) <= 200
        if not path or (at and not fits):
            why = "it has no path" if not path else f"{revision!r} can be no branch, tag or commit"
            raise HubError(f"{text!r} is no address", why)
        return cls(scheme, path, revision or None)

    @staticmethod
    def is_one(text: str) -> bool:
        """Tell whether a text is meant as an address."""
        return _ADDRESS.fullmatch(text) is not None

    @property
    def commit(self) -> str | None:
        """The commit that the revision names by itself, if it does."""
        return self.revision if self.revision and COMMIT.fullmatch(self.revision) else None

    def at(self, revision: str | None) -> Address:
        """Return the address of another revision of the same."""
        return replace(self, revision=revision)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" + (f"@{self.revision}" if self.revision else "")


def is_inside(path: str) -> bool:
    """Tell whether a relative path, as a hub or a catalogue gives it, stays inside its folder."""
    parts = PurePosixPath(path).parts
    return (
        0 < len(path) <= 500
        and path == "/".join(parts)
        and not path.startswith("/")
        and ".." not in parts
        and not any(sign < " " or sign in '\\:*?"<>|\x7f' for sign in path)
    )
