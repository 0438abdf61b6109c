"""Checkpoints that travel: found by name, fetched, checked, and sent.

Whatever the hub, what is pulled is pinned to one commit and every byte of it is checked against
what was promised, by a catalogue or by the hub; and only files of the format are touched.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from zoo.checkpoint.format import FILES, missing
from zoo.errors import AccessError, HubError, HubWarning, IntegrityError, UnavailableError
from zoo.hub.contract import Hub, Listing, Local, Promise, Show
from zoo.hub.hubs import hub_of
from zoo.registry.address import Address
from zoo.registry.catalogue import Released
from zoo.registry.registry import Registry, default_registry

logger = logging.getLogger(__name__)

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".pickle", ".msgpack", ".h5")


@dataclass(frozen=True)
class Pulling:
    """Told before anything is fetched: what, from where, and how many bytes are not here yet."""

    name: str
    address: Address
    size: int


def locate(
    name_or_path: str | PathLike[str],
    registry: Registry | None = None,
    *,
    offline: bool = False,
    on_pull: Callable[[Pulling], None] | None = None,
    show: Show | None = None,
) -> Path:
    """Return the folder of a checkpoint that is named, addressed, or is a folder itself.

    What is named or addressed is checked against its promises, and pulled if it is not here.

    Raises:
        HubError: it cannot be had, or is not what was promised.
    """
    registry = registry or default_registry()
    given = str(name_or_path)
    released = registry.checkpoints.get(given)
    if released is not None and not released.location:
        check_files(released.folder, promises(released), given)
        return released.folder
    if released is None and not Address.is_one(given):
        return Path(name_or_path)
    return pull(given, registry, offline=offline, on_pull=on_pull, show=show)


def pull(
    name: str,
    registry: Registry | None = None,
    *,
    offline: bool = False,
    on_pull: Callable[[Pulling], None] | None = None,
    show: Show | None = None,
) -> Path:
    """Bring a checkpoint here, by its released name or its address, and return its folder.

    `offline` asks nobody, and neither does a commit that is here whole. `on_pull` is told before
    anything is fetched, `show` of every file's progress.

    Raises:
        UnknownNameError: no hub, and no checkpoint, has such a name.
        HubError: it cannot be had, or is not what was promised; nothing of it is kept then.
    """
    registry = registry or default_registry()
    released = registry.checkpoints.get(name)
    if released is not None and not released.location:
        return locate(name, registry)
    address = (released.address if released else None) or Address.parse(name)
    hub = hub_of(address, registry)
    promised = promises(released) if released else {}
    local = hub.here(address)
    if local is not None and address.commit and _whole(local, promised):
        return local.folder
    if offline or (address.scheme == "hf" and _offline()):
        return _here_or_raise(address, local, promised)
    try:
        listing = hub.listing(address)
    except (UnavailableError, AccessError) as error:
        if local is None or not _whole(local, promised):
            raise
        reason = str(error)
        warnings.warn(
            HubWarning(f"{address} was not asked, and is used as it was pulled before: {reason}"),
            stacklevel=2,
        )
        return local.folder
    wanted = _wanted(address, listing, promised)
    pinned = address.at(listing.commit)
    there = hub.here(pinned) or Local(listing.commit, Path())
    lacking = [path for path in wanted if not _good(hub, there, path, wanted[path])]
    if lacking:
        size = sum(wanted[path].size for path in lacking)
        (on_pull or _log)(Pulling(name, pinned, size))
    for path in lacking:
        file = hub.fetch(pinned, path, wanted[path], show)
        try:
            wanted[path].check(file, f"{path} of {pinned}")
        except IntegrityError:
            hub.discard(file)
            raise
    hub.settle(address, listing.commit)
    found = hub.here(pinned)
    if found is None:
        raise HubError(
            f"{pinned} is not here", "it was removed while it was pulled", "Pull it again"
        )
    return found.folder


def promises(released: Released) -> dict[str, Promise]:
    """Return what a catalogue promises of a checkpoint's files."""
    return {path: Promise(entry.size, entry.sha256) for path, entry in released.files.items()}


def check_files(folder: Path, promised: Mapping[str, Promise], name: str) -> None:
    """Make sure that a folder holds what is promised.

    Raises:
        IntegrityError: a file is missing, or is another.
    """
    for path, promise in promised.items():
        if not (folder / path).is_file():
            raise IntegrityError(f"{name} is not what was promised", f"it has no {path}")
        promise.check(folder / path, f"{path} of {name}")


def _offline() -> bool:
    from zoo.hub.client import Settings

    return Settings.from_environment().offline


def _log(pulling: Pulling) -> None:
    logger.info("Pulling %s: %s, %d bytes", pulling.name, pulling.address, pulling.size)


def _whole(local: Local, promised: Mapping[str, Promise]) -> bool:
    """Tell whether all that a checkpoint needs is here, every file as it was promised."""
    if missing(promised or local.files) or any(path not in local.files for path in promised):
        return False
    try:
        check_files(local.folder, promised or local.files, str(local.folder))
    except IntegrityError:
        return False
    return True


def _here_or_raise(address: Address, local: Local | None, promised: Mapping[str, Promise]) -> Path:
    """Return the folder of what is here, when nobody may be asked."""
    if local is None:
        raise HubError(
            f"{address} is not here", "and nobody may be asked: offline", "Pull it when online"
        )
    lacks = missing(local.files) or [path for path in promised if path not in local.files]
    if lacks:
        raise HubError(
            f"{address} is here only in part",
            f"it has no {', no '.join(lacks)}, and nobody may be asked: offline",
            "Pull it when online",
        )
    check_files(local.folder, promised or local.files, str(address))
    return local.folder


def _wanted(
    address: Address, listing: Listing, promised: Mapping[str, Promise]
) -> Mapping[str, Promise]:
    """Return what to fetch: what the catalogue promises, or the format's files that the hub has."""
    there = {path: listing.files[path] for path in FILES if path in listing.files}
    lacks = missing(promised or there)
    lacks += [path for path in promised if path not in listing.files]
    if lacks:
        pickles = [path for path in listing.files if path.endswith(PICKLES)]
        why = f"it has no {', no '.join(lacks)}"
        if pickles:
            why += f"; it has {pickles[0]}, which is not opened, since opening it can run anything"
        raise HubError(f"{address} holds no checkpoint of the zoo", why)
    for path, promise in promised.items():
        hub = listing.files[path]
        if hub.size != promise.size or (hub.sha256 and hub.sha256 != promise.sha256):
            raise IntegrityError(
                f"{path} of {address} is not what the catalogue promises",
                f"the hub has {hub.size:,} bytes of another content",
            )
    return promised or there


def _good(hub: Hub, there: Local, path: str, promise: Promise) -> bool:
    """Tell whether a file is here as promised; one that is here otherwise is removed."""
    if path not in there.files:
        return False
    try:
        promise.check(there.folder / path, path)
    except IntegrityError:
        hub.discard(there.folder / path)
        return False
    return True
