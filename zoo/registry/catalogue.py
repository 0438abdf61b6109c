"""Catalogues: TOML files that list models, checkpoints and recipes.

Everything that is wrong in a catalogue is listed, by file and entry; the rest of it is usable.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import CheckpointError, HubError, did_you_mean, in_brackets
from zoo.files import read_text
from zoo.registry.address import SHA256, Address, is_inside
from zoo.registry.cache_folder import user_folder

FORMAT = 1
LARGEST = 10_000_000
"""The most bytes of a catalogue."""

LISTED = 20
"""The most unknown keys of an entry that are named."""

MOST_FAULTS = 50
"""The most faults of an entry that are listed."""

DEEPEST = 20
"""The most tables and arrays inside of each other in an entry."""

INTEGERS = range(-(2**63), 2**63)
"""The integers of TOML."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")

AUTO = "auto"
"""The recipe of data that has none; training chooses its values."""


@dataclass(frozen=True)
class Model:
    """An architecture with a named configuration, as a catalogue lists it.

    `parameters` is the exact count at the reference vocabularies, `paper_parameters` the paper's
    number; `notes` is Markdown for the card.
    """

    name: str
    architecture: str
    summary: str
    parameters: int
    source_vocab: int
    target_vocab: int
    config: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
    paper_parameters: int | None = None


class FileEntry(NamedTuple):
    """A file of a checkpoint as its catalogue lists it: size in bytes and SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Released:
    """A checkpoint that a catalogue lists.

    It is at the address `location`, or, if that is empty, in `folder` beside the catalogue. `files`
    lists its files with their hashes, `scores` its scores, `terms` the licenses of its weights and
    of its data.
    """

    name: str
    model: str
    dataset: str
    summary: str
    folder: Path
    location: str = ""
    files: dict[str, FileEntry] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    terms: str = ""
    catalogue: str = ""

    @property
    def address(self) -> Address | None:
        """Where it is downloaded from; None if it is in a folder beside its catalogue."""
        return Address.parse(self.location) if self.location else None

    def is_same(self, other: Released | None) -> bool:
        """Return whether another entry lists the same files, as a repository and its package do."""
        return other is not None and bool(self.files) and self.files == other.files


@dataclass(frozen=True)
class Package:
    """A distribution with further checkpoints, whose names match a pattern in `checkpoints`."""

    name: str
    summary: str
    terms: str
    checkpoints: list[str]


@dataclass
class Contents:
    """The well-formed entries of a catalogue, and in `problems` a line for each other one."""

    models: dict[str, Model] = field(default_factory=dict)
    checkpoints: dict[str, Released] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


TOML_NAMES = {str: "a string", int: "an integer", dict: "a table", list: "an array"}


class Key(NamedTuple):
    """A key of an entry: the type of its value, whether it is required, and its meaning."""

    kind: type
    required: bool
    meaning: str


MODEL_KEYS = {
    "architecture": Key(str, True, "name of an installed architecture"),
    "summary": Key(str, True, "one line for lists and cards"),
    "parameters": Key(int, True, "exact number of parameters at the two vocabulary sizes"),
    "source_vocab": Key(int, True, "reference size of the source vocabulary"),
    "target_vocab": Key(int, True, "reference size of the target vocabulary"),
    "config": Key(dict, False, "values of the architecture's configuration"),
    "recipe": Key(dict, False, "values of the recipe for this model on all data"),
    "notes": Key(str, False, "Markdown for the model's card"),
    "paper_parameters": Key(int, False, "number of parameters that the paper reports"),
}
CHECKPOINT_KEYS = {
    "model": Key(str, True, "name of the model"),
    "dataset": Key(str, True, "name of the dataset that it was trained on"),
    "summary": Key(str, True, "one line for lists"),
    "location": Key(str, False, "address with a commit; without it, the checkpoint is the folder "
                    "`cards/checkpoints/NAME` beside the catalogue"),
    "files": Key(dict, False, "table for each file; required with `location`"),
    "scores": Key(dict, False, "scores by metric, for lists"),
    "terms": Key(str, False, "terms of use of the weights and of the data"),
}  # fmt: skip
PACKAGE_KEYS = {
    "summary": Key(str, True, "one line for lists"),
    "terms": Key(str, True, "terms of use of its checkpoints"),
    "checkpoints": Key(list, True, "patterns of the names of its checkpoints, such as `*-en-de`"),
}
FILE_KEYS = {
    "size": Key(int, True, "size in bytes"),
    "sha256": Key(str, True, "SHA-256, 64 hexadecimal digits"),
}


def user_catalogue() -> Path:
    """Return the user's catalogue: `ZOO_REGISTRY`, or `zoo/registry.toml` in the config folder."""
    given = os.environ.get("ZOO_REGISTRY")
    if given:
        return Path(os.path.expanduser(given))
    return user_folder("XDG_CONFIG_HOME", ".config") / "zoo" / "registry.toml"


def may_exist(file: Path) -> bool:
    """Return whether a catalogue is there, or in a folder that may not be searched."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass  # `read` reports it
    return True


def read(file: Path, origin: str = "") -> Contents:
    """Read a catalogue; `origin` names it in `problems`."""
    origin = origin or str(file)
    contents = Contents()
    try:
        content = tomllib.loads(read_text(file, LARGEST).removeprefix("\ufeff"))
    except (CheckpointError, ValueError, RecursionError) as error:
        text = error.why if isinstance(error, CheckpointError) else str(error)
        reason = " ".join(text.split()) or type(error).__name__
        contents.problems.append(f"{origin}: {reason}; the catalogue is ignored")
        return contents
    if content.pop("format", None) != FORMAT:
        contents.problems.append(f"{origin}: `format` must be {FORMAT}; the catalogue is ignored")
        return contents
    for section, entries in content.items():
        if section not in CHECKS:
            contents.problems.append(f"{origin}: unknown section [{section}]")
        elif not isinstance(entries, dict):
            contents.problems.append(f"{origin}: [{section}] must be a table of tables")
        else:
            for name, entry in entries.items():
                faults = [] if NAME.fullmatch(name) else [f"{name!r} is not a valid name"]
                faults += CHECKS[section](entry)
                if faults:
                    contents.problems.append(f"{origin}, {section}.{name}: {all_faults(faults)}")
                else:
                    _add(contents, file, section, name, entry)
    return contents


def all_faults(faults: Sequence[str]) -> str:
    """Return all faults of an entry in one line; of very many, the first ones and their number."""
    more = f"; and {len(faults) - MOST_FAULTS:,} more" if len(faults) > MOST_FAULTS else ""
    return "; ".join(faults[:MOST_FAULTS]) + more


def _add(contents: Contents, file: Path, section: str, name: str, entry: Any) -> None:
    """Add an entry without faults."""
    if section == "models":
        contents.models[name] = Model(name=name, **entry)
    elif section == "packages":
        contents.packages[name] = Package(name, **entry)
    elif section == "recipes":
        contents.recipes[name] = entry
    else:
        values = {key: value for key, value in entry.items() if key != "files"}
        hashes = {path: FileEntry(**listed) for path, listed in entry.get("files", {}).items()}
        folder = file.parent / "cards" / "checkpoints" / name
        contents.checkpoints[name] = Released(
            name, folder=folder, files=hashes, catalogue=str(file), **values
        )


def _model_faults(entry: Any) -> list[str]:
    faults = _faults(entry, MODEL_KEYS)
    reported = entry.get("paper_parameters") if isinstance(entry, dict) else None
    if type(reported) is int and reported < 1:
        faults.append("'paper_parameters' must be at least 1")
    return faults


def _package_faults(entry: Any) -> list[str]:
    faults = _faults(entry, PACKAGE_KEYS)
    patterns = entry.get("checkpoints") if isinstance(entry, dict) else None
    if isinstance(patterns, list) and not all(isinstance(each, str) for each in patterns):
        faults.append("'checkpoints' must be an array of strings")
    return faults


def _recipe_faults(entry: Any) -> list[str]:
    config = entry.get("config", {}) if isinstance(entry, dict) else {}
    return _faults(entry, {}) + _faults(config, {}, "'config' ")


def _checkpoint_faults(entry: Any) -> list[str]:
    faults = _faults(entry, CHECKPOINT_KEYS)
    if not isinstance(entry, dict):
        return faults
    files = entry.get("files", {})
    for path, listed in files.items() if isinstance(files, dict) else ():
        where = f"files.{path[:100]!r} "
        if not is_inside(path):
            faults.append(f"{where}leads out of its folder or is not a file name")
        more = _faults(listed, FILE_KEYS, where)
        if not more and (listed["size"] < 0 or not SHA256.fullmatch(listed["sha256"])):
            more = [f"{where}needs a size and 64 hexadecimal digits of SHA-256"]
        faults += more
    return faults + _location_faults(entry)


def _location_faults(entry: Mapping[str, Any]) -> list[str]:
    location = entry.get("location")
    if not isinstance(location, str):
        return []  # there is none, or its type is a fault
    faults = []
    try:
        if Address.parse(location).commit is None:
            faults.append("'location' must name a commit: 40 hexadecimal digits after the @")
    except HubError as error:
        faults.append(f"'location': {error}")
    if entry.get("files", {}) == {}:
        faults.append("'files' is missing: files that are downloaded need sizes and hashes")
    return faults


CHECKS: Mapping[str, Callable[[Any], list[str]]] = {
    "models": _model_faults,
    "packages": _package_faults,
    "checkpoints": _checkpoint_faults,
    "recipes": _recipe_faults,
}
"""What returns everything that is wrong with an entry, by section."""


def _faults(entry: object, keys: Mapping[str, Key], where: str = "") -> list[str]:
    """Return the wrong keys and types of an entry; an empty `keys` allows any keys."""
    if not isinstance(entry, dict):
        return [f"{where}must be a table"]
    unknown = [key for key in entry if keys and key not in keys]
    faults = [
        f"{where}unknown key {key[:100]!r}{in_brackets(did_you_mean(key, keys, 1))}"
        for key in unknown[:LISTED]
    ]
    if len(unknown) > LISTED:
        faults.append(f"{where}{len(unknown) - LISTED:,} more unknown keys")
    for key, (kind, required, _) in keys.items():
        if key not in entry:
            faults += [f"{where}{key!r} is missing"] if required else []
        elif type(entry[key]) is not kind:
            faults.append(f"{where}{key!r} must be {TOML_NAMES[kind]}")
    odd = [(key, what) for key, value in entry.items() if (what := _odd(value))]
    return faults + [f"{where}{key[:100]!r} {what}" for key, what in odd[:LISTED]]


def _odd(value: object, levels: int = DEEPEST) -> str:
    """Return what a value of TOML has that JSON or a catalogue cannot have; empty if nothing."""
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        inside = (_odd(each, levels - 1) for each in values)
        return next(filter(None, inside), "") if levels else f"has over {DEEPEST} levels"
    if type(value) is int:
        return "" if value in INTEGERS else "has an integer of over 64 bits"
    plain = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return "" if plain else "has a date, a time, inf or nan"
