"""The hub `file://`: a folder on a disk, shared or not, with the pinning and the checks of any hub.

What is pushed there stands so:

PATH/refs/REVISION      the commit that a branch is at, 40 hexadecimal digits
PATH/COMMIT/            the files of a commit, never changed once they are there
PATH/COMMIT/manifest    a line for each: its SHA-256, its size and its name

A commit's name is the digest of its manifest, so that it vouches for every byte. A plain
checkpoint folder is also an address: it has one commit, named by what it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from zoo.checkpoint.format import CONFIG, FILES
from zoo.errors import CheckpointError, ConflictError, HubError, IntegrityError, NotFoundError
from zoo.files import flush, read_bytes, read_text, replace_file, whole_folder
from zoo.hub.contract import Commit, Hub, Listing, Local, Promise, Show, digest
from zoo.registry.address import COMMIT, Address

MAIN, MANIFEST = "main", "manifest"


class Folder(Hub):
    """Repositories that are folders."""

    def check(self, address: Address) -> None:
        """Make sure that the path is absolute and does not climb."""
        parts = Path(address.path).parts
        if not Path(address.path).is_absolute() or ".." in parts or "\0" in address.path:
            raise HubError(f"{address} is no address", "file:// takes a whole path: file:///a/b")

    def listing(self, address: Address) -> Listing:
        """Return what a commit's manifest promises; its name is the manifest's digest."""
        root = Path(address.path)
        if not root.is_dir():
            raise NotFoundError(f"no repository {address.at(None)}", "there is no such folder")
        revision = address.revision or MAIN
        if (root / CONFIG).exists():
            if address.commit is None and address.revision is not None:
                raise NotFoundError(f"{address.at(None)} has no revision {revision!r}")
            promises = _promises(root)
            commit = name_of(manifest(promises))
            if address.commit not in (None, commit):
                raise IntegrityError(
                    f"{address} is not what it was", f"its files are now those of {commit}"
                )
            return Listing(commit, promises)
        commit = address.commit or _read_ref(root / "refs" / revision) or ""
        if not commit or not (root / commit).is_dir():
            raise NotFoundError(f"{address.at(None)} has no revision {revision!r}")
        return Listing(commit, _read_manifest(root / commit / MANIFEST, commit))

    def here(self, address: Address) -> Local | None:
        """Return the folder itself: it is here, or it is not."""
        try:
            listing = self.listing(address)
        except NotFoundError:
            return None
        return Local(listing.commit, _place(address, listing.commit), listing.files)

    def fetch(self, address: Address, path: str, promise: Promise, show: Show | None) -> Path:
        """Return where the file stands: it is used in place."""
        file = _place(address, str(address.commit)) / path
        if show is not None:
            show(path, promise.size, promise.size)
        return file

    def discard(self, file: Path) -> None:
        """Leave the file: it is not ours to remove."""

    def settle(self, address: Address, commit: str) -> None:
        """Do nothing: the repository is here itself."""

    def create(self, address: Address, *, private: bool) -> None:
        """Do nothing: a commit makes the folders that it needs."""
        if private:
            raise HubError(f"{address} cannot be made private", "it has the rights of its folder")

    def commit(self, address: Address, made: Commit) -> str:
        """Write the commit's folder, whole, then move the branch to it."""
        root, revision = Path(address.path), address.revision or MAIN
        if (root / CONFIG).exists():
            raise HubError(f"{root} is in the way", "it is a checkpoint itself", "Name another")
        promises = _promises(made.folder)
        commit = name_of(manifest(promises))
        ref = root / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        with _alone(root):
            now = _read_ref(ref)
            if now == commit:
                return commit
            if now != made.parent:
                raise ConflictError(
                    f"{address} has moved", f"it is at {now}, and this was made for {made.parent}"
                )
            if not (root / commit).exists():
                with whole_folder(root / commit) as part:
                    for name in promises:
                        (part / name).parent.mkdir(exist_ok=True)
                        (part / name).write_bytes(read_bytes(made.folder / name))
                    (part / MANIFEST).write_text(manifest(promises), encoding="utf-8")
            replace_file(ref, f"{commit}\n")
            flush(ref.parent)
        return commit


def _place(address: Address, commit: str) -> Path:
    root = Path(address.path)
    return root if (root / CONFIG).exists() else root / commit


def _promises(folder: Path) -> dict[str, Promise]:
    files = {name: folder / name for name in FILES if (folder / name).is_file()}
    return {name: Promise(file.stat().st_size, digest(file)) for name, file in files.items()}


def manifest(promises: Mapping[str, Promise]) -> str:
    """Return the manifest of a commit that holds these files."""
    return "".join(f"{promises[p].sha256} {promises[p].size} {p}\n" for p in sorted(promises))


def name_of(text: str) -> str:
    """Return the name of the commit with this manifest."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _read_manifest(file: Path, commit: str) -> dict[str, Promise]:
    try:
        text = read_text(file, limit=1_000_000)
    except CheckpointError as error:
        raise HubError(f"commit {commit[:12]} is damaged", str(error)) from None
    lines = [line.split(" ", 2) for line in text.splitlines()]
    if name_of(text) != commit or not all(len(line) == 3 and line[2] in FILES for line in lines):
        raise IntegrityError(f"{file} is not what it was", f"it is not that of commit {commit}")
    return {path: Promise(int(size), sha256) for sha256, size, path in lines}


def _read_ref(ref: Path) -> str | None:
    try:
        text = ref.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    if not COMMIT.fullmatch(text):
        raise HubError(f"{ref} is damaged", "it does not hold a commit's 40 digits")
    return text


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keep every other push to this repository out."""
    lock = root / ".pushing"
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        raise ConflictError(
            f"{root} is being pushed to", f"{lock} is there", "Wait; remove it if nobody is"
        ) from None
    try:
        os.close(handle)
        yield
    finally:
        lock.unlink(missing_ok=True)
