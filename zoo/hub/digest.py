"""The one check of a file against its expected size and digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from zoo.errors import IntegrityError


@dataclass(frozen=True)
class FileDigest:
    """The expected content of a file: its size in bytes, and its SHA-256 or its git object id."""

    size: int
    sha256: str = ""
    git: str = ""

    @classmethod
    def of(cls, file: Path) -> FileDigest:
        """Return the size and the SHA-256 of a file."""
        return cls(file.stat().st_size, _hash(file, git=False))

    def difference(self, file: Path) -> str:
        """Return how a file differs from what is expected; empty if it does not."""
        expected = self.sha256 or self.git
        try:
            size = file.stat().st_size
            if size != self.size:
                return f"it has {size:,} bytes, not {self.size:,}"
            actual = _hash(file, git=not self.sha256)
        except FileNotFoundError:  # it may have been removed meanwhile
            return "it is missing"
        if actual != expected:
            kind = "SHA-256" if self.sha256 else "git object id"
            return f"its {kind} is {actual[:12]}…, not {expected[:12]}…"
        return ""

    def matches(self, file: Path) -> bool:
        """Return whether a file is as expected."""
        return not self.difference(file)

    def verify(self, file: Path, name: str) -> None:
        """Make sure that a file is as expected; `name` is its name in the error.

        Raises:
            IntegrityError: it is not.
        """
        difference = self.difference(file)
        if difference:
            raise IntegrityError(
                f"{name} does not match its digest",
                difference,
                "Pull it again; if that does not help, report it to the owner of the repository",
            )

    def agrees_with(self, other: FileDigest) -> bool:
        """Return whether both can describe the same file, by what both of them contain."""
        return (
            self.size == other.size
            and (not self.sha256 or not other.sha256 or self.sha256 == other.sha256)
            and (not self.git or not other.git or self.git == other.git)
        )


def _hash(file: Path, *, git: bool) -> str:
    """Return the SHA-256 of a file, or the SHA-1 that git computes for it."""
    hasher = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        hasher.update(b"blob %d\0" % file.stat().st_size)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hasher).hexdigest()
