"""Names to architectures, models, checkpoints, datasets and recipes.

A `Registry` is an object built from plugins, so that tests build their own; `registry()` is the
one of the installed plugins.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zoo.architecture import Architecture
from zoo.datasets import Dataset, file_dataset, is_file_spec
from zoo.errors import PluginError, UnknownNameError, near
from zoo.plugins import Plugin, Plugins, installed

if TYPE_CHECKING:
    from zoo.config import Config

FORMAT = 1
T = TypeVar("T")


@dataclass(frozen=True)
class Model:
    """An architecture with a named configuration, as a catalogue lists it.

    `parameters` is the exact count at the reference vocabularies, `paper_parameters` what the
    paper says; `notes` is Markdown for the card.
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


@dataclass(frozen=True)
class Released:
    """A checkpoint that a catalogue lists, in a folder beside the catalogue."""

    name: str
    model: str
    dataset: str
    summary: str
    folder: Path


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
        self.plugin_of: dict[str, Plugin] = {}
        self._origin: dict[tuple[str, str], str] = {}
        for plugin, architectures in plugins.call("zoo_architectures"):
            for architecture in self._of_type(Architecture, architectures, plugin):
                self._add(self.architectures, architecture.name, architecture, str(plugin))
                self.plugin_of.setdefault(architecture.name, plugin)
        for plugin, datasets in plugins.call("zoo_datasets"):
            for dataset in self._of_type(Dataset, datasets, plugin):
                self._add(self.datasets, dataset.name, dataset, str(plugin))
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

    def dataset(self, spec: str) -> Dataset:
        """Return the dataset of that name, or the one in the files that `spec` names.

        Raises:
            UnknownNameError: `spec` is neither.
            DataError: a file it names is missing.
        """
        if spec in self.datasets:
            return self.datasets[spec]
        if is_file_spec(spec):
            return file_dataset(spec)
        raise UnknownNameError(
            "dataset",
            spec,
            self.datasets,
            "For files of your own say PREFIX:en-de, FILE.tsv or FILE.jsonl",
        )

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
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            self.problems.append(f"{origin}: {error}")
            return
        if content.pop("format", None) != FORMAT:
            self.problems.append(f"{origin}: `format` must be {FORMAT}; catalogue left out")
            return
        for section in list(content):
            if section not in ("models", "checkpoints", "recipes"):
                self.problems.append(f"{origin}: unknown section [{section}]")
            elif not isinstance(content[section], dict):
                self.problems.append(f"{origin}: [{section}] must be a table of tables")
                del content[section]
        for name, entry in content.get("models", {}).items():
            if self._fits(f"{origin}, models.{name}", entry, MODEL_KEYS):
                self._add(self.models, name, Model(name=name, **entry), origin)
        for name, entry in content.get("checkpoints", {}).items():
            if self._fits(f"{origin}, checkpoints.{name}", entry, CHECKPOINT_KEYS):
                folder = file.parent / "cards" / "checkpoints" / name
                self._add(self.checkpoints, name, Released(name, folder=folder, **entry), origin)
        for name, entry in content.get("recipes", {}).items():
            where = f"{origin}, recipes.{name}"
            if self._fits(where, entry, {}) and self._fits(where, entry.get("config", {}), {}):
                self._add(self.recipes, name, entry, origin)

    def _fits(self, where: str, entry: object, keys: dict[str, tuple[type, bool]]) -> bool:
        """Check an entry's keys and types; an empty `keys` asks for a table of any keys."""
        if not isinstance(entry, dict):
            self.problems.append(f"{where}: must be a table")
            return False
        faults = [
            f"unknown key {key!r}" + "".join(f" (did you mean {n}?)" for n in near(key, keys, 1))
            for key in entry
            if keys and key not in keys
        ]
        for key, (kind, required) in keys.items():
            if key not in entry:
                faults += [f"{key!r} is missing"] if required else []
            elif type(entry[key]) is not kind:
                faults.append(f"{key!r} must be a {TOML_NAMES[kind]}")
        if faults:
            self.problems.append(f"{where}: {'; '.join(faults)}")
        return not faults


PLURALS = {"released": "checkpoints", "dict": "recipes"}
TOML_NAMES = {str: "string", int: "whole number", dict: "table"}
MODEL_KEYS: dict[str, tuple[type, bool]] = {
    "architecture": (str, True),
    "summary": (str, True),
    "parameters": (int, True),
    "source_vocab": (int, True),
    "target_vocab": (int, True),
    "config": (dict, False),
    "recipe": (dict, False),
    "notes": (str, False),
    "paper_parameters": (int, False),
}
CHECKPOINT_KEYS: dict[str, tuple[type, bool]] = {
    "model": (str, True),
    "dataset": (str, True),
    "summary": (str, True),
}


def registry() -> Registry:
    """Return the registry of the installed plugins, built on first use."""
    return _registry_of(installed())


@functools.cache
def _registry_of(plugins: Plugins) -> Registry:
    return Registry(plugins)


def list_models() -> list[str]:
    """Return the names of all models."""
    return sorted(registry().models)


def list_checkpoints() -> list[str]:
    """Return the names of all released checkpoints."""
    return sorted(registry().checkpoints)
