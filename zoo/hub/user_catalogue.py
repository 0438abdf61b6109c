"""The user's own catalogue: names are added and removed, comments and order kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from zoo.checkpoint.format import FILES, TRAINING, describe
from zoo.errors import CatalogueError, HubError, IntegrityError, ZooError
from zoo.files import TEXT_LIMIT, read_json, replace_file
from zoo.hub.contract import Show, digest
from zoo.hub.hubs import hub_of
from zoo.hub.pull import check_files, promises, pull
from zoo.registry.address import Address
from zoo.registry.catalogue import FORMAT, NAME, Released, read, user_catalogue
from zoo.registry.registry import Registry

HEAD = "# Your own names for checkpoints; `zoo registry add` and `remove` write here.\n\n"


@dataclass(frozen=True)
class Checked:
    """An entry of a catalogue, with what is wrong with it, empty if nothing is."""

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
    show: Show | None = None,
) -> Address:
    """Give a checkpoint a name, pinned to the commit that it is at now; return that address.

    `where` is an address, or a folder. It is pulled, so that what the catalogue promises of its
    bytes has been seen.

    Raises:
        CatalogueError: the name is taken or can be none, or the catalogue cannot be written.
        HubError, CheckpointError: the checkpoint cannot be had, or is not whole.
    """
    document = _opened()
    entries = document.setdefault("checkpoints", tomlkit.table(is_super_table=True))
    if not NAME.fullmatch(name) or name in registry.models or name in registry.architectures:
        raise CatalogueError(
            f"{name!r} can be no checkpoint's name",
            "one has letters, digits, and ._+- between them, and no model or architecture has it",
        )
    if name in registry.checkpoints and not (replace and name in entries):
        lists = registry.checkpoints[name].catalogue
        hint = "--replace puts another in its place" if name in entries else "Give another name"
        raise CatalogueError(f"{name!r} is taken", f"{lists} lists it", hint)
    address = Address.parse(where) if Address.is_one(where) else _of_folder(Path(where))
    commit = hub_of(address, registry).listing(address).commit
    pinned = address.at(commit)
    folder = pull(str(pinned), registry, show=show)
    entries[name] = entry_of(folder, summary=summary, location=str(pinned), terms=terms)
    _write(document)
    return pinned


def entry_of(
    folder: Path, *, summary: str | None = None, location: str = "", terms: str = ""
) -> tomlkit.items.Table:
    """Return what a catalogue says of a checkpoint folder: what it is, and a promise of each file.

    Raises:
        CheckpointError: it is not a whole checkpoint.
    """
    description = describe(folder)
    data = "unknown"
    if (folder / TRAINING).is_file():
        data = str(read_json(folder / TRAINING, TEXT_LIMIT).get("data", data))
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
            promise = tomlkit.inline_table()
            promise.update({"size": file.stat().st_size, "sha256": digest(file)})
            files[path] = promise
    entry["files"] = files
    return entry


def remove(name: str) -> None:
    """Take a name out of the user's catalogue; what it named stays where it is.

    Raises:
        CatalogueError: the catalogue has no such name, or cannot be written.
    """
    document = _opened()
    for section in ("checkpoints", "models", "recipes"):
        if name in document.get(section, {}):
            del document[section][name]
            _write(document)
            return
    raise CatalogueError(
        f"{user_catalogue()} does not list {name!r}", "", "See `zoo registry check`"
    )


def _of_folder(folder: Path) -> Address:
    describe(folder)
    return Address("file", str(folder.resolve()))


def _opened() -> tomlkit.TOMLDocument:
    file = user_catalogue()
    if not file.exists():
        document = tomlkit.parse(HEAD)
        document["format"] = FORMAT
        return document
    problems = read(file).problems
    try:
        document = tomlkit.parse(file.read_text(encoding="utf-8"))
        if document.get("format") != FORMAT:
            raise ValueError(f"`format` must be {FORMAT}")
        if not isinstance(document.get("checkpoints", {}), dict):
            raise ValueError("[checkpoints] must be a table of tables")
    except (OSError, ValueError, TOMLKitError, RecursionError) as error:
        reason = "; ".join(problems) or " ".join(str(error).split()) or type(error).__name__
        raise CatalogueError(
            f"{file} cannot be changed", reason, "Put it right by hand first"
        ) from None
    return document


def _write(document: tomlkit.TOMLDocument) -> None:
    file = user_catalogue()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file.resolve(), tomlkit.dumps(document))
    except OSError as error:
        raise CatalogueError(f"{file} cannot be written", error.strerror or str(error)) from None


def check(registry: Registry) -> Iterator[Checked]:
    """Look at every model and checkpoint of the catalogues, asking the hubs, one by one.

    Promised digests are compared with the hub's; files of which it tells none are fetched.
    """
    for problem in registry.problems:
        yield Checked("catalogue", "", problem)
    for name, model in registry.models.items():
        fault = ""
        try:
            table = registry.config(name).parameters(model.source_vocab, model.target_vocab)
            if table.total != model.parameters:
                fault = f"it has {table.total:,} parameters, not {model.parameters:,}"
        except ZooError as error:
            fault = str(error)
        yield Checked("model", name, fault)
    for name, released in registry.checkpoints.items():
        fault = ""
        try:
            check_released(released, registry)
        except ZooError as error:
            fault = str(error)
        yield Checked("checkpoint", name, fault)


def check_released(released: Released, registry: Registry) -> None:
    """Make sure that a checkpoint is where its catalogue says, and has the promised bytes.

    Raises:
        HubError, CheckpointError: it is not, or has not.
    """
    promised = promises(released)
    address = released.address
    if address is None:
        describe(released.folder)
        check_files(released.folder, promised, released.name)
        return
    hub = hub_of(address, registry)
    listing = hub.listing(address)
    for path, promise in promised.items():
        there = listing.files.get(path)
        if there is None:
            raise HubError(f"{address} has no {path}", "the catalogue promises it")
        if there.size != promise.size or (there.sha256 and there.sha256 != promise.sha256):
            raise IntegrityError(f"{path} of {address} is not what the catalogue promises")
        if not there.sha256 or address.scheme == "file":
            promise.check(hub.fetch(address, path, there, None), f"{path} of {address}")
