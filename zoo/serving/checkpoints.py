"""The checkpoints that a server offers: names, folders, and what is known about them. No torch."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.facts import read_card
from zoo.checkpoint.format import (
    CARD,
    CONFIG,
    SHARED,
    SOURCE,
    TARGET,
    TRAINING,
    WEIGHTS,
    WORDS,
    about_of,
    architecture_of,
    describe,
    trained_on,
)
from zoo.data.languages import find_language, is_language, short_codes
from zoo.errors import DataError, DecodingError, ZooError, did_you_mean
from zoo.files import TEXT_LIMIT, read_json
from zoo.registry.address import Address
from zoo.registry.registry import Registry
from zoo.serving.errors import CheckpointGoneError, UnknownCheckpointError

READ = CONFIG, WEIGHTS, SHARED, SOURCE, TARGET, WORDS
"""The files of a checkpoint that are read in order to translate, as far as it has them."""


@dataclass(frozen=True)
class Served:
    """A checkpoint that the server offers under `name`.

    sources, targets: codes of the languages that it reads and writes, the default first; none
    where nothing records them. short: what clients call each of them, where that is shorter.
    described: the state of the folder when all this was read.
    """

    name: str
    folder: Path
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    about: About = field(default_factory=About)
    short: Mapping[str, str] = field(default_factory=dict)
    described: tuple[str, ...] = ()

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
        """A string that changes when the network or a tokenizer is replaced.

        Raises:
            CheckpointGoneError: the folder is not there.
        """
        config, weights, *more = state_of(self.folder, READ)
        if not (config and weights):
            raise CheckpointGoneError(
                f"checkpoint {self.name!r} is not there any more",
                "its folder was removed or is incomplete",
            )
        return "-".join([config, weights, *more])

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
        self._served = {name: Served(name, folder) for name, folder in folders.items()}
        self._refresh(folders)
        for name, folder in folders.items():
            _check_text(name, folder, registry)

    def __getitem__(self, name: str) -> Served:
        self._refresh([name] if name in self._served else [])
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def values(self) -> ValuesView[Served]:
        """Return all checkpoints, as they are now."""
        self._refresh(self._served)
        return self._served.values()

    def _refresh(self, names: Iterable[str]) -> None:
        """Describe anew those of some checkpoints whose folders were replaced.

        One that is removed or damaged is known as it was, until it is back.
        """
        changed: dict[str, Served] = {}
        for name in names:
            one = self._served[name]
            state = state_of(one.folder, (*READ, CARD, TRAINING))
            if state != one.described:
                with contextlib.suppress(ZooError, OSError):
                    about = about_of(describe(one.folder))
                    sources, targets = languages_of(one.folder, about, self.registry)
                    changed[name] = replace(
                        one, sources=sources, targets=targets, about=about, described=state
                    )
        if changed:
            served = {**self._served, **changed}
            known = ((one.sources, one.targets) for one in served.values())
            short = short_codes(itertools.chain.from_iterable(known))
            self._served = {name: replace(one, short=short) for name, one in served.items()}

    def named(self, name: str) -> Served:
        """Return the checkpoint called `name`.

        Raises:
            UnknownCheckpointError: there is none; near names are suggested.
        """
        if name not in self._served:
            guess = did_you_mean(name, self._served)
            raise UnknownCheckpointError(
                f"unknown checkpoint {name[:200]!r}",
                guess,
                "" if guess else "GET /api/models lists them",
            )
        return self[name]

    def translating(self, source: str, target: str) -> tuple[Served, tuple[str, str]] | None:
        """Return a checkpoint from one language to another, and what chooses them; None without.

        It is the first of which these are the default languages, by exactly these codes if there
        is one, else the first that knows them.
        """
        fitting = (
            (served, choice)
            for served in self.values()
            if (choice := served.choice(source, target)) is not None
        )
        return min(
            fitting,
            key=lambda one: (any(one[1]), not one[0].is_named(source, target)),
            default=None,
        )

    @property
    def offered(self) -> dict[str, list[str]]:
        """The languages that each source language can be translated into, by code."""
        targets: dict[str, dict[str, None]] = {}
        for served in self.values():
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
            name = Path(Address.parse(checkpoint).path).name
        chosen = name or os.path.basename(os.path.abspath(checkpoint))  # also of . and ..
        if chosen in served:
            raise DataError(
                f"two checkpoints are called {chosen!r}",
                f"{served[chosen]} and {checkpoint}",
                f"Give one another name: NAME={checkpoint}",
            )
        served[chosen] = checkpoint
    return served


def state_of(folder: Path, files: Sequence[str]) -> tuple[str, ...]:
    """Return, for each of a folder's files, what changes when it is replaced; empty without it."""
    states = []
    for file in files:
        try:
            s = os.stat(os.path.join(folder, file))  # far faster than a Path, at each request
        except OSError:
            states.append("")
        else:
            states.append(f"{s.st_ino:x}.{s.st_size:x}.{s.st_mtime_ns:x}")
    return tuple(states)


def languages_of(
    folder: Path, about: About, registry: Registry
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages that a checkpoint reads and writes, none where nothing records them.

    Args:
        folder: the checkpoint.
        about: what it says about itself.
        registry: the datasets that it may have been trained on.
    """
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
