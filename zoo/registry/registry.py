"""Names to architectures, models, checkpoints, datasets and recipes.

A `Registry` is an object built from plugins, so that tests build their own; `registry()` is the
one of the installed plugins.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zoo.errors import PluginError, UnknownNameError
from zoo.registry import catalogue
from zoo.registry.catalogue import Model as Model
from zoo.registry.catalogue import Released as Released
from zoo.registry.declarations import Architecture, Dataset, Metric, Scheme
from zoo.registry.plugins import Plugin, Plugins, installed

if TYPE_CHECKING:
    from zoo.registry.config import Config

T = TypeVar("T")


class Registry:
    """Everything that has a name. Whatever could not be taken in stands in `problems`."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.problems: list[str] = []
        self.architectures: dict[str, Architecture] = {}
        self.models: dict[str, Model] = {}
        self.checkpoints: dict[str, Released] = {}
        self.datasets: dict[str, Dataset] = {}
        self.recipes: dict[str, dict[str, Any]] = {}
        self.schemes: dict[str, Scheme] = {}
        self.metrics: dict[str, Metric] = {}
        self.plugin_of: dict[str, Plugin] = {}
        self._origin: dict[tuple[str, str], str] = {}
        for plugin, architectures in plugins.call("zoo_architectures"):
            for architecture in self._of_type(Architecture, architectures, plugin):
                self._add(self.architectures, architecture.name, architecture, str(plugin))
                self.plugin_of.setdefault(architecture.name, plugin)
        for plugin, datasets in plugins.call("zoo_datasets"):
            for dataset in self._of_type(Dataset, datasets, plugin):
                self._add(self.datasets, dataset.name, dataset, str(plugin))
        for plugin, schemes in plugins.call("zoo_hubs"):
            for scheme in self._of_type(Scheme, schemes, plugin):
                self._add(self.schemes, scheme.name, scheme, str(plugin))
        for plugin, metrics in plugins.call("zoo_metrics"):
            for metric in self._of_type(Metric, metrics, plugin):
                self._add(self.metrics, metric.name, metric, str(plugin))
        for plugin, files in plugins.call("zoo_catalogues"):
            for file in self._of_type(Path, files, plugin):
                self.read_catalogue(file, plugin)

    # --- asking ---------------------------------------------------------------------------------

    def model(self, name: str) -> Model:
        """Return the model called `name`.

        Raises:
            UnknownNameError: there is none.
        """
        if name not in self.models:
            raise UnknownNameError("model", name, self.models, "See `zoo list models`")
        return self.models[name]

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

    def scheme(self, name: str) -> Scheme:
        """Return the hub whose addresses begin with `name://`.

        Raises:
            UnknownNameError: no plugin brings one.
        """
        if name not in self.schemes:
            raise UnknownNameError("hub", f"{name}://", [f"{s}://" for s in self.schemes])
        return self.schemes[name]

    def config(self, model: str, overrides: Mapping[str, Any] | None = None) -> Config:
        """Return a model's configuration, with values overridden.

        Raises:
            UnknownNameError, PluginError: as `model` and `architecture` do.
            ConfigError: names all keys and values that do not fit.
        """
        entry = self.model(model)
        config_type = self.architecture(entry.architecture).config_type()
        values = {**entry.config, **(overrides or {})}
        return config_type.parse(values, f"configuration of {model}")

    def recipe(self, name: str) -> dict[str, Any]:
        """Return the values of the recipe called `name`.

        Raises:
            UnknownNameError: there is none.
        """
        if name not in self.recipes:
            raise UnknownNameError("recipe", name, self.recipes)
        return self.recipes[name]

    def brought_by(self, plugin: Plugin) -> dict[str, list[str]]:
        """Return the names that a plugin brought, by kind."""
        brought: dict[str, list[str]] = {}
        for (kind, name), origin in self._origin.items():
            if origin == str(plugin) or origin.startswith(f"{plugin}, "):
                brought.setdefault(PLURALS.get(kind, f"{kind}s"), []).append(name)
        return brought

    # --- taking in ------------------------------------------------------------------------------

    def _add(self, names: dict[str, Any], name: str, value: object, origin: str) -> None:
        """Add a name; the first to bring it keeps it, and both are told."""
        kind = type(value).__name__.lower()
        first = self._origin.setdefault((kind, name), origin)
        if name in names:
            self.problems.append(f"{kind} {name!r} of {origin} left out: {first} has that name")
        else:
            names[name] = value

    def _of_type(self, kind: type[T], values: list[Any], plugin: Plugin) -> list[T]:
        """Return the values that are what a hook is to return; the others are told."""
        for value in values:
            if not isinstance(value, kind):
                self.problems.append(f"{plugin} brings {value!r}, which is no {kind.__name__}")
        return [value for value in values if isinstance(value, kind)]

    def read_catalogue(self, file: Path, plugin: Plugin | None = None) -> None:
        """Take in a catalogue; entries that are not well-formed are left out and told."""
        origin = f"{plugin}, {file.name}" if plugin else str(file)
        found = catalogue.read(file, origin)
        self.problems += found.problems
        for model in found.models.values():
            self._add(self.models, model.name, model, origin)
        for released in found.checkpoints.values():
            self._add(self.checkpoints, released.name, released, origin)
        for name, recipe in found.recipes.items():
            self._add(self.recipes, name, recipe, origin)


PLURALS = {"released": "checkpoints", "dict": "recipes"}


def default_registry() -> Registry:
    """Return the registry of the installed plugins and the user's catalogue, built on first use."""
    return _registry_of(installed())


@functools.cache
def _registry_of(plugins: Plugins) -> Registry:
    found = Registry(plugins)
    own = catalogue.user_catalogue()
    if own.exists():
        found.read_catalogue(own)
    return found


def list_models() -> list[str]:
    """Return the names of all models."""
    return sorted(default_registry().models)


def list_checkpoints() -> list[str]:
    """Return the names of all released checkpoints."""
    return sorted(default_registry().checkpoints)
