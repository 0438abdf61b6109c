"""Pull a checkpoint: resolve it to one commit, download what is missing, and check every byte.

The expected digests come from a catalogue or from the hub. Only files of the checkpoint format are
downloaded.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from zoo.checkpoint.format import FILES, ORIGINAL, TRAINING, missing, unread
from zoo.errors import (
    AccessError,
    HubError,
    HubWarning,
    IntegrityError,
    NotOursError,
    UnavailableError,
)
from zoo.hub.contract import Hub, Listing, LocalCommit, Progress
from zoo.hub.digest import FileDigest
from zoo.hub.hubs import hub_of
from zoo.registry.address import Address
from zoo.registry.arguments import checked
from zoo.registry.catalogue import Released
from zoo.registry.registry import Registry, default_registry

logger = logging.getLogger(__name__)

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".pickle", ".msgpack", ".h5")


@dataclass(frozen=True)
class Pulling:
    """A download that is about to begin: the name, the address, and the bytes to download."""

    name: str
    address: Address
    size: int


def locate(
    name_or_path: str | PathLike[str],
    registry: Registry | None = None,
    *,
    offline: bool = False,
    on_pull: Callable[[Pulling], None] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder of a checkpoint that is given by a name, an address or its folder.

    A name or an address is checked against its digests, and pulled if it is not here.

    Raises:
        CheckpointError: there is no such folder or name; near names are suggested.
        HubError: the checkpoint is not available, or does not match its digests.
    """
    registry = registry or default_registry()
    given = str(name_or_path)
    released = registry.checkpoints.get(given)
    if released is not None and not released.location:
        verify_files(released.folder, expected_files(released), given)
        return released.folder
    if released is None and not Address.is_one(given):
        if not os.path.exists(given):
            raise registry.no_checkpoint(given)
        return Path(name_or_path)
    return pull(given, registry, offline=offline, on_pull=on_pull, progress=progress)


@checked
def pull(
    name: str | PathLike[str],
    registry: Registry | None = None,
    *,
    offline: bool = False,
    on_pull: Callable[[Pulling], None] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download a checkpoint, given by a released name or an address, and return its folder.

    A complete local commit needs no request; with `offline` no request is made at all. `on_pull` is
    called before a download, `progress` during it.

    Raises:
        CheckpointError: there is no checkpoint of this name; near names are suggested.
        UnknownNameError: there is no such hub.
        HubError: the checkpoint is not available, or a file does not match its digest; that file is
            removed.
    """
    registry, name = registry or default_registry(), str(name)
    released = registry.checkpoints.get(name)
    if released is not None and not released.location:
        return locate(name, registry)
    if released is None and not Address.is_one(name) and not os.path.exists(name):
        raise registry.no_checkpoint(name)
    address = (released.address if released else None) or Address.parse(name)
    hub = hub_of(address, registry)
    expected = expected_files(released) if released else {}
    local = hub.local(address)
    if local is not None and address.commit and _is_complete(local, expected):
        return local.folder
    if offline or hub.offline:
        return _local_folder(address, local, expected)
    try:
        listing = hub.listing(address)
    except (UnavailableError, AccessError) as error:
        if local is None or not _is_complete(local, expected):
            raise
        warnings.warn(
            HubWarning(f"using the local copy of {address} from the last pull: {error}"),
            stacklevel=2,
        )
        return local.folder
    wanted = _files_to_pull(address, listing, expected)
    pinned = address.at(listing.commit)
    removed = HubError(
        f"{pinned} is not in the cache", "it was removed during the pull", "Pull it again"
    )
    try:
        _download(hub, pinned, wanted, name, on_pull, progress)
        hub.record(address, listing.commit)
        local = hub.local(pinned)
    except FileNotFoundError:  # `zoo cache remove` in another process
        raise removed from None
    if local is None:
        raise removed
    return local.folder


def commit_of(name: str, registry: Registry) -> str | None:
    """Return the commit at which a released name or an address was pulled; None if it has none."""
    released = registry.checkpoints.get(name)
    if released is not None and not released.location:
        return None
    address = (released.address if released else None) or Address.parse(name)
    local = None if address.commit else hub_of(address, registry).local(address)
    return local.commit if local else address.commit


def pull_files(
    pinned: Address,
    wanted: Mapping[str, FileDigest],
    registry: Registry,
    on_pull: Callable[[Pulling], None] | None = None,
    progress: Progress | None = None,
) -> Path | None:
    """Download listed files of a commit, check each, and return their folder; None if none is.

    Raises:
        HubError: a file is not available, or does not match its digest; that file is removed.
    """
    hub = hub_of(pinned, registry)
    _download(hub, pinned, wanted, str(pinned), on_pull, progress)
    local = hub.local(pinned) if wanted else None
    return None if local is None else local.folder


def _download(
    hub: Hub,
    pinned: Address,
    wanted: Mapping[str, FileDigest],
    name: str,
    on_pull: Callable[[Pulling], None] | None,
    progress: Progress | None,
) -> None:
    """Download the files of a commit that are not here, and check each of them."""
    local = hub.local(pinned) or LocalCommit(str(pinned.commit), Path())
    lacking = [path for path in wanted if not _is_here(hub, local, path, wanted[path])]
    if lacking:
        size = sum(wanted[path].size for path in lacking)
        (on_pull or _log)(Pulling(name, pinned, size))
    for path in lacking:
        file = hub.fetch(pinned, path, wanted[path], progress)
        try:
            wanted[path].verify(file, f"{path} of {pinned}")
        except IntegrityError:
            hub.discard(file)
            raise


def expected_files(released: Released) -> dict[str, FileDigest]:
    """Return the digests of a checkpoint's files in its catalogue."""
    return {path: FileDigest(entry.size, entry.sha256) for path, entry in released.files.items()}


def verify_files(folder: Path, expected: Mapping[str, FileDigest], name: str) -> None:
    """Make sure that a folder has the expected files; `name` is the checkpoint's in errors.

    Raises:
        IntegrityError: a file is missing or does not match its digest.
    """
    for path, digest in expected.items():
        if not (folder / path).is_file():
            raise IntegrityError(f"{name} is not complete", f"it has no {path}")
        digest.verify(folder / path, f"{path} of {name}")


def _log(pulling: Pulling) -> None:
    logger.info("Pulling %s: %s, %d bytes", pulling.name, pulling.address, pulling.size)


def _is_complete(local: LocalCommit, expected: Mapping[str, FileDigest]) -> bool:
    """Return whether all files of a checkpoint are here and match their digests."""
    if missing(expected or local.files) or any(path not in local.files for path in expected):
        return False
    files = expected or local.files
    return all(digest.matches(local.folder / path) for path, digest in files.items())


def _local_folder(
    address: Address, local: LocalCommit | None, expected: Mapping[str, FileDigest]
) -> Path:
    """Return the folder of the local files, if they are complete, when no request is allowed."""
    if local is None:
        raise HubError(
            f"{address} is not in the cache", "requests are disabled: offline", "Pull it online"
        )
    lacking = missing(local.files) or [path for path in expected if path not in local.files]
    if lacking:
        raise HubError(
            f"{address} is not completely in the cache",
            f"it has no {', no '.join(lacking)}, and requests are disabled: offline",
            "Pull it online",
        )
    verify_files(local.folder, expected or local.files, str(address))
    return local.folder


def _files_to_pull(
    address: Address, listing: Listing, expected: Mapping[str, FileDigest]
) -> Mapping[str, FileDigest]:
    """Return the files to pull: those of the catalogue, or the hub's files of the format."""
    available = {path: listing.files[path] for path in FILES if path in listing.files}
    lacking = missing(expected or available)
    lacking += [path for path in expected if path not in listing.files]
    of_zoo = bool(expected) or TRAINING in available
    if lacking and not of_zoo and (other := unread(listing.files)):
        raise NotOursError(f"{address} is not a checkpoint of the zoo", other, ORIGINAL)
    if lacking:
        pickles = [path for path in listing.files if path.endswith(PICKLES)]
        why = f"it has no {', no '.join(lacking)}"
        if pickles:
            why += f"; it has {pickles[0]}, which is not opened because a pickle can run any code"
        raise NotOursError(f"{address} is not a checkpoint of the zoo", why)
    for path, digest in expected.items():
        if not digest.agrees_with(listing.files[path]):
            raise IntegrityError(
                f"{path} of {address} does not match the catalogue",
                f"the hub has {listing.files[path].size:,} bytes with another digest",
            )
    return expected or available


def _is_here(hub: Hub, local: LocalCommit, path: str, digest: FileDigest) -> bool:
    """Return whether a local file matches its digest; one that does not is removed."""
    if path not in local.files:
        return False
    if not digest.matches(local.folder / path):
        hub.discard(local.folder / path)
        return False
    return True
