"""What plugins declare: architectures, datasets, hubs and metrics.

Each declaration names its class or function as text where that is heavy, so that listing
everything imports neither pydantic, torch nor any other library.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from zoo.errors import DataError
from zoo.registry.imports import import_object

if TYPE_CHECKING:
    from zoo.registry.config import Config


@dataclass(frozen=True)
class Architecture:
    """A family of networks.

    `config` and `network` name the two classes as `"package.module:Class"`; each is imported on
    first use (`zoo.nn.build` imports the network). `equations` is a Markdown file for the models'
    cards, as `"package:file"`.
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
            PluginError: it cannot be imported.
        """
        return cast("type[Config]", import_object(self.config, f"architecture {self.name!r}"))

    def equations_text(self) -> str:
        """Return the Markdown of the equations, empty if there is none."""
        package, _, file = self.equations.partition(":")
        if not file:
            return ""
        return (importlib.resources.files(package) / file).read_text(encoding="utf-8").strip()


@dataclass(frozen=True)
class Scheme:
    """A hub: its addresses begin with `NAME://`.

    `hub` names its class, a subclass of `zoo.Hub`, as `"package.module:Class"`; it is imported
    when an address of the scheme is first used.
    """

    name: str
    summary: str
    hub: str


@dataclass(frozen=True)
class Metric:
    """A score that `zoo eval` reports beside the built-in ones.

    `metric` names its class as `"package.module:Class"`, imported by `zoo eval`: a subclass of
    sacreBLEU's `Metric` that is made without arguments. That base class provides confidence
    intervals and significance tests.
    """

    name: str
    summary: str
    metric: str


class Pair(NamedTuple):
    """A source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Dataset:
    """Parallel text with named splits.

    `read(split, limit)` yields that split's pairs in order; `limit` bounds how many pairs of each
    file are read, before any split is made. `recipe` names the recipe to train with, where that
    differs from the dataset's name. `files` are the files that it reads, if they alone determine
    its text.
    """

    name: str
    summary: str
    read: Callable[[str, int | None], Iterable[Pair]]
    languages: tuple[str, str] = ("", "")
    splits: tuple[str, ...] = ("train", "validation", "test")
    terms: str = ""
    recipe: str = ""
    files: tuple[Path, ...] = ()

    def load(self, split: str, limit: int | None = None) -> list[Pair]:
        """Return a split's pairs.

        Raises:
            DataError: there is no such split, or its files are missing, empty or malformed.
        """
        return list(self.stream(split, limit))

    def stream(self, split: str, limit: int | None = None) -> Iterator[Pair]:
        """Yield a split's pairs, as `load` returns them, without holding them all in memory.

        Raises:
            DataError: there is no such split, or its files are missing, empty or malformed.
        """
        if split not in self.splits:
            known = " and ".join(self.splits)
            raise DataError(f"{self.name} has no split {split!r}", f"it has {known}")
        yield from self.read(split, limit)

    @property
    def scored_split(self) -> str:
        """The split that `zoo eval` scores when none is named."""
        return "test" if "test" in self.splits else self.splits[0]
