"""What is wrong in the entries of catalogues, given everything that is installed.

`zoo plugins`, `zoo registry check` and the conformance kit show it. It imports the configurations
of all architectures that have models, the entries of plugins, and no network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.errors import FAILURES, ConfigError, PluginError, ZooError, did_you_mean, in_brackets
from zoo.registry.catalogue import AUTO, all_faults
from zoo.registry.config import Config, parameters_of
from zoo.registry.declarations import METRICS
from zoo.registry.imports import import_object
from zoo.registry.open_shelf import OpenShelf, name_of
from zoo.registry.parameters import VOCABULARY_LIMIT
from zoo.registry.recipe import OPEN, Recipe
from zoo.registry.registry import Registry

PATHS = {
    "hubs": "hub",
    "metrics": "metric",
    "importers": "importer",
    "exporters": "exporter",
    "engines": "runner",
}
"""The attribute with the import path, of each kind of declaration that is no entry."""


def catalogue_problems(registry: Registry) -> list[str]:
    """Return what is wrong in all catalogues, one line for each entry, with its owner."""
    problems = []
    for shelf in (registry.models, registry.recipes, registry.checkpoints):
        for name in shelf:
            if faults := faults_of(registry, shelf.kind, name):
                owner, section = shelf.owner(name), shelf.plural
                problems.append(f"{owner}, {section}.{name}: {all_faults(faults)}")
    return problems + entry_problems(registry)


def faults_of(registry: Registry, kind: str, name: str) -> list[str]:
    """Return what is wrong with an entry: a `model`, a `recipe` or a `checkpoint`."""
    checks = {"model": model_faults, "recipe": recipe_faults, "checkpoint": checkpoint_faults}
    try:
        return checks[kind](registry, name)
    except FAILURES as error:  # of a plugin's config
        return [" ".join(f"{type(error).__name__}: {error}".split())]


def entry_problems(registry: Registry) -> list[str]:
    """Return which entries of plugins cannot be imported, or have wrong options."""
    problems = []
    used = {model.architecture for model in registry.models.values()}  # `model_faults` imports them
    for section, shelf in registry.shelves.items():
        for name in shelf:
            owner = shelf.owner(name)
            if owner.builtin:
                continue  # tests check these; they import torch
            try:
                if isinstance(shelf, OpenShelf):
                    shelf.described(name)
                elif section == "architectures" and name not in used:
                    shelf[name].config_type()
                elif section in PATHS:
                    path = getattr(shelf[name], PATHS[section])
                    import_object(path, f"{shelf.kind} {name!r} of {owner}")
            except PluginError as error:
                problems.append(f"{error.what}: {error.why}")
    formats = {exporter.name for exporter in registry.exporters.values()}
    problems += [
        f"engine {name!r} of {registry.engines.owner(name)} is broken: no package exports its "
        f"format {engine.format!r}"
        for name, engine in registry.engines.items()
        if engine.format not in formats
    ]
    metrics = {*METRICS, *registry.metrics}
    problems += [
        f"dataset {name!r} of {registry.datasets.owner(name)} names the metric {metric!r}, which "
        f"is unknown{in_brackets(did_you_mean(metric, metrics, 1))}"
        for name, dataset in registry.datasets.items()
        for metric in dataset.metrics
        if metric not in metrics and not metric.startswith("bleu_")
    ]
    return problems


def model_faults(registry: Registry, name: str) -> list[str]:
    """Return what is wrong with a model: its configuration, its parameter count, its recipe."""
    entry = registry.models[name]
    faults = _recipe_values(registry, entry.recipe)
    sizes = {"source_vocab": entry.source_vocab, "target_vocab": entry.target_vocab}
    wrong = {side: size for side, size in sizes.items() if not 0 < size <= VOCABULARY_LIMIT}
    faults += [f"{s} = {size:,} is not from 1 to {VOCABULARY_LIMIT:,}" for s, size in wrong.items()]
    if entry.architecture not in registry.architectures:
        return [f"architecture {entry.architecture!r} is not installed", *faults]
    try:
        config = registry.config(name)
        if config.one_vocabulary and entry.source_vocab != entry.target_vocab:
            faults.append("it needs one vocabulary: source_vocab and target_vocab must be equal")
        elif not wrong:
            total = parameters_of(config, entry.source_vocab, entry.target_vocab).total
            if total != entry.parameters:
                faults.append(f"it has {total:,} parameters, not {entry.parameters:,}")
    except ZooError as error:
        return [*faults, error.why if isinstance(error, ConfigError) else str(error)]
    return faults + _vocabulary_faults(config, entry.recipe)


def recipe_faults(registry: Registry, name: str) -> list[str]:
    """Return what is wrong with a recipe: its name, its keys and its values."""
    values = registry.recipes[name]
    model = registry.model_of_recipe(name)
    tables = [key for key, value in values.items() if isinstance(value, dict) and key != "config"]
    if name in registry.models:
        key = tables[0] if tables else "DATASET"
        return [
            f'write [recipes."{name}.{key}"], in quotes, for a dataset, or `recipe` in '
            f"[models.{name}] for all"
        ]
    faults = _recipe_values(registry, values)
    if model and isinstance(values.get("config", {}), dict):
        faults += _pair_faults(registry, name, model, alone=not faults)
    elif isinstance(values.get("config"), dict):
        faults += _config_keys(registry, values["config"])
    return [*_name_faults(registry, name, model), *faults]


def checkpoint_faults(registry: Registry, name: str) -> list[str]:
    """Return what is wrong with a listed checkpoint; nothing is downloaded and no file is read."""
    entry = registry.checkpoints[name]
    faults = []
    if not entry.location and not entry.folder.is_dir():
        faults.append(f"there is no folder {entry.folder}, and no `location`")
    return faults


def _name_faults(registry: Registry, name: str, model: str) -> Iterator[str]:
    """Yield why a recipe is for no model or for no data."""
    tasks = {AUTO, *registry.datasets}
    tasks |= {dataset.recipe for dataset in registry.datasets.values() if dataset.recipe}
    data = name[len(model) + 1 :] if model else name
    if data in tasks:
        return
    prefix, dot, rest = name.rpartition(".")
    if not model and dot and rest in tasks:
        yield f"there is no model {prefix!r}{in_brackets(did_you_mean(prefix, registry.models, 1))}"
    else:
        yield f"there is no dataset {data!r}{in_brackets(did_you_mean(data, tasks, 1))}"


def _pair_faults(registry: Registry, name: str, model: str, *, alone: bool) -> list[str]:
    """Return what is wrong with the recipe of a model and its data, together with those of each.

    `alone`: its values are right by themselves, so that those of all three can be checked.
    """
    entry, values = registry.models[model], registry.recipes[name]
    if entry.architecture not in registry.architectures:
        return []  # reported with the model
    data = registry.recipes.get(name[len(model) + 1 :], {})
    recipe = {**data, **entry.recipe, **values}
    faults = []
    try:
        config = registry.config(model, {**data.get("config", {}), **values.get("config", {})})
        faults += _vocabulary_faults(config, recipe)
    except ConfigError as error:
        faults.append(error.why)
    except ZooError:
        return []  # reported with the model
    if alone:
        try:
            Recipe.parse({key: value for key, value in recipe.items() if key != "config"}, name)
        except ConfigError as error:
            faults.append(error.why)
    return faults


def _vocabulary_faults(config: Config, recipe: Mapping[str, Any]) -> list[str]:
    if config.one_vocabulary and recipe.get("shared_vocab") is False:
        return ["the configuration needs one vocabulary: shared_vocab must be true"]
    return []


def _recipe_values(registry: Registry, values: Mapping[str, Any]) -> list[str]:
    """Return the unknown keys of a recipe, and the values that are wrong by themselves."""
    faults = [] if isinstance(values.get("config", {}), dict) else ["'config' must be a table"]
    own = {key: value for key, value in values.items() if key != "config"}
    faults += Recipe.faults_of(own)
    for key, value in own.items():
        shelf = registry.shelves.get(OPEN.get(key, ""))
        for named in value if isinstance(value, list) else [value]:
            name = name_of(named) if isinstance(named, str | dict) else ""
            if isinstance(shelf, OpenShelf) and name and name not in shelf:
                faults.append(
                    f"{key} = {name!r} is unknown{in_brackets(did_you_mean(name, shelf, 1))}"
                )
            elif isinstance(shelf, OpenShelf) and name and isinstance(named, dict):
                with contextlib.suppress(PluginError):  # reported with the entry
                    faults += shelf.faults(key, named)
    return faults


def _config_keys(registry: Registry, values: Mapping[str, Any]) -> list[str]:
    """Return the keys of a recipe's `config` that no architecture has."""
    known: set[str] = set()
    for name in registry.architectures:
        try:
            known |= set(registry.architecture(name).config_type().model_fields)
        except ZooError:
            continue
    return [
        f"config: unknown key {key!r}{in_brackets(did_you_mean(key, known, 1))}"
        for key in values
        if key not in known
    ]
