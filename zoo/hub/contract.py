"""What a hub implements. Plugins subclass `Hub`; pull, push and all checks are the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.checkpoint.format import FILES
from zoo.hub.digest import FileDigest
from zoo.registry.address import Address

Progress = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes that are downloaded, and its size in bytes."""


@dataclass(frozen=True)
class Listing:
    """A repository at one commit, with the digest of each file."""

    commit: str
    files: Mapping[str, FileDigest]
    private: bool | None = None


@dataclass(frozen=True)
class Change:
    """One file that a push would `add`, `change` or `remove`."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class Commit:
    """What a push sends: the changes, and the commit on which they are based (None: no commit).

    `files` are the names of all files that a repository of this format may have.
    """

    folder: Path
    changes: Sequence[Change]
    parent: str | None
    message: str
    files: Sequence[str] = FILES


@dataclass(frozen=True)
class LocalCommit:
    """The files of a commit that are available without a request."""

    commit: str
    folder: Path
    files: Mapping[str, FileDigest] = field(default_factory=dict)


class Hub(ABC):
    """A store of checkpoints, each in a repository with commits.

    A commit's name has 40 hexadecimal digits, and its content never changes. The exceptions of all
    methods are subclasses of `zoo.errors.HubError`.
    """

    @property
    def offline(self) -> bool:
        """Whether the environment forbids requests to this hub."""
        return False

    @abstractmethod
    def check(self, address: Address) -> None:
        """Raise HubError if an address cannot be one of this hub."""

    @abstractmethod
    def listing(self, address: Address) -> Listing:
        """Return the content of an address now; its revision is resolved to a commit.

        Raises:
            UnavailableError, AccessError, NotFoundError, HubError: there is no listing.
        """

    @abstractmethod
    def local(self, address: Address) -> LocalCommit | None:
        """Return the local files of the commit that an address names, or named at the last pull.

        It makes no request. The digests are those that are known locally.
        """

    @abstractmethod
    def fetch(
        self, address: Address, path: str, digest: FileDigest, progress: Progress | None
    ) -> Path:
        """Download one file of a commit and return its local path; the caller checks it."""

    @abstractmethod
    def discard(self, file: Path) -> None:
        """Remove a file that `fetch` returned and that does not match its digest."""

    @abstractmethod
    def record(self, address: Address, commit: str) -> None:
        """Record that an address's revision is this commit, which is complete and checked here."""

    def base(self, address: Address) -> Listing | None:
        """Return what a new branch of an existing repository begins with; None if with nothing."""
        return None

    def check_push(self, address: Address, *, private: bool) -> None:  # noqa: B027  # most take all
        """Raise HubError if an address cannot be pushed to, whatever is sent; change nothing.

        A dry run calls it as a push does. `private` is what `create` gets.
        """

    @abstractmethod
    def create(self, address: Address, *, private: bool) -> None:
        """Create the repository and the branch of an address where they do not exist."""

    @abstractmethod
    def commit(self, address: Address, commit: Commit) -> str:
        """Send a commit, once, and return its name.

        Raises:
            ConflictError: the repository is no longer at the commit's parent.
        """

    def damaged(self, address: Address, listing: Listing) -> list[str]:
        """Return the files of a commit that the hub itself knows to be damaged: a push mends them.

        Only hubs whose files can change without a commit have such files.
        """
        return []

    def page(self, address: Address) -> str:
        """Return where a person can see an address, such as a web page."""
        return str(address)
