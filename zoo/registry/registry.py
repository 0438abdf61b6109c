"""Everything that has a name, on one shelf for each kind.

A `Registry` is an object built from plugins, so that tests build their own. `default_registry()` is
the one of the installed plugins.
"""

from __future__ import annotations

import functools
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zoo.errors import (
    NAME_LIMIT,
    CheckpointError,
    PluginError,
    UnknownNameError,
    did_you_mean,
    plain_name,
    unexpanded,
)
from zoo.registry import catalogue
from zoo.registry.arguments import checked
from zoo.registry.catalogue import Model, Package, Released
from zoo.registry.declarations import (
    Architecture,
    Dataset,
    Engine,
    Format,
    Metric,
    Scheme,
    fault_of,
)
from zoo.registry.discovery import installed
from zoo.registry.entries import (
    Augmentation,
    Entry,
    Initialization,
    Objective,
    Optimizer,
    Schedule,
)
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.owners import Owner, Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.shelf import Shelf
from zoo.registry.text_entries import Processor, SearchMethod, Splitter, TokenizerKind

if TYPE_CHECKING:
    from zoo.registry.config import Config

T = TypeVar("T")


class Declaration(Protocol):
    """What a hook returns: something with a name."""

    @property
    def name(self) -> str:
        """The name, unique within its kind."""
        ...


D = TypeVar("D", bound=Declaration)
_NAME = re.compile(r"[\w.+-]+")
E = TypeVar("E", bound=Entry)


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


class Registry:
    """All named things: each shelf is filled from one hook, or from the catalogues.

    `shelves` maps the plural of each kind to its shelf; `hooks` lists the hooks whose values are on
    shelves.
    """

    @checked
    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.shelves: dict[str, Shelf[Any]] = {}
        self.hooks: list[str] = []
        self._problems: list[str] = []
        # From hooks. To add a kind, add a line here and a hook in hookspecs.py or the like.
        self.architectures = self._collect("architecture", Architecture, "zoo_architectures")
        self.datasets = self._collect("dataset", Dataset, "zoo_datasets")
        self.hubs = self._collect("hub", Scheme, "zoo_hubs")
        self.metrics = self._collect("metric", Metric, "zoo_metrics")
        # One hook brings both: an exporter's name has its architecture, if it writes only one.
        self.importers: Shelf[Format] = self._shelf("importer", "See `zoo list importers`")
        self.exporters: Shelf[Format] = self._shelf("exporter", "See `zoo list exporters`")
        for plugin, format in self._named_values("format", Format, "zoo_formats"):
            if format.importer:
                self.importers.add(format.name, format, Owner(plugin))
            if format.exporter:
                name = ":".join(filter(None, (format.name, format.architecture)))
                self.exporters.add(name, format, Owner(plugin))
        self.engines = self._collect("engine", Engine, "zoo_engines")
        self.objectives = self._open(Objective, "zoo_objectives")
        self.schedules = self._open(Schedule, "zoo_schedules")
        self.optimizers = self._open(Optimizer, "zoo_optimizers")
        self.initializations = self._open(Initialization, "zoo_initializations")
        self.augmentations = self._open(Augmentation, "zoo_augmentations")
        self.tokenizers = self._open(TokenizerKind, "zoo_tokenizers")
        self.processors = self._open(Processor, "zoo_logits_processors")
        self.searches = self._open(SearchMethod, "zoo_searches")
        self.splitters = self._open(Splitter, "zoo_splitters")
        # From catalogues.
        self.models: Shelf[Model] = self._shelf("model", "See `zoo list models`")
        self.checkpoints: Shelf[Released] = self._shelf("checkpoint", "See `zoo list checkpoints`")
        self.recipes: Shelf[dict[str, Any]] = self._shelf("recipe")
        self.packages: Shelf[Package] = self._shelf("package")
        self._read([Owner(plugin, file) for plugin, file in self._values("zoo_catalogues", Path)])

    @property
    def problems(self) -> list[str]:
        """What was ignored, and why, one line each."""
        return self._problems + [p for shelf in self.shelves.values() for p in shelf.problems]

    def architecture(self, name: str) -> Architecture:
        """Return the architecture called `name`.

        Raises:
            PluginError: no plugin that loaded brings it.
        """
        if name not in self.architectures:
            broken = [f"{p} did not load: {p.problem}" for p in self.plugins.broken]
            raise PluginError(
                f"architecture {name!r} is not installed",
                "; ".join(broken) or f"installed are {', '.join(sorted(self.architectures))}",
                "Install the package that brings it",
            )
        return self.architectures[name]

    def plugin_of(self, architecture: str) -> Plugin:
        """Return the plugin that brings an architecture.

        Raises:
            PluginError: no plugin that loaded brings it.
        """
        self.architecture(architecture)
        plugin = self.architectures.owner(architecture).plugin
        if plugin is None:
            raise PluginError(f"architecture {architecture!r} has no plugin")
        return plugin

    def find_model(self, name: str) -> Model:
        """Return a model.

        Raises:
            UnknownNameError: there is none; near names are suggested, or it is a checkpoint.
        """
        if isinstance(name, str) and name in self.checkpoints and name not in self.models:
            do = f"It is a checkpoint: load it, or tune it with `zoo train --from {name}`"
            raise UnknownNameError("model", name, [self.checkpoints[name].model], do)
        return self.models.find(name)

    def config(self, model: str, overrides: Mapping[str, Any] | None = None) -> Config:
        """Return a model's configuration, with some values overridden.

        Raises:
            UnknownNameError: there is no such model.
            PluginError: no plugin that loaded brings its architecture.
            ConfigError: some keys or values do not fit; the message lists all of them.
        """
        entry = self.find_model(model)
        config_type = self.architecture(entry.architecture).config_type()
        values = {**entry.config, **(overrides or {})}
        return config_type.parse(values, f"configuration of {model}")

    def absent_packages(self, name: str | None = None) -> list[Package]:
        """Return the packages of checkpoints, of `name` if given, that are not installed."""
        return [
            package
            for package in self.packages.values()
            if not any(_fits(known, package) for known in self.checkpoints)
            and (name is None or _fits(name, package))
        ]

    def no_checkpoint(self, name: str) -> CheckpointError:
        """Return the error for a name that is no checkpoint: where it may be, or what was meant."""
        what = f"no checkpoint {name[:NAME_LIMIT]!r}"
        for package in self.absent_packages(name):
            why = f"it is in the package {package.name} ({package.terms})"
            return CheckpointError(what, why, f"pip install {package.name}")
        if model := next((m for m in self.models if plain_name(m) == plain_name(name)), ""):
            own = sorted(c.name for c in self.checkpoints.values() if c.model == model)
            listed = f"; its checkpoints are {', '.join(own)}" if own else ""
            do = "" if own else f"Train one: zoo train {model} --data DATA --out OUT"
            return CheckpointError(what, f"it is the name of a model{listed}", do)
        if guess := did_you_mean(name, self.checkpoints):
            return CheckpointError(what, guess, "See `zoo list checkpoints`")
        why = "it is not a folder, an address or the name of a released checkpoint"
        do = "See `zoo list checkpoints`, or train one with `zoo train`"
        if reason := unexpanded(name):
            why, do = reason, "Write the path in full"
        elif repository := re.fullmatch(r"(?:hf:/?)?([\w.-]+/[\w.-]+)", name):
            address = f"hf://{repository[1]}"
            do = f"See `zoo list checkpoints`; a repository of the Hugging Face Hub is {address}"
        return CheckpointError(what, why, do)

    def brought_by(self, plugin: Plugin) -> dict[str, list[str]]:
        """Return the names that a plugin brings, by the plural of their kind."""
        names = {kind: shelf.brought_by(plugin) for kind, shelf in self.shelves.items()}
        return {kind: brought for kind, brought in names.items() if brought}

    def read_catalogue(self, file: Path) -> None:
        """Add the entries of a user's catalogue; those that are not well-formed become problems."""
        self._read([Owner(file=file)])

    def _read(self, owners: Iterable[Owner]) -> None:
        """Add the entries of the owners' files; recipes last, which belong to models and data."""
        recipes: list[tuple[Owner, dict[str, dict[str, Any]]]] = []
        for owner in owners:
            assert owner.file is not None
            contents = catalogue.read(owner.file, str(owner))
            self._problems += contents.problems
            for model in contents.models.values():
                self.models.add(model.name, model, owner)
            for package in contents.packages.values():
                self.packages.add(package.name, package, owner)
            for released in contents.checkpoints.values():
                if not released.is_same(self.checkpoints.get(released.name)):
                    self.checkpoints.add(released.name, released, owner)
            recipes.append((owner, contents.recipes))
        for owner, of_one in recipes:
            for name, recipe in of_one.items():
                other = self._other_package(name, owner)
                if other:
                    self._problems.append(f"recipe {name!r} of {owner} is ignored: {other}")
                else:
                    self.recipes.add(name, recipe, owner)

    def model_of_recipe(self, name: str) -> str:
        """Return the model of a recipe called `MODEL.DATA`; empty if it is for every model."""
        dots = (i for i, character in enumerate(name) if character == ".")
        return next((name[:i] for i in dots if name[:i] in self.models), "")

    def _other_package(self, recipe: str, owner: Owner) -> str:
        """Return which package alone may bring a recipe; empty if the owner may.

        The user's own catalogue may bring any recipe.
        """
        if owner.plugin is None:
            return ""
        model = self.model_of_recipe(recipe)
        if model:
            brings = [self.models.owner(model)]
            what = f"model {model}"
        else:
            named = [n for n, d in self.datasets.items() if recipe in (n, d.recipe)]
            brings = [self.datasets.owner(name) for name in named]
            what = f"dataset {recipe}"
        packages = {o.plugin.distribution for o in brings if o.plugin is not None}
        if not packages or owner.plugin.distribution in packages:
            return ""
        return f"only {' and '.join(sorted(packages))} may bring it, with {what}"

    def _shelf(self, kind: str, hint: str = "") -> Shelf[Any]:
        shelf: Shelf[Any] = Shelf(kind, hint)
        self.shelves[shelf.plural] = shelf
        return shelf

    def _collect(self, kind: str, declaration: type[D], hook: str) -> Shelf[D]:
        """Return a new shelf with what all plugins return from a hook."""
        shelf: Shelf[D] = self._shelf(kind)
        for plugin, value in self._named_values(kind, declaration, hook):
            shelf.add(value.name, value, Owner(plugin))
        return shelf

    def _named_values(
        self, kind: str, declaration: type[D], hook: str
    ) -> Iterator[tuple[Plugin, D]]:
        """Yield what plugins return from a hook; what is not well-formed becomes a problem."""
        for plugin, value in self._values(hook, declaration):
            if isinstance(value.name, str) and _NAME.fullmatch(value.name):
                fault = fault_of(value)
            else:
                fault = (
                    f"its name is {reprlib.repr(value.name)}: "
                    "letters, digits, _, -, + and . are allowed"
                )
            if fault:
                self._problems.append(f"{_article(kind)} {kind} of {plugin} is ignored: {fault}")
            else:
                yield plugin, value

    def _open(self, declaration: type[E], hook: str) -> OpenShelf[E]:
        """Return a new open shelf; a declaration that is not well-formed becomes a problem."""
        shelf = OpenShelf(declaration)
        self.shelves[shelf.plural] = shelf
        for plugin, entry in self._values(hook, declaration):
            if fault := entry.fault():
                kind = f"{_article(entry.kind)} {entry.kind}"
                self._problems.append(f"{kind} of {plugin} is ignored: {fault}")
            else:
                shelf.add(entry.name, entry, Owner(plugin))
        return shelf

    def _values(self, hook: str, expected: type[T]) -> Iterator[tuple[Plugin, T]]:
        """Yield what plugins return from a hook; a value of another type becomes a problem."""
        self.hooks.append(hook)
        for plugin, values in self.plugins.call(hook):
            for value in values:
                if isinstance(value, expected):
                    yield plugin, value
                else:
                    self._problems.append(
                        f"{hook} of {plugin} returned {reprlib.repr(value)}, which is not of type "
                        f"{expected.__name__}"
                    )


def default_registry() -> Registry:
    """Return the registry of the installed plugins and the user's catalogue, built on first use."""
    return _registry_of(installed())


@functools.cache
def _registry_of(plugins: Plugins) -> Registry:
    registry = Registry(plugins)
    file = catalogue.user_catalogue()
    if catalogue.may_exist(file):
        registry.read_catalogue(file)
    return registry


@checked
def list_models(pattern: str = "*") -> list[str]:
    """Return the names of all models that match a pattern, such as `transformer*`."""
    return matching(default_registry().models, pattern)


@checked
def list_checkpoints(pattern: str = "*") -> list[str]:
    """Return the names of all released checkpoints that match a pattern, such as `*en-de`."""
    return matching(default_registry().checkpoints, pattern)


@checked
def list_datasets(pattern: str = "*") -> list[str]:
    """Return the names of all datasets that match a pattern."""
    return matching(default_registry().datasets, pattern)


def _fits(name: str, package: Package) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in package.checkpoints)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that match a pattern, sorted."""
    return sorted(name for name in names if fnmatchcase(name, pattern))
