"""What a hub can do. A plugin's hub is a subclass; pulling, pushing and checking are the same for
all of them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.errors import IntegrityError
from zoo.registry.address import Address

Show = Callable[[str, int, int], None]
"""Called with a file's name, the bytes of it that are here, and its size."""


@dataclass(frozen=True)
class Promise:
    """What is promised of a file: its size in bytes, and its SHA-256 or its git object id."""

    size: int
    sha256: str = ""
    git: str = ""

    def check(self, file: Path, name: str) -> None:
        """Make sure that a file's bytes are the promised ones.

        Raises:
            IntegrityError: they are not.
        """
        size = file.stat().st_size
        if size != self.size:
            raise IntegrityError(
                f"{name} is not what was promised", f"it has {size:,} bytes, not {self.size:,}"
            )
        wanted = self.sha256 or self.git
        found = digest(file, git=not self.sha256)
        if found != wanted:
            kind = "SHA-256" if self.sha256 else "git object id"
            raise IntegrityError(
                f"{name} is not what was promised",
                f"its {kind} is {found[:12]}…, not {wanted[:12]}…",
                "Pull it again; if it stays so, tell whoever keeps the repository",
            )


def digest(file: Path, *, git: bool = False) -> str:
    """Return a file's SHA-256, or the SHA-1 by which git knows it."""
    hasher = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        hasher.update(b"blob %d\0" % file.stat().st_size)
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
    return hasher.hexdigest()


@dataclass(frozen=True)
class Listing:
    """A repository at one commit: what it holds, and what is promised of each file."""

    commit: str
    files: Mapping[str, Promise]
    private: bool | None = None


@dataclass(frozen=True)
class Change:
    """One file that a push would `add`, `change` or `remove`."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class Commit:
    """What a push sends: the changes, and the commit that they were made against (None: none)."""

    folder: Path
    changes: Sequence[Change]
    parent: str | None
    message: str


@dataclass(frozen=True)
class Local:
    """What of a repository is here without asking anybody; `files` are the ones there."""

    commit: str
    folder: Path
    files: Mapping[str, Promise] = field(default_factory=dict)


class Hub(ABC):
    """A place that keeps checkpoints, each in a repository whose every change is a commit.

    A commit is named by 40 hexadecimal digits and always holds the same bytes. Whatever a method
    raises is a `zoo.errors.HubError`.
    """

    @abstractmethod
    def check(self, address: Address) -> None:
        """Make sure that an address can be one of this hub's; raise HubError where not."""

    @abstractmethod
    def listing(self, address: Address) -> Listing:
        """Return what stands at an address now; its revision is resolved to a commit.

        Raises:
            UnavailableError, AccessError, NotFoundError, HubError: it cannot be told.
        """

    @abstractmethod
    def here(self, address: Address) -> Local | None:
        """Return what is here of the commit that an address names, or named at the last pull.

        It asks nobody. The promises are as good as what is here allows.
        """

    @abstractmethod
    def fetch(self, address: Address, path: str, promise: Promise, show: Show | None) -> Path:
        """Bring one file of a commit here and return where it is; nothing is checked yet."""

    @abstractmethod
    def discard(self, file: Path) -> None:
        """Remove a file that `fetch` brought and that is not what was promised."""

    @abstractmethod
    def settle(self, address: Address, commit: str) -> None:
        """Note that the revision of an address is this commit, which is here, whole and checked."""

    @abstractmethod
    def create(self, address: Address, *, private: bool) -> None:
        """Make the repository and the branch of an address, as far as they are not there."""

    @abstractmethod
    def commit(self, address: Address, made: Commit) -> str:
        """Send a commit, once, and return its name.

        Raises:
            ConflictError: the repository is no longer at the commit's parent.
        """

    def page(self, address: Address) -> str:
        """Return where a person can look at an address."""
        return str(address)
