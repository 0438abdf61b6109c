"""The hub `file://`: a folder, shared or not, with the same pinning and checks as any hub.

A push writes:

PATH/refs/REVISION      the commit of a branch, 40 hexadecimal digits
PATH/COMMIT/            the files of a commit, which never change
PATH/COMMIT/manifest    one line for each file: its SHA-256, its size and its name
PATH/.pushing           locked by the process that pushes

A commit's name is the digest of its manifest, so it covers every byte of the commit. A plain
checkpoint folder is also an address: it has one commit, named by its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from zoo.checkpoint.format import CONFIG, FILES
from zoo.errors import (
    CheckpointError,
    ConflictError,
    HubError,
    IntegrityError,
    NotFoundError,
    writing,
)
from zoo.files import flush, mend_folder, read_bytes, read_text, replace_file, whole_folder
from zoo.hub.contract import Commit, Hub, Listing, LocalCommit, Progress
from zoo.hub.digest import FileDigest
from zoo.registry.address import COMMIT, Address, is_inside

MAIN, MANIFEST, REFS = "main", "manifest", "refs"
SIZE = re.compile(r"[0-9]{1,15}")
LEFT = re.compile(rf"\.{COMMIT.pattern}\.[0-9]+\.(part|old)")
"""What a push that was killed leaves beside the folder of its commit."""
OF_SYSTEMS = re.compile(
    r"\.DS_Store|\._.*|\.(localized|Trashes|TemporaryItems|Spotlight-V100|fseventsd|directory)"
    r"|Thumbs\.db|desktop\.ini|\$RECYCLE\.BIN|System Volume Information"
    r"|\.(nfs|fuse_hidden|smbdelete).*|\.Trash-.*|lost\+found|\.snapshots?|@eaDir",
    re.IGNORECASE,
)
"""What file managers and file systems put into any folder."""
WAIT = 30
"""The longest time in seconds to wait for another push."""


class Folder(Hub):
    """Repositories that are folders."""

    def check(self, address: Address) -> None:
        """Raise if the path is not absolute or contains `..`."""
        parts = Path(address.path).parts
        if not Path(address.path).is_absolute() or ".." in parts or "\0" in address.path:
            raise HubError(
                f"invalid address {address}", "file:// needs an absolute path: file:///a/b"
            )

    def listing(self, address: Address) -> Listing:
        """Return a commit's files as its manifest lists them."""
        root = Path(address.path)
        if not os.path.isdir(root):
            raise NotFoundError(f"no repository {address.at(None)}", "the folder does not exist")
        revision = address.revision or MAIN
        if (root / CONFIG).exists():
            if address.commit is None and address.revision is not None:
                raise NotFoundError(f"{address.at(None)} has no revision {revision!r}")
            digests = _digests(root)
            commit = commit_name(manifest(digests))
            if address.commit not in (None, commit):
                raise IntegrityError(
                    f"{address} has changed", f"its files are now those of commit {commit}"
                )
            return Listing(commit, digests)
        commit = address.commit or _read_ref(root / REFS / revision) or ""
        if not commit or not (root / commit).is_dir():
            raise NotFoundError(f"{address.at(None)} has no revision {revision!r}")
        return Listing(commit, _read_manifest(root / commit / MANIFEST, commit))

    def local(self, address: Address) -> LocalCommit | None:
        """Return the folder itself: all of its files are local."""
        try:
            listing = self.listing(address)
        except NotFoundError:
            return None
        return LocalCommit(listing.commit, _folder(address, listing.commit), listing.files)

    def fetch(
        self, address: Address, path: str, digest: FileDigest, progress: Progress | None
    ) -> Path:
        """Return the file's path: it is used in place."""
        file = _folder(address, str(address.commit)) / path
        if progress is not None:
            progress(path, digest.size, digest.size)
        return file

    def discard(self, file: Path) -> None:
        """Keep the file: it belongs to the repository, not to a cache."""

    def record(self, address: Address, commit: str) -> None:
        """Do nothing: the repository itself is local."""

    def check_push(self, address: Address, *, private: bool) -> None:
        """Raise unless the folder is new, empty or a hub, or if the branch excludes another."""
        if private:
            raise HubError(
                f"{address} cannot be made private", "the permissions of its folder apply"
            )
        root, ref = Path(address.path), _ref(address)
        reason = "it is a checkpoint itself" if (root / CONFIG).exists() else _no_hub(root)
        if file := next((path for path in (root, *root.parents) if path.is_file()), None):
            reason = f"{file} is a file"
        if reason:
            raise HubError(f"cannot push to {root}", reason, "Choose a new or an empty folder")
        if ref.is_dir() or any(parent.is_file() for parent in ref.parents):
            why = "names of branches are paths: main and main/new exclude each other"
            raise HubError(f"cannot push to {address}", why, "Choose another branch")

    def create(self, address: Address, *, private: bool) -> None:
        """Do nothing: `commit` creates the folders."""

    def commit(self, address: Address, commit: Commit) -> str:
        """Write the commit's folder completely, then move the branch to it."""
        root, ref = Path(address.path), _ref(address)
        sent = _digests(commit.folder, commit.files)
        with writing(root, HubError):
            ref.parent.mkdir(parents=True, exist_ok=True)
            with _exclusive(root):
                return _commit(address, ref, sent, commit)

    def damaged(self, address: Address, listing: Listing) -> list[str]:
        """Return the files of a commit that are missing or do not match its manifest."""
        folder = _folder(address, listing.commit)
        return [
            path for path, digest in listing.files.items() if not _is_good(folder, path, digest)
        ]


def _no_hub(root: Path) -> str:
    """Return why a folder is neither empty nor a hub; nothing if it is, or does not exist.

    Raises:
        HubError: it cannot be read.
    """
    with writing(root, HubError):
        names = sorted(os.listdir(root)) if os.path.isdir(root) else []
        foreign = (n for n in names if not (OF_SYSTEMS.fullmatch(n) or _of_push(root / n)))
        other = next(foreign, "")
    return f"it is no hub, and holds {other}" if other else ""


def _of_push(path: Path) -> bool:
    """Return whether a push writes such a file or folder, or leaves it where it is killed.

    What another push has just moved away is no longer there.
    """
    if COMMIT.fullmatch(path.name) and path.is_dir():
        return (path / MANIFEST).is_file() or not any(path.iterdir())
    if COMMIT.fullmatch(path.name) or path.name == REFS:
        return path.is_dir() or not path.exists()
    return path.name == ".pushing" or LEFT.fullmatch(path.name) is not None


def _commit(address: Address, ref: Path, sent: dict[str, FileDigest], commit: Commit) -> str:
    """Write a commit of the files `sent`, move the branch `ref` to it, and return its name.

    Raises:
        ConflictError: the branch has moved since it was read.
        OSError: the system refuses it.
    """
    root, now = Path(address.path), _read_ref(ref)
    others = _others(root, now, commit.files)
    name = commit_name(manifest(sent | others))
    if now not in (name, commit.parent):
        raise ConflictError(
            f"{address} has changed",
            f"it is at commit {now}, and this push is based on {commit.parent}",
            "Push again to see what would change now",
        )
    for left in root.iterdir():  # by killed pushes, also of other commits
        if COMMIT.fullmatch(left.name[1:41]) and left.name.startswith("."):
            mend_folder(root / left.name[1:41])
    if not _is_whole(root / name, sent | others):
        with whole_folder(root / name, replace=True) as part:
            for path, digest in sent.items():
                _copy(commit.folder / path, part / path)
                if not digest.matches(part / path):
                    raise ConflictError(f"{path} has changed during the push", "", "Push again")
            for path, digest in others.items():
                _copy(root / str(now) / path, part / path)
                digest.verify(part / path, f"{path} of {address.at(now)}")
            (part / MANIFEST).write_text(manifest(sent | others), encoding="utf-8")
    if now != name:
        replace_file(ref, f"{name}\n")
        flush(ref.parent)
    return name


def _others(root: Path, commit: str | None, files: Sequence[str]) -> dict[str, FileDigest]:
    """Return the files of a commit that have none of these names: a push leaves them alone."""
    if commit is None or not (root / commit).is_dir():
        return {}
    listed = _read_manifest(root / commit / MANIFEST, commit)
    return {path: digest for path, digest in listed.items() if path not in files}


def _is_whole(folder: Path, digests: Mapping[str, FileDigest]) -> bool:
    """Return whether a commit's folder has its manifest and all of its files, undamaged."""
    text = manifest(digests).encode()
    listed = FileDigest(len(text), hashlib.sha256(text).hexdigest())
    return all(_is_good(folder, *file) for file in [*digests.items(), (MANIFEST, listed)])


def _is_good(folder: Path, path: str, digest: FileDigest) -> bool:
    return (folder / path).is_file() and digest.matches(folder / path)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_bytes(source))


def _ref(address: Address) -> Path:
    """Return the file that names the commit of an address's branch."""
    return Path(address.path) / REFS / (address.revision or MAIN)


def _folder(address: Address, commit: str) -> Path:
    root = Path(address.path)
    return root if (root / CONFIG).exists() else root / commit


def _digests(folder: Path, files: Sequence[str] = FILES) -> dict[str, FileDigest]:
    return {name: FileDigest.of(folder / name) for name in files if (folder / name).is_file()}


def manifest(digests: Mapping[str, FileDigest]) -> str:
    """Return the manifest of a commit with these files."""
    return "".join(f"{digests[p].sha256} {digests[p].size} {p}\n" for p in sorted(digests))


def commit_name(text: str) -> str:
    """Return the name of the commit with this manifest."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _read_manifest(file: Path, commit: str) -> dict[str, FileDigest]:
    try:
        text = read_text(file, limit=1_000_000)
    except CheckpointError as error:
        raise HubError(f"commit {commit[:12]} is damaged", str(error)) from None
    lines = [line.split(" ", 2) for line in text.splitlines()]
    if commit_name(text) != commit or not all(
        len(line) == 3 and is_inside(line[2]) and SIZE.fullmatch(line[1]) for line in lines
    ):
        raise IntegrityError(f"{file} has changed", f"it is not the manifest of commit {commit}")
    return {path: FileDigest(int(size), sha256) for sha256, size, path in lines}


def _read_ref(ref: Path) -> str | None:
    try:
        text = read_bytes(ref, 1000).decode("ascii", errors="replace").strip()
    except CheckpointError:
        return None
    if not COMMIT.fullmatch(text):
        raise HubError(f"{ref} is damaged", "it is not a commit of 40 hexadecimal digits")
    return text


@contextlib.contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """Lock the repository against other pushes; the lock ends with its process."""
    try:
        with FileLock(root / ".pushing", timeout=WAIT):
            yield
    except Timeout:
        raise ConflictError(
            f"another push to {root} is running", f"for over {WAIT} s", "Try again later"
        ) from None
