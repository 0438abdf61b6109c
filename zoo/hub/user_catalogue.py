"""The user's catalogue: add, remove and check names; comments and order are kept."""

from __future__ import annotations

import contextlib
import json
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from zoo.checkpoint.format import (
    FILES,
    NAME_LIMIT,
    RUN,
    TRAINING,
    about_of,
    describe,
    is_checkpoint,
    trained_on,
)
from zoo.errors import (
    CatalogueError,
    CheckpointError,
    HubError,
    IntegrityError,
    NotOursError,
    ZooError,
    reason_of,
)
from zoo.files import TEXT_LIMIT, locked, read_json, read_text, replace_file
from zoo.hub.contract import Progress
from zoo.hub.digest import FileDigest
from zoo.hub.folder import REFS
from zoo.hub.hubs import hub_of
from zoo.hub.pull import expected_files, pull, verify_files
from zoo.registry.address import Address
from zoo.registry.catalogue import (
    FORMAT,
    LARGEST,
    NAME,
    Released,
    all_faults,
    may_exist,
    read,
    user_catalogue,
)
from zoo.registry.catalogue_check import faults_of
from zoo.registry.registry import Registry

SECTIONS = ("checkpoints", "models", "recipes")
"""The sections whose entries `remove` removes."""

ANOTHER = "ZOO_REGISTRY can name another file"
"""What to do about a file that cannot be read or written."""

HEADER = "# Your names for checkpoints, written by `zoo registry add` and `remove`.\n\n"


@dataclass(frozen=True)
class Checked:
    """An entry of a catalogue, with its fault; empty if it has none."""

    kind: str
    name: str
    fault: str


def add(
    name: str,
    where: str,
    registry: Registry,
    *,
    summary: str | None = None,
    terms: str = "",
    replace: bool = False,
    progress: Progress | None = None,
) -> Address:
    """Add a name for a checkpoint, pinned to its present commit, and return the pinned address.

    `where` is a released name, an address or a folder. The checkpoint is pulled to compute the
    digests of its files. Without `terms`, those that it states are listed.

    Raises:
        CatalogueError: the name is taken or invalid, or the catalogue cannot be written.
        HubError, CheckpointError: the checkpoint is not available, not complete, or of another
            project.
    """
    _check_free(name, registry, _read_document(), replace=replace)
    released = registry.checkpoints.get(where)
    address = _address_of(where, registry)
    try:
        commit = hub_of(address, registry).listing(address).commit
        pinned = address.at(commit)
        folder = pull(str(pinned), registry, progress=progress)
    except NotOursError as error:
        raise NotOursError(error.what, error.why, _copy_first(where)) from None
    if released is not None:
        verify_files(folder, expected_files(released), where)
        summary, terms = summary or released.summary, terms or released.terms
    terms = terms or about_of(describe(folder)).terms
    entry = entry_of(folder, summary=summary, location=str(pinned), terms=terms)
    with _changing() as document:  # read again: another process may have changed it since
        _check_free(name, registry, document, replace=replace)
        entries = document.setdefault("checkpoints", tomlkit.table(is_super_table=True))
        if isinstance(entries, tomlkit.items.InlineTable):  # it holds no tables of several lines
            entries = tomlkit.table(is_super_table=True)
            entries.update(document.pop("checkpoints"))
            document["checkpoints"] = entries
        entries[name] = entry
    return pinned


def _check_free(
    name: str, registry: Registry, document: tomlkit.TOMLDocument, *, replace: bool
) -> None:
    """Make sure that a name is valid and not taken.

    Raises:
        CatalogueError: it is not.
    """
    if not NAME.fullmatch(name) or name in registry.models or name in registry.architectures:
        raise CatalogueError(
            f"{name[:100]!r} is not a valid name for a checkpoint",
            "a name has letters, digits, and ._+- between them, and is not a model or architecture",
        )
    mine = name in document.get("checkpoints", {})
    if (mine or name in registry.checkpoints) and not (replace and mine):
        owner = user_catalogue() if mine else registry.checkpoints[name].catalogue
        hint = "Replace it with --replace" if mine else "Choose another name"
        raise CatalogueError(f"{name!r} is taken", f"it is in {owner}", hint)


def entry_of(
    folder: Path, *, summary: str | None = None, location: str = "", terms: str = ""
) -> tomlkit.items.Table:
    """Return a catalogue's entry for a checkpoint folder, with the digest of each file.

    Raises:
        CheckpointError: the folder is not a complete checkpoint.
    """
    description = describe(folder)
    data = "unknown"
    if (folder / TRAINING).is_file():
        data = trained_on(read_json(folder / TRAINING, TEXT_LIMIT))[:NAME_LIMIT] or data
    entry = tomlkit.table()
    entry["model"] = description["model"]
    entry["dataset"] = data
    entry["summary"] = summary or f"{description['model']} trained on {Path(data).name}"
    for key, value in (("location", location), ("terms", terms)):
        if value:
            entry[key] = value
    files = tomlkit.table()
    for path in FILES:
        file = folder / path
        if file.is_file():
            digest = FileDigest.of(file)
            files[path] = tomlkit.inline_table()
            files[path].update({"size": digest.size, "sha256": digest.sha256})
    entry["files"] = files
    return entry


def remove(name: str) -> None:
    """Remove a name from the user's catalogue; the checkpoint itself is kept.

    Raises:
        CatalogueError: the catalogue has no such name, or cannot be written.
    """
    with _changing() as document:
        for section in SECTIONS:
            if name in document.get(section, {}):
                while name in document.get(section, {}):  # older tomlkits remove one key with dots
                    del document[section][name]
                return
    raise CatalogueError(f"{name!r} is not in {user_catalogue()}", "", "See `zoo registry list`")


def _address_of(where: str, registry: Registry) -> Address:
    """Return the address of a checkpoint that is given by a released name, an address or a folder.

    Raises:
        CheckpointError: there is none, or the folder is of another project.
    """
    released = registry.checkpoints.get(where)
    if released is None and Address.is_one(where):
        address = Address.parse(where)
        folder = Path(address.path)
        if address.scheme == "file" and folder.is_dir() and not (folder / REFS).is_dir():
            _check_folder(folder, where)
        return address
    if released is not None and released.address is not None:
        return released.address
    folder = Path(where) if released is None else released.folder
    if not folder.exists():
        raise registry.no_checkpoint(where)
    _check_folder(folder, where)
    return Address("file", str(folder.resolve()))


def _check_folder(folder: Path, where: str) -> None:
    """Make sure that a folder, given by `where`, is a complete checkpoint.

    Raises:
        CheckpointError: it is not; it may be of another project, or a training run.
    """
    if not is_checkpoint(folder) and not (folder / RUN).is_file():
        raise CheckpointError(f"{where} is not a checkpoint of the zoo", "", _copy_first(where))
    describe(folder)


def _copy_first(where: str) -> str:
    """Return how another project's checkpoint, if it is one, gets a name."""
    quoted = shlex.quote(where)
    return (
        f"If another project wrote it, convert it and name the result: `zoo convert {quoted} "
        "CHECKPOINT --dtype float32`; or write an alias into your settings"
    )


@contextlib.contextmanager
def _changing() -> Iterator[tomlkit.TOMLDocument]:
    """Yield the user's catalogue, locked against other processes, and write what changed of it.

    Raises:
        CatalogueError: it cannot be read, locked or written.
    """
    file = user_catalogue()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.resolve()):
            document = _read_document()
            before = tomlkit.dumps(document)
            yield document
            after = tomlkit.dumps(document)
            _check_written(file, after, document)
            if after != before:
                replace_file(file.resolve(), after)
    except (OSError, UnicodeEncodeError) as error:
        next = ANOTHER if isinstance(error, OSError) else "Rename it"
        raise CatalogueError(f"{file} cannot be written", reason_of(error), next) from None


def _check_written(file: Path, text: str, document: tomlkit.TOMLDocument) -> None:
    """Make sure that a text is read as the document that it is written from.

    Raises:
        CatalogueError: it is not: tomlkit puts a new table between keys with dots.
    """
    try:
        same = _content(tomllib.loads(text)) == _content(document.unwrap())
    except (ValueError, RecursionError):
        same = False
    if not same:
        why = "its entries are keys with dots, between which nothing can be added"
        next = "Write them as tables first, such as [checkpoints.NAME]"
        raise CatalogueError(f"{file} cannot be changed", why, next)


def _content(values: dict[str, Any]) -> str:
    """Return what a catalogue says, for a comparison; an empty section is not always written."""
    said = {key: value for key, value in values.items() if value or key not in SECTIONS}
    return json.dumps(said, sort_keys=True, default=str)  # NaN is not equal to itself


def _read_document() -> tomlkit.TOMLDocument:
    file = user_catalogue()
    if not may_exist(file):
        document = tomlkit.parse(HEADER)
        document["format"] = FORMAT
        return document
    problems = [
        text.removeprefix(f"{file}: ").removesuffix("; the catalogue is ignored")
        for text in read(file).problems
    ]
    try:
        document = tomlkit.parse(read_text(file, LARGEST).removeprefix("\ufeff"))
        if document.get("format") != FORMAT:
            raise ValueError(f"`format` must be {FORMAT}")
        for section in SECTIONS:
            if not isinstance(document.get(section, {}), dict):
                raise ValueError(f"[{section}] must be a table of tables")
    except CheckpointError as error:
        raise CatalogueError(f"{file} cannot be changed", error.why, ANOTHER) from None
    except (ValueError, TOMLKitError, RecursionError) as error:
        reason = "; ".join(problems) or str(error) or type(error).__name__
        raise CatalogueError(
            f"{file} cannot be changed", reason, "Correct it by hand first"
        ) from None
    return document


def check(registry: Registry) -> Iterator[Checked]:
    """Yield every model and checkpoint of the catalogues with its fault, comparing with the hubs.

    Digests are compared with those of the hub; files for which it has no SHA-256 are downloaded.
    """
    for problem in registry.problems:
        yield Checked("catalogue", "", problem)
    for shelf in (registry.models, registry.recipes):
        for name in shelf:
            yield Checked(shelf.kind, name, all_faults(faults_of(registry, shelf.kind, name)))
    for name, released in registry.checkpoints.items():
        fault = ""
        try:
            check_released(released, registry)
        except (ZooError, OSError) as error:
            fault = str(error)
        yield Checked("checkpoint", name, fault)


def check_released(released: Released, registry: Registry) -> None:
    """Make sure that a checkpoint is at its location and matches the digests of its catalogue.

    Raises:
        HubError, CheckpointError: it is not, or does not.
    """
    expected = expected_files(released)
    address = released.address
    if address is None:
        describe(released.folder)
        verify_files(released.folder, expected, released.name)
        return
    hub = hub_of(address, registry)
    listing = hub.listing(address)
    for path, digest in expected.items():
        listed = listing.files.get(path)
        if listed is None:
            raise HubError(f"{address} has no {path}", "the catalogue lists it")
        if not digest.agrees_with(listed):
            raise IntegrityError(f"{path} of {address} does not match the catalogue")
        if not listed.sha256 or address.scheme == "file":
            digest.verify(hub.fetch(address, path, listed, None), f"{path} of {address}")
