"""The checkpoints in the cache of the Hub's client: list, remove and verify them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CorruptedCacheException, scan_cache_dir

from zoo.checkpoint.format import CONFIG, FILES, SOURCE, TARGET, TRAINING, WEIGHTS, missing
from zoo.errors import CheckpointError, NotFoundError
from zoo.files import read_json
from zoo.hub.huggingface import HuggingFace, cached_digest
from zoo.hub.settings import Settings

SHORT = re.compile(r"[0-9a-f]{7,39}")
"""The beginning of a commit's name."""


@dataclass(frozen=True)
class CachedCommit:
    """A commit in the cache; `revisions` are the branches and tags at it at their last pull.

    `complete` is False if files are missing; other projects have other files than the zoo's.
    """

    address: str
    commit: str
    revisions: tuple[str, ...]
    folder: Path
    size: int
    complete: bool


@dataclass(frozen=True)
class Fault:
    """A file in the cache that is damaged or missing."""

    file: Path
    reason: str


def list_commits() -> list[CachedCommit]:
    """Return the models in the cache, of the zoo and of others.

    The folders are read directly, because the client's own scan skips damaged repositories.
    """
    commits = []
    for repository in sorted(Settings.from_environment().cache.glob("models--*--*")):
        address = "hf://" + repository.name.removeprefix("models--").replace("--", "/", 1)
        revisions = _revisions(repository)
        for folder in _snapshots(repository):
            linked = [name for name in FILES if os.path.lexists(folder / name)]
            sizes = _sizes(folder)
            if CONFIG in linked or WEIGHTS in linked:
                commits.append(
                    CachedCommit(
                        address,
                        folder.name,
                        tuple(revisions.get(folder.name, ())),
                        folder,
                        size=sum(sizes.values()),
                        complete=not _lacking(folder) and linked == [*sizes],
                    )
                )
    return commits


def _snapshots(repository: Path) -> list[Path]:
    """Return the folders of the commits of a repository, which another process may remove."""
    try:
        return sorted((repository / "snapshots").glob("*"))
    except FileNotFoundError:
        return []


def _sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the files of a commit; another process may remove some meanwhile."""
    sizes = {}
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            if (folder / name).is_file():
                sizes[name] = (folder / name).stat().st_size
    return sizes


def _lacking(folder: Path) -> list[str]:
    """Return the required files that a commit does not have; a foreign model needs none of them."""
    present = [name for name in FILES if (folder / name).is_file()]
    if CONFIG in present:
        try:
            is_own = "format" in read_json(folder / CONFIG)
        except CheckpointError:  # damaged, which `verify` reports, or of another project
            is_own = False
    else:
        is_own = any(name in present for name in (SOURCE, TARGET, TRAINING))
    return missing(present) if is_own else []


def _revisions(repository: Path) -> dict[str, list[str]]:
    """Return the branches and tags of each commit, as recorded at their last pull."""
    revisions: dict[str, list[str]] = {}
    with contextlib.suppress(FileNotFoundError):  # another process removes them
        for ref in sorted((repository / "refs").rglob("*")):
            if ref.is_file():
                commit = ref.read_text(encoding="ascii", errors="replace").strip()
                name = ref.relative_to(repository / "refs").as_posix()
                revisions.setdefault(commit, []).append(name)
    return revisions


def find_commits(given: str) -> list[CachedCommit]:
    """Return the commits in the cache that an address names: a whole repository or one revision.

    A revision may also be the beginning of a commit's name, of at least 7 digits.

    Raises:
        NotFoundError: there are none, or several commits begin like this.
    """
    address, _, revision = given.partition("@")
    known = [cached for cached in list_commits() if cached.address == address]
    commits = [c for c in known if revision in ("", c.commit, *c.revisions)]
    if not commits and SHORT.fullmatch(revision):
        commits = [cached for cached in known if cached.commit.startswith(revision)]
        if len(commits) > 1:
            names = ", ".join(cached.commit for cached in commits)
            raise NotFoundError(f"{given} is not one commit", f"it can be {names}", "Choose one")
    if not commits:
        raise NotFoundError(f"{given} is not in the cache", "", "See `zoo cache list`")
    return commits


def remove(commits: list[CachedCommit]) -> int:
    """Remove commits from the cache and return the number of bytes that this frees."""
    freed = 0
    for cached in commits:
        try:
            freed += _remove_by_client(cached)
        except (OSError, CorruptedCacheException):
            # Too damaged for the client's scan, or a pull in another process changes it.
            hub = HuggingFace()
            for name in FILES:
                with contextlib.suppress(FileNotFoundError):
                    hub.discard(cached.folder / name)
            shutil.rmtree(cached.folder, ignore_errors=True)
            freed += cached.size
    return freed


def _remove_by_client(cached: CachedCommit) -> int:
    """Remove a commit, and the files that no other commit has; return the bytes of those.

    Raises:
        OSError, CorruptedCacheException: the cache is damaged, or changes meanwhile.
    """
    info = scan_cache_dir(Settings.from_environment().cache)
    # Copies of a repository have commits of the same name: only this repository is meant.
    repositories = frozenset(r for r in info.repos if f"hf://{r.repo_id}" == cached.address)
    if not repositories:
        raise FileNotFoundError(cached.folder)
    strategy = dataclasses.replace(info, repos=repositories).delete_revisions(cached.commit)
    strategy.execute()
    return int(strategy.expected_freed_size)


def verify(commits: list[CachedCommit]) -> Iterator[tuple[CachedCommit, list[Fault]]]:
    """Yield each commit with its damaged and missing files; no request is made."""
    for cached in commits:
        faults = []
        for name in FILES:
            file = cached.folder / name
            digest = None
            with contextlib.suppress(FileNotFoundError):  # another process removes it
                digest = cached_digest(file) if file.is_file() else None
            if digest is not None:
                difference = digest.difference(file)
                if difference:
                    faults.append(Fault(file, f"{name} does not match its digest: {difference}"))
            elif file.is_dir():
                faults.append(Fault(file, f"{name} is a folder, not a file"))
            elif file.is_symlink():
                faults.append(Fault(file, "the target of its link is missing"))
        lacking = _lacking(cached.folder)
        if lacking:
            faults.append(Fault(cached.folder, f"it has no {', no '.join(lacking)}"))
        yield cached, faults


def discard(faults: list[Fault]) -> int:
    """Remove damaged files, so that the next pull downloads them again; return their number."""
    hub = HuggingFace()
    files = {fault.file for fault in faults if os.path.lexists(fault.file)}
    folders = {file for file in files if file.is_dir() and file.name in FILES}
    for folder in folders:  # in the place of a file
        shutil.rmtree(folder, ignore_errors=True)
    files = {file for file in files if not file.is_dir()}
    for file in files:
        hub.discard(file)
    return len(files) + len(folders)
