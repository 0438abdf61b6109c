"""The hub `hf://owner/repo`: the Hugging Face Hub, through its own client and cache."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.utils.tqdm import tqdm

from zoo.checkpoint.format import FILES
from zoo.errors import ConflictError, HubError, IntegrityError, NotFoundError, UnavailableError
from zoo.files import replace_file
from zoo.hub.contract import Commit, Hub, Listing, LocalCommit, Progress
from zoo.hub.digest import FileDigest
from zoo.hub.session import Failures, operation
from zoo.hub.settings import Settings
from zoo.registry.address import COMMIT, SHA256, Address, is_inside

FORBIDDEN = re.compile('[:*?"<>|]')

T = TypeVar("T")
MAIN = "main"
STALE = 3600
"""The age in seconds at which an incomplete download is removed."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")


class HuggingFace(Hub):
    """Model repositories on the Hugging Face Hub, or on the server that `HF_ENDPOINT` names."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()

    @property
    def offline(self) -> bool:
        """Whether HF_HUB_OFFLINE is set."""
        return self.settings.offline

    def check(self, address: Address) -> None:
        """Raise if the path is not owner/repo."""
        parts = address.path.split("/")
        if len(parts) != 2 or not all(
            _NAME.fullmatch(part) and ".." not in part and "--" not in part for part in parts
        ):
            raise HubError(f"invalid address {address}", "an address on the Hub is hf://owner/repo")

    def page(self, address: Address) -> str:
        """Return the URL of the repository's page."""
        branch = f"/tree/{address.revision}" if address.revision else ""
        return f"{self.settings.endpoint}/{address.path}{branch}"

    def _call(
        self, address: Address, call: Callable[[HfApi], T], digest: FileDigest | None = None
    ) -> T:
        """Return the result of a call of the client, checked and retried.

        `digest` is that of the file which the call downloads.
        """

        def attempt() -> T:
            with operation(
                self.settings, str(address), address.commit,
                resumes=digest is not None, digest=digest,
            ) as api:  # fmt: skip
                return call(api)

        return self.settings.retry.run(attempt)

    # --- reading --------------------------------------------------------------------------------

    def listing(self, address: Address) -> Listing:
        """Return the content of an address now, by one request."""
        revision = address.revision or MAIN
        info = self._call(
            address,
            lambda api: api.model_info(address.path, revision=revision, files_metadata=True),
        )
        commit = info.sha
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise IntegrityError(
                f"{address}: the Hub sent an invalid commit", f"{str(commit)[:60]!r}"
            )
        if address.commit not in (None, commit):
            raise IntegrityError(f"{address}: the Hub sent another commit", commit)
        digests = dict(_listed_file(address, sibling) for sibling in info.siblings or [])
        return Listing(commit, digests, info.private)

    def local(self, address: Address) -> LocalCommit | None:
        """Return the files in the cache, which names each file by its digest."""
        commit = address.commit or self._recorded(address)
        folder = self._repository(address) / "snapshots" / str(commit)
        if commit is None or not folder.is_dir():
            return None
        present = [name for name in FILES if (folder / name).is_file()]
        try:
            files = {name: cached_digest(folder / name) for name in present}
        except FileNotFoundError:  # `zoo cache remove` in another process
            return None
        return LocalCommit(commit, folder, files)

    def fetch(
        self, address: Address, path: str, digest: FileDigest, progress: Progress | None
    ) -> Path:
        """Download one file of a commit into the cache."""
        file = self._call(
            address,
            lambda api: api.hf_hub_download(
                address.path,
                path,
                revision=str(address.commit),
                cache_dir=self.settings.cache,
                etag_timeout=self.settings.timeout,
                tqdm_class=_progress_bar(path, digest.size, progress),
            ),
            digest,
        )
        return Path(file)

    def discard(self, file: Path) -> None:
        """Remove a file from the cache: the links and their target."""
        while file.is_symlink():
            target = file.parent / os.readlink(file)
            file.unlink(missing_ok=True)
            file = target
        file.unlink(missing_ok=True)

    def record(self, address: Address, commit: str) -> None:
        """Record the commit of a revision, and remove stale incomplete downloads."""
        repository = self._repository(address)
        if address.commit is None and self._recorded(address) != commit:
            ref = repository / "refs" / (address.revision or MAIN)
            with contextlib.suppress(OSError):  # a read-only cache is still usable
                ref.parent.mkdir(parents=True, exist_ok=True)
                replace_file(ref, commit)
        for incomplete in (repository / "blobs").glob("*.incomplete"):
            with contextlib.suppress(OSError):  # another process has just completed it
                if time.time() - incomplete.stat().st_mtime > STALE:
                    incomplete.unlink()

    def _repository(self, address: Address) -> Path:
        return self.settings.cache / f"models--{address.path.replace('/', '--')}"

    def _recorded(self, address: Address) -> str | None:
        ref = self._repository(address) / "refs" / (address.revision or MAIN)
        try:
            text = ref.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None
        return text if COMMIT.fullmatch(text) else None

    # --- writing --------------------------------------------------------------------------------

    def base(self, address: Address) -> Listing | None:
        """Return the main branch, from which the Hub makes others."""
        try:
            return self.listing(address.at(None))
        except NotFoundError:
            return None

    def create(self, address: Address, *, private: bool) -> None:
        """Create the repository, and the branch if it is not the main one."""
        branch = address.revision or MAIN
        # None: the default of the organization holds.
        visibility = private or None
        self._call(
            address,
            lambda api: api.create_repo(address.path, private=visibility, exist_ok=True),
        )
        if branch != MAIN:
            self._call(
                address, lambda api: api.create_branch(address.path, branch=branch, exist_ok=True)
            )

    def commit(self, address: Address, commit: Commit) -> str:
        """Upload the changes and commit them once, also if the response to a commit is lost."""
        failures = Failures(self.settings.retry)
        name = self.settings.retry.run(lambda: self._commit_once(address, commit, failures))
        listing = self.listing(address.at(name)) if COMMIT.fullmatch(name) else None
        if listing is None or not _contains(listing, commit):
            raise IntegrityError(
                f"{address} does not contain what was sent", f"at commit {name[:60]!r}"
            )
        return name

    def _commit_once(self, address: Address, commit: Commit, failures: Failures) -> str:
        """Send a commit; after an error, find out whether it has arrived.

        Raises:
            UnavailableError: it has not arrived, and can be sent again.
            ConflictError: someone else has changed the repository.
        """
        try:
            with operation(self.settings, str(address), failures=failures) as api:
                return str(_create_commit(api, address, commit).oid)
        except (UnavailableError, ConflictError) as error:
            try:
                now = self.listing(address)
            except UnavailableError as lost:
                lost.wait = math.inf  # it has been retried already
                raise
            if _contains(now, commit):
                return now.commit
            if now.commit == commit.parent:
                wait = error.wait if isinstance(error, UnavailableError) else 0.0
                raise UnavailableError(error.what, error.why, error.next, wait) from None
            raise ConflictError(
                f"{address} has changed",
                f"it is at commit {now.commit[:12]}, and this push is based on "
                f"{str(commit.parent)[:12]}",
                "Push again to see what would change now",
            ) from None


def _create_commit(api: HfApi, address: Address, commit: Commit) -> Any:
    operations: list[Any] = [
        CommitOperationDelete(change.path)
        if change.kind == "remove"
        else CommitOperationAdd(change.path, str(commit.folder / change.path))
        for change in commit.changes
    ]
    return api.create_commit(
        address.path,
        operations,
        commit_message=commit.message,
        revision=address.revision or MAIN,
        parent_commit=commit.parent,
    )


def _contains(listing: Listing, commit: Commit) -> bool:
    """Return whether a listing has all changes of a commit."""
    for change in commit.changes:
        digest = listing.files.get(change.path)
        if change.kind == "remove":
            if digest is not None:
                return False
        elif digest is None or not digest.matches(commit.folder / change.path):
            return False
    return True


def _listed_file(address: Address, sibling: Any) -> tuple[str, FileDigest]:
    """Return the name and the digest of a file in the Hub's listing."""
    name, size = sibling.rfilename, sibling.size
    # Names that some systems forbid are no fault of files that are not downloaded.
    if not isinstance(name, str) or not is_inside(FORBIDDEN.sub("_", name)):
        raise IntegrityError(
            f"{address} lists a file outside of the repository", f"{str(name)[:100]!r}"
        )
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    git = "" if sha256 else sibling.blob_id
    valid = SHA256.fullmatch(sha256) if sha256 else COMMIT.fullmatch(str(git))
    if type(size) is not int or size < 0 or not valid:
        raise IntegrityError(f"{address} has no valid digest for {name}", "the Hub sent none")
    return name, FileDigest(size, sha256, git)


def cached_digest(file: Path) -> FileDigest:
    """Return the expected digest of a file in the cache, which is the name of its link's target."""
    name = Path(os.readlink(file)).name if file.is_symlink() else ""
    size = file.stat().st_size
    if SHA256.fullmatch(name):
        return FileDigest(size, name)
    if COMMIT.fullmatch(name):
        return FileDigest(size, git=name)
    # Without links the cache records no digest: the content cannot be verified.
    return FileDigest.of(file)


def _progress_bar(path: str, size: int, progress: Progress | None) -> type | None:
    """Return a progress bar for the client that calls `progress`; None is the client's own bar."""
    if progress is None:
        return None
    report = progress

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options["disable"] = False
            super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]  # it has no types
            self.received = int(options.get("initial") or 0)

        def display(self, *_: Any, **__: Any) -> bool:
            return True

        def update(self, n: float | None = 1) -> None:
            super().update(n)
            self.received += int(n or 0)
            if self.total == size:  # the client also has bars of other units
                report(path, self.received, size)

    return Bar
