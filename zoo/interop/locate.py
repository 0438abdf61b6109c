"""Find a checkpoint, its own or another project's; a foreign one is converted once, into the cache.

A conversion is kept by the repository's commit, or the digest of a folder's files, and by the
importer's version.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import cast

from zoo.checkpoint import format as own_format
from zoo.checkpoint.format import CONFIG, FORMAT, ORIGINAL, describe, is_checkpoint, unread_in
from zoo.checkpoint.tensors import open_tensors
from zoo.errors import (
    AccessError,
    CheckpointError,
    ConversionError,
    HubError,
    HubWarning,
    IntegrityError,
    NotFoundError,
    NotOursError,
    UnavailableError,
)
from zoo.hub import pull as hub
from zoo.hub.contract import Progress
from zoo.hub.digest import FileDigest
from zoo.hub.hubs import hub_of
from zoo.interop.conversion import (
    each_importer,
    formats_of,
    import_checkpoint,
    importer_of,
    recognize,
)
from zoo.interop.export_card import STATEMENTS
from zoo.interop.source import Source
from zoo.interop.weights import WHOLE
from zoo.registry.address import Address
from zoo.registry.cache_folder import cache_folder, locked_entry
from zoo.registry.registry import Registry, default_registry

SMALL = 20_000_000
"""The most bytes of a file that is downloaded before the format is known."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".ckpt", ".h5", ".msgpack", ".onnx")
"""Files that are downloaded only once the format is known, or to know it."""

ALONE = (".pt", ".ckpt")
"""Weights of projects that no smaller file names: fairseq's, JoeyNMT's and OpenNMT-py's."""


def locate(
    name_or_path: str | PathLike[str],
    registry: Registry | None = None,
    *,
    offline: bool = False,
    on_pull: Callable[[hub.Pulling], None] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder of a checkpoint, given by a name, an address or its folder.

    It is as `zoo.hub.pull.locate`, and also finds folders and repositories of other projects.

    Raises:
        HubError: it is not available, or does not match its digests.
        ConversionError: it is of another project, and cannot be imported; lists all reasons.
    """
    registry = registry or default_registry()
    given = str(name_or_path)
    try:
        matched, refused = _pulled(given, registry, offline, on_pull, progress)
        if matched is not None and (is_checkpoint(matched) or not Address.is_one(given)):
            return _foreign_path(matched, registry) or matched
        converted = _foreign_repository(given, registry, offline, on_pull, progress)
    except (IntegrityError, NotFoundError):
        raise
    except HubError as error:
        kept = _kept_instead(given, registry, error, offline)
        if kept is None:
            raise
        return kept
    if converted is None and refused is not None:
        raise refused
    return converted or cast(Path, matched)


def _pulled(
    given: str,
    registry: Registry,
    offline: bool,
    on_pull: Callable[[hub.Pulling], None] | None,
    progress: Progress | None,
) -> tuple[Path | None, NotOursError | None]:
    """Return the folder with the files of a checkpoint, or why there is none."""
    try:
        matched = hub.locate(given, registry, offline=offline, on_pull=on_pull, progress=progress)
    except NotOursError as error:
        return None, error
    return matched, None


def _foreign_path(path: Path, registry: Registry) -> Path | None:
    """Return the conversion of a file or folder of another project; None if it is of none."""
    if not path.exists() or is_checkpoint(path):
        return None
    source = Source(path)
    if not formats_of(source, registry):
        fault, following = source.fault()
        if fault:
            raise ConversionError(f"{source} cannot be read", fault, following)
        return None  # the reader of checkpoints reports what is wrong
    format = recognize(source, registry)
    return _converted(source, _digest(source, format, registry), format, registry)


def _kept_before(given: str, registry: Registry) -> Path | None:
    """Return the conversion of the commit that an address names, or named at the last pull."""
    if not Address.is_one(given):
        return None
    address = Address.parse(given)
    local = hub_of(address, registry).local(address)
    commit = address.commit or (local.commit if local else None)
    return _kept(_name(address, commit), registry) if commit else None


def _kept_instead(given: str, registry: Registry, error: HubError, offline: bool) -> Path | None:
    """Return the earlier conversion to use because no request can be made; it may be out of date.

    None if there is none, or `error` has another cause.
    """
    if not Address.is_one(given):
        return None
    address = Address.parse(given)
    disabled = offline or hub_of(address, registry).offline
    if not disabled and not isinstance(error, UnavailableError | AccessError):
        return None
    kept = _kept_before(given, registry)
    if kept is not None and not disabled and address.commit is None:
        warnings.warn(
            HubWarning(f"using the local copy of {address} from the last pull: {error}"),
            stacklevel=3,
        )
    return kept


def _foreign_repository(
    given: str,
    registry: Registry,
    offline: bool,
    on_pull: Callable[[hub.Pulling], None] | None,
    progress: Progress | None,
) -> Path | None:
    """Return the conversion of a repository; only the files of its format are downloaded.

    None if it is of no format.
    """
    address = Address.parse(given)
    if address.scheme == "file" and (Path(address.path) / CONFIG).exists():
        folder = Path(address.path)
        converted = _foreign_path(folder, registry)
        if converted is None and (other := unread_in(folder)):
            raise NotOursError(f"{address} is not a checkpoint of the zoo", other, ORIGINAL)
        return converted
    kept = _kept_before(str(address), registry) if address.commit or offline else None
    if kept is not None:
        return kept
    where = hub_of(address, registry)
    listing = where.listing(address)
    pinned = address.at(listing.commit)
    kept = _kept(_name(address, listing.commit), registry)
    if kept is not None:
        if where.local(pinned) is not None:  # else its files have been removed from the cache
            where.record(address, listing.commit)
        return kept
    pulled = _pull_to_recognize(pinned, listing.files, registry, on_pull, progress)
    if pulled is None:
        return None
    format = recognize(Source(pulled), registry)
    importer = importer_of(format, registry)
    wanted = _without_copies(_matching(listing.files, [*importer.files, *STATEMENTS]))
    pulled = hub.pull_files(pinned, wanted, registry, on_pull, progress) or pulled
    named = {n for n in importer.named(Source(pulled)) if n in listing.files and "/" not in n}
    more = {name: listing.files[name] for name in named - wanted.keys()}
    hub.pull_files(pinned, more, registry, on_pull, progress)
    where.record(address, listing.commit)
    name = _name(address, listing.commit)
    return _converted(Source(pulled), name, format, registry, str(address))


def _pull_to_recognize(
    pinned: Address,
    files: Mapping[str, FileDigest],
    registry: Registry,
    on_pull: Callable[[hub.Pulling], None] | None,
    progress: Progress | None,
) -> Path | None:
    """Return the folder with the files that say of which format a repository is.

    They are small, or weights if these alone may say it. None if it is of no format.
    """
    of_importers = each_importer(registry, registry.importers, lambda one: one.files).values()
    known = _matching(files, [*chain.from_iterable(of_importers), *STATEMENTS])
    small = {name: digest for name, digest in known.items() if _is_small(name, digest)}
    alone = {name: digest for name, digest in known.items() if name.endswith(ALONE)}
    pulled = hub.pull_files(pinned, small, registry, lambda _: None, progress)
    if pulled is not None and is_checkpoint(pulled):
        return None
    if pulled is not None and formats_of(Source(pulled), registry):
        return pulled
    if CONFIG in files:
        return None
    pulled = hub.pull_files(pinned, alone, registry, on_pull, progress)
    return pulled if pulled is not None and formats_of(Source(pulled), registry) else None


def _is_small(name: str, digest: FileDigest) -> bool:
    return "/" not in name and digest.size <= SMALL and not name.endswith(WEIGHTS)


def _matching(files: Mapping[str, FileDigest], patterns: Iterable[str]) -> dict[str, FileDigest]:
    """Return the files of the top folder that match a pattern."""
    given = tuple(patterns)
    return {
        name: digest
        for name, digest in files.items()
        if "/" not in name and any(fnmatch(name, pattern) for pattern in given)
    }


def _without_copies(files: Mapping[str, FileDigest]) -> dict[str, FileDigest]:
    """Leave out the pickles of `pytorch_model.bin` if its weights are there as safetensors."""
    if not any(f"{WHOLE[0]}{end}" in files for end in ("", ".index.json")):
        return dict(files)
    pickles = re.compile(r"pytorch_model.*\.(bin|bin\.index\.json)")
    return {name: digest for name, digest in files.items() if not pickles.fullmatch(name)}


def _name(address: Address, commit: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '--', address.path).strip('-')}-{commit[:12]}"


def _digest(source: Source, format: str, registry: Registry) -> str:
    """Return a name for the content of a folder: sizes and times of the files that are read.

    Several files of a folder may each be a checkpoint: the name of one that is given counts too.

    The time of a file's last change (ctime) is one of these, which cannot be set: a copy with the
    times of its original has another one. Inodes may change with each mount.
    """
    importer = importer_of(format, registry)
    patterns = [*importer.files, *(STATEMENTS if source.file is None else ())]
    names = {n for n in source.names if any(fnmatch(n, pattern) for pattern in patterns)}
    names |= {*importer.named(source)} & {*source.names}
    given = "" if source.file is None else source.file.name
    content = hashlib.sha256(f"{source.folder.resolve()}\0{given}\n".encode())
    for name in sorted({*names, given} - {""}):
        status = source.path(name).stat()
        times = f"{status.st_mtime_ns}\0{status.st_ctime_ns}"
        content.update(f"{name}\0{status.st_size}\0{times}\n".encode())
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", source.folder.resolve().name)
    return f"{label}-{content.hexdigest()[:12]}"


def _folder(name: str, format: str, registry: Registry) -> Path:
    version = importer_of(format, registry).version
    return cache_folder() / "imported" / f"{name}-{format}-v{version}-{FORMAT}"


def _kept(name: str, registry: Registry) -> Path | None:
    """Return the conversion of this name that is in the cache."""
    folders = (_folder(name, format, registry) for format in registry.importers)
    return next((folder for folder in folders if _is_whole(folder)), None)


def _is_whole(folder: Path) -> bool:
    """Return whether a conversion in the cache is there and not damaged."""
    try:
        describe(folder)
        with open_tensors(folder / own_format.WEIGHTS):
            return True
    except CheckpointError:
        return False


def _converted(
    source: Source, name: str, format: str, registry: Registry, parent: str = ""
) -> Path:
    """Return the folder of a conversion, which is made at first use."""
    folder = _folder(name, format, registry)
    if not _is_whole(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked_entry(folder):
            if not _is_whole(folder):
                shutil.rmtree(folder, ignore_errors=True)
                path = source.file or source.folder
                import_checkpoint(path, folder, registry, format, parent=parent)
    return folder
