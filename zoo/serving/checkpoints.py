"""The checkpoints that a server offers: names, folders, and what is known about them. No torch."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.facts import read_card
from zoo.checkpoint.format import (
    CARD,
    CONFIG,
    TRAINING,
    WEIGHTS,
    about_of,
    architecture_of,
    describe,
    trained_on,
)
from zoo.data.languages import find_language, is_language, language_name, short_codes
from zoo.errors import DataError, DecodingError, ZooError, near
from zoo.files import TEXT_LIMIT, read_json
from zoo.registry.address import Address
from zoo.registry.config import parameters_of
from zoo.registry.registry import Registry
from zoo.serving.errors import CheckpointGoneError, UnknownCheckpointError

LARGEST = 1e15
"""Updates and losses from here on are not drawn."""

CURVE_POINTS = 400
"""The most points of each training curve that the page gets."""


@dataclass(frozen=True)
class Served:
    """A checkpoint that the server offers under `name`.

    sources, targets: codes of the languages that it reads and writes, the default first; none
    where nothing records them. short: what clients call each of them, where that is shorter.
    """

    name: str
    folder: Path
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    about: About = field(default_factory=About)
    short: Mapping[str, str] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[list[str], list[str]]:
        """What clients call the languages that it reads, and those that it writes."""
        return [*map(self._called, self.sources)], [*map(self._called, self.targets)]

    @property
    def default(self) -> tuple[str, str]:
        """What clients call the languages that need no choice, or empty."""
        source, target = (next(iter(codes), "") for codes in self.languages)
        return source, target

    def choice(self, source: str, target: str) -> tuple[str, str] | None:
        """Return the codes that choose two languages, empty for a default one.

        None if it does not translate from one to the other, or several of its codes may be meant.
        """
        chosen, sides = [], (self.sources, self.targets)
        for given, codes in zip((source, target), sides, strict=True):
            try:
                code = find_language(given, codes)
            except DecodingError:
                return None
            if code not in codes:
                return None
            chosen.append("" if code == codes[0] else code)
        source, target = (one or codes[0] for one, codes in zip(chosen, sides, strict=True))
        if any(chosen) and self._called(source) == self._called(target):
            return None
        return chosen[0], chosen[1]

    def is_named(self, source: str, target: str) -> bool:
        """Return whether two codes are exactly those of its default languages."""
        return (source, target) == (self.sources[0], self.targets[0])

    def _called(self, code: str) -> str:
        """Return what clients call a language."""
        return self.short.get(code, code)

    @property
    def beam(self) -> int:
        """The beam that it recommends, or 1."""
        return int(self.about.decoding.get("beam", 1))

    @property
    def version(self) -> str:
        """A string that changes when the folder is replaced.

        Raises:
            CheckpointGoneError: the folder is not there.
        """
        try:
            states = [os.stat(self.folder / file) for file in (CONFIG, WEIGHTS)]
        except OSError:
            raise CheckpointGoneError(
                f"checkpoint {self.name!r} is not there any more",
                "its folder was removed or is incomplete",
            ) from None
        return "-".join(f"{s.st_ino:x}.{s.st_size:x}.{s.st_mtime_ns:x}" for s in states)

    def job(self) -> dict[str, Any]:
        """Return what a worker needs to load it."""
        return {"checkpoint": self.name, "folder": str(self.folder), "version": self.version}


class Checkpoints(Mapping[str, Served]):
    """The checkpoints of a server, by name."""

    def __init__(self, folders: Mapping[str, Path], registry: Registry) -> None:
        """Look at the checkpoints.

        Raises:
            DataError: one reads feature vectors, which no request can hold.
        """
        self.registry = registry
        languages = {name: languages_of(folder, registry) for name, folder in folders.items()}
        short = short_codes(itertools.chain.from_iterable(languages.values()))
        self._served = {
            name: Served(name, folder, *languages[name], _about(folder), short)
            for name, folder in folders.items()
        }
        for name, folder in folders.items():
            _check_text(name, folder, registry)

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def named(self, name: str) -> Served:
        """Return the checkpoint called `name`.

        Raises:
            UnknownCheckpointError: there is none; near names are suggested.
        """
        if name not in self._served:
            suggestions = near(name, self._served)
            raise UnknownCheckpointError(
                f"unknown checkpoint {name[:200]!r}",
                f"did you mean {' or '.join(suggestions)}?" if suggestions else "",
                "" if suggestions else "GET /api/models lists them",
            )
        return self._served[name]

    def translating(self, source: str, target: str) -> tuple[Served, tuple[str, str]] | None:
        """Return a checkpoint from one language to another, and what chooses them; None without.

        It is the first of which these are the default languages, by exactly these codes if there
        is one, else the first that knows them.
        """
        fitting = (
            (served, choice)
            for served in self._served.values()
            if (choice := served.choice(source, target)) is not None
        )
        return min(
            fitting,
            key=lambda one: (any(one[1]), not one[0].is_named(source, target)),
            default=None,
        )

    @cached_property
    def offered(self) -> dict[str, list[str]]:
        """The languages that each source language can be translated into, by code."""
        targets: dict[str, dict[str, None]] = {}
        for served in self._served.values():
            for source, target in itertools.product(*served.languages):
                if source != target or (source, target) == served.default:
                    targets.setdefault(source, {})[target] = None
        return {source: list(targets[source]) for source in sorted(targets)}


def unique_names(given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return what is served by name: (name, checkpoint) pairs, the name empty where not given.

    The default name is the last part of a released name, an address or a path.

    Raises:
        DataError: two have the same name.
    """
    served: dict[str, str] = {}
    for name, checkpoint in given:
        if not name and Address.is_one(checkpoint):
            name = Path(checkpoint.partition("@")[0]).name
        chosen = name or Path(checkpoint).name or Path(checkpoint).resolve().name
        if chosen in served:
            raise DataError(
                f"two checkpoints are called {chosen!r}",
                f"{served[chosen]} and {checkpoint}",
                f"Give one another name: NAME={checkpoint}",
            )
        served[chosen] = checkpoint
    return served


def languages_of(folder: Path, registry: Registry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages that a checkpoint reads and writes, none where nothing records them."""
    about = _about(folder)
    if about.source_languages or about.target_languages:
        return about.source_languages, about.target_languages
    source, target = (code.lower() for code in _languages_of_data(folder, registry))
    return (source,) if source else (), (target,) if target else ()


def _languages_of_data(folder: Path, registry: Registry) -> tuple[str, str]:
    """Return the languages that the card or the data names, empty where none does."""
    metadata: Mapping[str, Any] = {}
    with contextlib.suppress(ZooError):
        metadata = split_card(read_card(folder), CARD)[0]
    recorded = metadata.get("language")
    if isinstance(recorded, list) and len(recorded) == 2:
        return str(recorded[0]), str(recorded[1])
    try:
        data = trained_on(read_json(folder / TRAINING, TEXT_LIMIT))
    except ZooError:
        return "", ""
    if data in registry.datasets:
        return registry.datasets[data].languages
    source, _, target = data.rpartition(":")[2].partition("-")
    files = ":" in data and is_language(source) and is_language(target)
    return (source, target) if files else ("", "")


def _check_text(name: str, folder: Path, registry: Registry) -> None:
    """Raise a DataError if a checkpoint reads feature vectors; a damaged one is shown later."""
    features = False
    with contextlib.suppress(ZooError):
        description = describe(folder)
        architecture = architecture_of(folder, description, registry)
        features = architecture.config_type().parse(description["config"], CONFIG).features
    if features:
        raise DataError(
            f"cannot serve {name}", "it reads files of feature vectors, and a request holds text",
            "Use `zoo translate`",
        )  # fmt: skip


def _about(folder: Path) -> About:
    """Return what a checkpoint says about itself; nothing if it is damaged."""
    with contextlib.suppress(ZooError):
        return about_of(describe(folder))
    return About()


def of_languages(served: Served) -> dict[str, Any]:
    """Return what the list of models says about a checkpoint's languages."""
    (source, target), (reads, writes) = served.default, served.languages
    return {
        "source_language": source,
        "target_language": target,
        "source_languages": [{"code": one, "name": language_name(one)} for one in reads],
        "target_languages": [{"code": one, "name": language_name(one)} for one in writes],
    }


def summary(served: Served, registry: Registry) -> dict[str, Any]:
    """Return what the list of models says about a checkpoint.

    Raises:
        ZooError: the folder is damaged or its architecture is not installed.
    """
    description = describe(served.folder)
    architecture = architecture_of(served.folder, description, registry)
    config = architecture.config_type().parse(description["config"], CONFIG)
    table = parameters_of(config, description["source_vocab"], description["target_vocab"])
    return {
        "name": served.name,
        "model": description["model"],
        "architecture": architecture.name,
        "summary": architecture.summary,
        **of_languages(served),
        "sources": list(config.sources),
        "parameters": table.total,
        "decoding": dict(served.about.decoding),
        "examples": list(served.about.examples),
    }


def details(served: Served, registry: Registry) -> dict[str, Any]:
    """Return the summary with the card, parameters by block, settings and training curve.

    Raises:
        ZooError: as `summary` does.
    """
    about = summary(served, registry)
    description = describe(served.folder)
    architecture = architecture_of(served.folder, description, registry)
    config = architecture.config_type().parse(description["config"], CONFIG)
    table = parameters_of(config, description["source_vocab"], description["target_vocab"])
    training: dict[str, Any] = {}
    if (served.folder / TRAINING).is_file():
        training = read_json(served.folder / TRAINING, TEXT_LIMIT)
    card = ""
    if (served.folder / CARD).is_file():
        card = split_card(read_card(served.folder), CARD)[1]
    return {
        **about,
        "paper": architecture.paper,
        "blocks": table.blocks(),
        "config": config.model_dump(mode="json"),
        "curve": curve(training.get("curve")),
        "card": card,
    }


def curve(records: object) -> dict[str, list[list[float]]]:
    """Return the training and validation loss as [update, nats per token], thinned for a plot."""
    rows = records if isinstance(records, list) else []
    curves: dict[str, list[list[float]]] = {}
    for key in ("loss", "validation_loss", "bleu"):
        points = [
            [float(row["step"]), float(row[key])]
            for row in rows
            if isinstance(row, dict)
            and all(
                type(row.get(name)) in (int, float) and abs(row[name]) < LARGEST
                for name in (key, "step")
            )
        ]
        step = max(1, -(-len(points) // CURVE_POINTS))
        curves[key] = points[::-step][::-1]
    return curves
