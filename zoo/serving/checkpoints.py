"""The checkpoints that a server offers: names, folders, and what is known about them. No torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from zoo.errors import DataError, ZooError, near
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
    """A checkpoint that the server offers under `name`."""

    name: str
    folder: Path
    languages: tuple[str, str]
    about: About = field(default_factory=About)

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
        self._served = {
            name: Served(name, folder, languages_of(folder, registry), _about(folder))
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

    def translating(self, source: str, target: str) -> Served | None:
        """Return the first checkpoint from one language to another, or None."""
        wanted = (source.lower(), target.lower())
        return next((s for s in self._served.values() if s.languages == wanted), None)


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


def languages_of(folder: Path, registry: Registry) -> tuple[str, str]:
    """Return a checkpoint's source and target languages, empty where nothing records them."""
    source, target = _recorded_languages(folder, registry)
    return source.lower(), target.lower()


def _recorded_languages(folder: Path, registry: Registry) -> tuple[str, str]:
    about = _about(folder)
    if about.source_languages and about.target_languages:
        return about.source_languages[0], about.target_languages[0]
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
    files = ":" in data and source.isalpha() and target.isalpha()
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
        "source_language": served.languages[0],
        "target_language": served.languages[1],
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
