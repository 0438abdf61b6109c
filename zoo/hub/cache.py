"""What of the Hub is here, in its client's cache."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zoo.checkpoint.format import CONFIG, FILES, WEIGHTS, missing
from zoo.errors import IntegrityError, NotFoundError
from zoo.hub.client import Settings, client
from zoo.hub.huggingface import HuggingFace, cached_promise


@dataclass(frozen=True)
class Cached:
    """A commit of a repository that is here; `names` are the revisions that were it last."""

    address: str
    commit: str
    names: tuple[str, ...]
    folder: Path
    size: int
    whole: bool


@dataclass(frozen=True)
class Fault:
    """A file in the cache that is not what it should be."""

    file: Path
    reason: str


def listed() -> list[Cached]:
    """Return the checkpoints of the zoo in the cache; what else is there is left out.

    The folders are looked at as they are: the client's own scan passes over damaged repositories.
    """
    found = []
    for repository in sorted(Settings.from_environment().cache.glob("models--*--*")):
        address = "hf://" + repository.name.removeprefix("models--").replace("--", "/", 1)
        names = _revisions(repository)
        for folder in sorted((repository / "snapshots").glob("*")):
            linked = [name for name in FILES if os.path.lexists(folder / name)]
            there = [name for name in linked if (folder / name).is_file()]
            if CONFIG in linked or WEIGHTS in linked:
                size = sum((folder / name).stat().st_size for name in there)
                revisions = tuple(names.get(folder.name, ()))
                whole = not missing(there) and linked == there
                found.append(Cached(address, folder.name, revisions, folder, size, whole))
    return found


def _revisions(repository: Path) -> dict[str, list[str]]:
    """Return the names of each commit, as they were noted at the last pull."""
    names: dict[str, list[str]] = {}
    for ref in sorted((repository / "refs").rglob("*")):
        if ref.is_file():
            commit = ref.read_text(encoding="ascii", errors="replace").strip()
            names.setdefault(commit, []).append(ref.relative_to(repository / "refs").as_posix())
    return names


def matching(given: str) -> list[Cached]:
    """Return what of the cache an address names: all of a repository, or one revision of it.

    Raises:
        NotFoundError: none of it is here.
    """
    address, _, revision = given.partition("@")
    found = [
        cached
        for cached in listed()
        if cached.address == address and revision in ("", cached.commit, *cached.names)
    ]
    if not found:
        raise NotFoundError(f"{given} is not in the cache", "", "See `zoo cache list`")
    return found


def remove(chosen: list[Cached]) -> int:
    """Remove commits from the cache and return the bytes that this frees."""
    freed = 0
    for cached in chosen:
        info = client().scan_cache_dir(Settings.from_environment().cache)
        # Copies of a repository share its commits' names: only this one's are meant.
        own = frozenset(r for r in info.repos if f"hf://{r.repo_id}" == cached.address)
        if own:
            strategy = dataclasses.replace(info, repos=own).delete_revisions(cached.commit)
            strategy.execute()
            freed += int(strategy.expected_freed_size)
        else:  # it is too damaged for the client to know it
            hub = HuggingFace()
            for name in FILES:
                hub.discard(cached.folder / name)
            shutil.rmtree(cached.folder)
            freed += cached.size
    return freed


def verify(chosen: list[Cached]) -> Iterator[tuple[Cached, list[Fault]]]:
    """Yield each commit with its files that are not what their places in the cache say."""
    for cached in chosen:
        faults = []
        for name in FILES:
            file = cached.folder / name
            if not file.is_file():
                if file.is_symlink():
                    faults.append(Fault(file, "what it leads to is gone"))
                continue
            try:
                cached_promise(file).check(file, name)
            except IntegrityError as error:
                faults.append(Fault(file, str(error)))
        if not cached.whole:
            lacks = missing([name for name in FILES if (cached.folder / name).is_file()])
            faults.append(Fault(cached.folder, f"it has no {', no '.join(lacks)}"))
        yield cached, faults


def discard(faults: list[Fault]) -> None:
    """Remove files that are not what they should be, so that the next pull fetches them again."""
    hub = HuggingFace()
    for fault in faults:
        if not fault.file.is_dir():
            hub.discard(fault.file)
