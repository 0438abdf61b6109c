"""What of the Hub is in its client's cache here, by the client's own scan of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import IntegrityError, NotFoundError
from zoo.format import CONFIG, FILES, WEIGHTS, missing
from zoo.hub.guard import Settings, client
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
    """Return the checkpoints of the zoo in the cache; what else is there is left out."""
    found = []
    for repository in _repositories():
        for revision in repository.revisions:
            there = [name for name in FILES if (revision.snapshot_path / name).is_file()]
            if CONFIG in there or WEIGHTS in there:
                found.append(
                    Cached(
                        f"hf://{repository.repo_id}",
                        revision.commit_hash,
                        tuple(sorted(revision.refs)),
                        revision.snapshot_path,
                        revision.size_on_disk,
                        not missing(there),
                    )
                )
    return sorted(found, key=lambda cached: (cached.address, cached.commit))


def _repositories() -> list[Any]:
    cache = Settings.from_environment().cache
    if not cache.is_dir():
        return []
    return [r for r in client().scan_cache_dir(cache).repos if r.repo_type == "model"]


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
    info = client().scan_cache_dir(Settings.from_environment().cache)
    strategy = info.delete_revisions(*(cached.commit for cached in chosen))
    strategy.execute()
    return int(strategy.expected_freed_size)


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
