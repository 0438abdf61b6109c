"""The hub `hf://owner/repo`: the Hugging Face Hub, by its own client and into its own cache."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import FILES
from zoo.errors import ConflictError, HubError, IntegrityError, UnavailableError
from zoo.files import replace_file
from zoo.hub.client import Settings, Watch, client, watching
from zoo.hub.contract import Commit, Hub, Listing, Local, Promise, Show, digest
from zoo.hub.retry import persist, told
from zoo.registry.address import COMMIT, SHA256, Address, is_inside

MAIN = "main"
STALE = 3600
"""After so many seconds a download that was broken off is cleared away."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")


class HuggingFace(Hub):
    """Repositories of models on the Hugging Face Hub, or where `HF_ENDPOINT` says."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()

    def check(self, address: Address) -> None:
        """Make sure that the path is owner/repo."""
        parts = address.path.split("/")
        if len(parts) != 2 or not all(
            _PART.fullmatch(part) and ".." not in part and "--" not in part for part in parts
        ):
            raise HubError(f"{address} is no address", "one on the Hub reads hf://owner/repo")

    def page(self, address: Address) -> str:
        """Return the repository's page."""
        branch = f"/tree/{address.revision}" if address.revision else ""
        return f"{self.settings.endpoint}/{address.path}{branch}"

    # --- reading --------------------------------------------------------------------------------

    def listing(self, address: Address) -> Listing:
        """Return what stands at an address now, by one call."""
        with watching(Watch(self.settings, str(address), address.commit)) as api:
            info = persist(
                lambda: api.model_info(
                    address.path, revision=address.revision or MAIN, files_metadata=True
                ),
                self.settings,
                str(address),
            )
        commit = info.sha
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise IntegrityError(
                f"{address}: the Hub names no proper commit", f"{str(commit)[:60]!r}"
            )
        if address.commit not in (None, commit):
            raise IntegrityError(f"{address}: the Hub names another commit", commit)
        promises = dict(_promise(address, sibling) for sibling in info.siblings or [])
        return Listing(commit, promises, info.private)

    def here(self, address: Address) -> Local | None:
        """Return what the cache holds; a file's place in it is named by its digest."""
        commit = address.commit or self._noted(address)
        folder = self._repository(address) / "snapshots" / str(commit)
        if commit is None or not folder.is_dir():
            return None
        files = {name: cached_promise(folder / name) for name in FILES if (folder / name).is_file()}
        return Local(commit, folder, files)

    def fetch(self, address: Address, path: str, promise: Promise, show: Show | None) -> Path:
        """Download one file of a commit into the cache."""
        commit = str(address.commit)
        with watching(Watch(self.settings, str(address), commit)) as api:
            return Path(
                persist(
                    lambda: api.hf_hub_download(
                        address.path,
                        path,
                        revision=commit,
                        cache_dir=self.settings.cache,
                        etag_timeout=self.settings.timeout,
                        tqdm_class=_bar(path, promise.size, show),
                    ),
                    self.settings,
                    str(address),
                    resumes=True,
                )
            )

    def discard(self, file: Path) -> None:
        """Remove a file from the cache, the link and what it leads to."""
        while file.is_symlink():
            target = file.parent / os.readlink(file)
            file.unlink(missing_ok=True)
            file = target
        file.unlink(missing_ok=True)

    def settle(self, address: Address, commit: str) -> None:
        """Note the commit as the revision's, and clear away what broken downloads have left."""
        repository = self._repository(address)
        if address.commit is None and self._noted(address) != commit:
            ref = repository / "refs" / (address.revision or MAIN)
            with contextlib.suppress(OSError):  # a cache that cannot be written to is still read
                ref.parent.mkdir(parents=True, exist_ok=True)
                replace_file(ref, commit)
        for left in (repository / "blobs").glob("*.incomplete"):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink(missing_ok=True)

    def _repository(self, address: Address) -> Path:
        return self.settings.cache / f"models--{address.path.replace('/', '--')}"

    def _noted(self, address: Address) -> str | None:
        ref = self._repository(address) / "refs" / (address.revision or MAIN)
        try:
            text = ref.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None
        return text if COMMIT.fullmatch(text) else None

    # --- writing --------------------------------------------------------------------------------

    def create(self, address: Address, *, private: bool) -> None:
        """Make the repository, and the branch if it is not the main one."""
        branch = address.revision or MAIN
        # Where privacy is not asked for, an organisation's own default holds.
        hidden = private or None
        self._persist(
            address, lambda api: api.create_repo(address.path, private=hidden, exist_ok=True)
        )
        if branch != MAIN:
            self._persist(
                address, lambda api: api.create_branch(address.path, branch=branch, exist_ok=True)
            )

    def _persist(self, address: Address, call: Callable[[Any], object]) -> None:
        with watching(Watch(self.settings, str(address))) as api:
            persist(lambda: call(api), self.settings, str(address))

    def commit(self, address: Address, made: Commit) -> str:
        """Upload what has changed and commit it, looking first whether a lost answer was a yes."""
        for attempt in range(self.settings.tries):
            try:
                with watching(Watch(self.settings, str(address))) as api:
                    commit = str(_commit(api, address, made).oid)
                break
            except Exception as error:
                fault = told(error, self.settings, str(address))
                if not isinstance(fault, UnavailableError | ConflictError):
                    raise fault from None
                wait = fault.wait if isinstance(fault, UnavailableError) else 0.0
            now = self.listing(address)
            if _holds(now, made):
                return now.commit
            if now.commit != made.parent:
                raise ConflictError(
                    f"{address} has moved",
                    f"it is at {now.commit[:12]} now, and this push was made for "
                    f"{str(made.parent)[:12]}",
                    "Push again to see what would change now",
                )
            wait = max(wait, self.settings.wait * 2**attempt)
            if attempt + 1 == self.settings.tries or wait > self.settings.longest_wait:
                raise fault
            time.sleep(wait)
        if not COMMIT.fullmatch(commit) or not _holds(self.listing(address.at(commit)), made):
            raise IntegrityError(f"{address} is not what was sent", f"at commit {commit[:60]!r}")
        return commit


def _commit(api: Any, address: Address, made: Commit) -> Any:
    hub = client()
    operations = [
        hub.CommitOperationDelete(change.path)
        if change.kind == "remove"
        else hub.CommitOperationAdd(change.path, str(made.folder / change.path))
        for change in made.changes
    ]
    return api.create_commit(
        address.path,
        operations,
        commit_message=made.message,
        revision=address.revision or MAIN,
        parent_commit=made.parent,
    )


def _holds(listing: Listing, made: Commit) -> bool:
    """Tell whether a commit holds what a push was to make of it."""
    for change in made.changes:
        promise = listing.files.get(change.path)
        if change.kind == "remove":
            if promise is not None:
                return False
        elif promise is None or not same(promise, made.folder / change.path):
            return False
    return True


def same(promise: Promise, file: Path) -> bool:
    """Tell whether a file is what is promised."""
    if promise.size != file.stat().st_size:
        return False
    return digest(file, git=not promise.sha256) == (promise.sha256 or promise.git)


def _promise(address: Address, sibling: Any) -> tuple[str, Promise]:
    """Return a file's name and what the Hub promises of it."""
    name, size = sibling.rfilename, sibling.size
    if not isinstance(name, str) or not is_inside(name):
        raise IntegrityError(f"{address} names a file outside of it", f"{str(name)[:100]!r}")
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    git = "" if sha256 else sibling.blob_id
    proper = SHA256.fullmatch(sha256) if sha256 else COMMIT.fullmatch(str(git))
    if type(size) is not int or size < 0 or not proper:
        raise IntegrityError(
            f"{address} promises nothing clear of {name}", "the Hub sent no digest"
        )
    return name, Promise(size, sha256, git)


def cached_promise(file: Path) -> Promise:
    """Return what a cached file's place promises: the cache names it by its digest."""
    name = Path(os.readlink(file)).name if file.is_symlink() else ""
    size = file.stat().st_size
    if SHA256.fullmatch(name):
        return Promise(size, name)
    if COMMIT.fullmatch(name):
        return Promise(size, "", name)
    # Where there are no links the place tells nothing: what is there vouches for itself.
    return Promise(size, digest(file))


def _bar(path: str, size: int, show: Show | None) -> type | None:
    """Return a progress bar for the client that tells `show`; None leaves it the client's own."""
    if show is None:
        return None
    base: Any = client().utils.tqdm
    tell = show

    class Bar(base):  # type: ignore[misc]  # the base is only known once the client is imported
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **{**options, "disable": False})
            self.here = int(options.get("initial") or 0)

        def display(self, *_: Any, **__: Any) -> bool:
            return True

        def update(self, n: float | None = 1) -> None:
            super().update(n)
            self.here += int(n or 0)
            if self.total == size:  # and not the bytes that went over the wire
                tell(path, self.here, size)

    return Bar
