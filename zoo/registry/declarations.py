"""What plugins declare: architectures, datasets, engines, formats, hubs and metrics.

A heavy class is declared by its import path, `"package.module:Class"`, so that listing everything
imports neither pydantic nor torch.
"""

from __future__ import annotations

import importlib.resources
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from zoo.errors import FAILURES, DataError, PluginError, ZooError, out_of_memory, shown
from zoo.registry.address import is_scheme
from zoo.registry.imports import fault_of_path, import_object

if TYPE_CHECKING:
    from zoo.registry.config import Config

METRICS = {
    "bleu": "n-grams of up to 4 words that references have too (Papineni et al. 2002)",
    "chrf": "n-grams of characters that references have too (Popović 2015)",
    "ter": "edits of words to the nearest reference, per word (Snover et al. 2006)",
    "exact_match": "percentage of translations that are equal to a reference",
    "token_error_rate": "edits of target tokens per token of a reference",
}
"""The metrics that need no plugin, and what they measure. Their own module needs sacreBLEU."""


@dataclass(frozen=True)
class Architecture:
    """A family of networks.

    `config` and `network` are the import paths of its two classes; each is imported on first use.
    `equations` is a Markdown file for the models' cards, as `"package:file"`.
    """

    name: str
    summary: str
    paper: str
    config: str
    network: str
    equations: str = ""

    def config_type(self) -> type[Config]:
        """Import and return the config class.

        Raises:
            PluginError: it cannot be imported, or is no config class.
        """
        from zoo.registry.config import Config

        what = f"architecture {self.name!r}"
        config: object = import_object(self.config, what)
        if not (isinstance(config, type) and issubclass(config, Config)):
            reason = f"{self.config} is {shown(config)}, not a subclass of zoo.Config"
            raise PluginError(f"{what} is broken", reason, "Report this to its author")
        return config

    def equations_text(self) -> str:
        """Return the equations' Markdown, or an empty string.

        Raises:
            PluginError: the file cannot be read.
        """
        package, _, file = self.equations.partition(":")
        if not file:
            return ""
        try:
            return (importlib.resources.files(package) / file).read_text(encoding="utf-8").strip()
        except FAILURES as error:
            raise PluginError(
                f"architecture {self.name!r} is broken",
                f"its equations {self.equations!r} gave {type(error).__name__}: {error}",
                "Report this to its author",
            ) from error


@dataclass(frozen=True)
class Scheme:
    """A hub: its addresses begin with `NAME://`.

    `hub` is the import path of its class, a subclass of `zoo.Hub`, imported when an address of the
    scheme is first used.
    """

    name: str
    summary: str
    hub: str


@dataclass(frozen=True)
class Metric:
    """A score that `zoo eval` reports after the built-in ones.

    `metric` is the import path of its class, imported by `zoo eval` and called without arguments: a
    subclass of `zoo.SegmentMetric`, or of sacreBLEU's `Metric`. If the class has an attribute
    `needs_source` that is true, it also gets the source texts, after the references. With
    `everywhere=False` it is reported only for datasets that name it, and with `--metric`.
    """

    name: str
    summary: str
    metric: str
    everywhere: bool = True


@dataclass(frozen=True)
class Format:
    """A foreign format of checkpoints.

    `importer` and `exporter` are the import paths of subclasses of `zoo.interop.Importer` and
    `zoo.interop.Exporter`; either may be empty. `architecture` is the only one that the exporter
    writes, or empty if it writes every architecture. Several plugins may bring exporters to one
    format, each for its architecture.
    """

    name: str
    summary: str
    importer: str = ""
    exporter: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class Engine:
    """An engine that translates with an exported checkpoint.

    `format` is the name of the format that it runs. `runner` is the import path of its class, a
    subclass of `zoo.interop.Runner`, imported when the engine is first used.
    """

    name: str
    summary: str
    format: str
    runner: str


PATHS: dict[type, tuple[str, ...]] = {
    Architecture: ("config", "network"),
    Scheme: ("hub",),
    Metric: ("metric",),
    Format: ("importer", "exporter"),
    Engine: ("runner",),
}
"""What is the path of an object in each declaration; those of a format may be empty."""


def fault_of(declaration: object) -> str:
    """Return what is wrong with the values of a declaration, or an empty string."""
    assert is_dataclass(declaration)
    for each in fields(declaration):
        value = getattr(declaration, each.name)
        if each.type in ("str", str) and not isinstance(value, str):
            return f"its {each.name} is {reprlib.repr(value)}, not a string"
    for name in PATHS.get(type(declaration), ()):
        path = getattr(declaration, name)
        if (path or not isinstance(declaration, Format)) and (fault := fault_of_path(path, name)):
            return fault
    if isinstance(declaration, Scheme) and not is_scheme(declaration.name):
        return (
            f"addresses cannot begin with {declaration.name}://: a scheme has lowercase letters, "
            "digits, +, - and ., a letter first"
        )
    if isinstance(declaration, Dataset):
        strings = {"languages": str, "splits": str, "metrics": str}
        for name, kind in {**strings, "files": Path, "downloads": Download}.items():
            given: object = getattr(declaration, name)
            if not isinstance(given, tuple | list) or not all(isinstance(g, kind) for g in given):
                what = ", not strings" if kind is str else f": each must be a {kind.__name__}"
                return f"its {name} are {reprlib.repr(given)}{what}"
        if len(declaration.languages) != 2 or not declaration.splits:
            return "it needs two languages and at least one split"
        if not are_tasks(declaration.tasks):
            given = reprlib.repr(declaration.tasks)
            return f"its tasks are {given}, not tags, each with two languages, which may be empty"
        if not callable(declaration.read):
            return f"its read is {reprlib.repr(declaration.read)}, which cannot be called"
    return ""


def are_tasks(given: object) -> TypeGuard[Mapping[str, Sequence[str]]]:
    """Return whether these are tags of tasks, each with two languages, which may be empty."""
    return isinstance(given, Mapping) and all(
        isinstance(tag, str)
        and tag.strip() != ""
        and isinstance(languages, tuple | list)
        and len(languages) == 2
        and all(isinstance(code, str) for code in languages)
        for tag, languages in given.items()
    )


class Pair(NamedTuple):
    """A source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Download:
    """A public file that a dataset reads, for `zoo data get`.

    `file` is its path below `zoo.downloads_folder()`, `url` its address, `size` the bytes to
    download, 0 if unknown. The file is unpacked if the address ends in .gz, .bz2 or .xz; of a .zip,
    `member` is the one that is read. `lines` keeps only its first lines. `sha256` and `bytes` are
    the digest and the size of the file that results.
    """

    file: str
    url: str
    size: int
    sha256: str
    bytes: int
    member: str = ""
    lines: int | None = None


def two_values(given: object) -> tuple[Any, Any] | None:
    """Return the values of a pair, or of a mapping under `source` and `target`; None of others."""
    if isinstance(given, Mapping):
        return given.get("source"), given.get("target")
    return (given[0], given[1]) if isinstance(given, tuple | list) and len(given) == 2 else None


def _as_pair(given: object) -> Pair:
    """Return what a dataset's `read` yields as a pair.

    Raises:
        TypeError: it is not one of texts.
        UnicodeEncodeError: a text has half of a surrogate pair.
    """
    source, target = two_values(given) or (None, None)
    if not (isinstance(source, str) and isinstance(target, str)):
        raise TypeError(f"{reprlib.repr(given)} is not a pair of texts")
    if not (source.isascii() and target.isascii()):
        f"{source}{target}".encode()
    return Pair(source, target)


@dataclass(frozen=True)
class Dataset:
    """Parallel text with named splits.

    `read(split, limit)` yields that split's pairs in order. `limit` is the most pairs to read of
    each file, before any splitting. `terms` are its license or terms of use. `recipe` is the name
    of its recipe, if that differs from the dataset's name. `files` are those that its text is read
    from, if there are any. `downloads` are the public files that it reads, if `zoo data get` can
    fetch them. With `several_references`, the targets of one source are references of one
    translation when it is scored. `tasks` are those of several in one dataset: the tag with which a
    task's sources begin, and its two languages, empty where there is none. `metrics` are the names
    of the metrics that suit it; by default all, except those that suit certain data only.
    """

    name: str
    summary: str
    read: Callable[[str, int | None], Iterable[Pair]]
    languages: tuple[str, str] = ("", "")
    splits: tuple[str, ...] = ("train", "validation", "test")
    terms: str = ""
    recipe: str = ""
    files: tuple[Path, ...] = ()
    downloads: tuple[Download, ...] = ()
    several_references: bool = False
    metrics: tuple[str, ...] = ()
    tasks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    owner: str = ""
    """The plugin that brings it, as messages name it; set where a dataset is found by its name."""

    def load(self, split: str, limit: int | None = None) -> list[Pair]:
        """Return a split's pairs.

        Raises:
            DataError: there is no such split, or its files are missing, empty or malformed.
            PluginError: as `stream` does.
        """
        return list(self.stream(split, limit))

    def stream(self, split: str, limit: int | None = None) -> Iterator[Pair]:
        """Yield a split's pairs one by one, without holding all of them in memory.

        Raises:
            DataError: there is no such split, or its files are missing, empty or malformed.
            PluginError: `read` raises another error, or yields something else than two texts.
        """
        if split not in self.splits:
            known = " and ".join(filter(None, (", ".join(self.splits[:-1]), self.splits[-1])))
            raise DataError(f"{self.name} has no split {split!r}", f"it has {known}")
        if limit is not None and limit > sys.maxsize:
            limit = None  # which `islice` refuses
        try:
            for pair in self.read(split, limit):
                yield _as_pair(pair)
        except ZooError:
            raise
        except FAILURES as error:
            if (isinstance(error, OSError) and error.filename is not None) or out_of_memory(error):
                raise  # a file of the user's, or this machine
            raise PluginError(
                f"dataset {self.name!r}{f' of {self.owner}' if self.owner else ''} is broken",
                f"split {split} gave {type(error).__name__}: {error}",
                "Report this to its author",
            ) from error

    @property
    def scored_split(self) -> str:
        """The split that `zoo eval` scores by default."""
        return "test" if "test" in self.splits else self.splits[0]
