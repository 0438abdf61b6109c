"""The layers of a recipe: those of the catalogue, and files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.registry.recipe import toml_value
from zoo.registry.registry import Registry

TOTALS = ("steps", "epochs", "minutes")


def recipe_names(registry: Registry, model: str, data: str) -> tuple[str, str, str]:
    """Return the names of the recipes of some data and of a model on it, the most general first.

    There may be no recipe of such a name. Several datasets may share the first two.
    """
    known = registry.datasets.get(data)
    shared = known.recipe if known and known.recipe else data
    return shared, f"{model}.{shared}", f"{model}.{data}"


def add_layers(
    layers: Sequence[Mapping[str, Any]],
    config_values: dict[str, Any],
    recipe_values: dict[str, Any],
) -> None:
    """Override values by those of recipes, in order; a table `config` is the configuration's."""
    for layer in layers:
        config_values.update(layer.get("config", {}))
        update(recipe_values, {key: value for key, value in layer.items() if key != "config"})


def named_recipe(registry: Registry, recipe: str) -> list[dict[str, Any]]:
    """Return the recipe of that name or file, after those that it builds on."""
    if recipe.endswith(".toml"):
        return [read_recipe(Path(recipe))]
    model, _, data = recipe.partition(".")
    shared = recipe_names(registry, model, data)[:2]
    return [*(registry.recipes.get(name, {}) for name in shared), registry.recipes.find(recipe)]


def read_recipe(file: Path) -> dict[str, Any]:
    """Return the values of a recipe in a TOML file; its table `config` belongs to the model.

    Raises:
        ConfigError: there is no such file, or it is not TOML.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"no recipe {file}", error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not TOML", str(error)) from None
    if not isinstance(values.get("config", {}), dict):
        raise ConfigError(f"{file} is not a recipe", "config must be a table")
    return values


def update(recipe: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Override values; a new total replaces all earlier ones, and `select = last` a patience."""
    if any(total in values for total in TOTALS):
        for total in TOTALS:
            recipe.pop(total, None)
    if values.get("select") == "last":
        recipe.pop("patience", None)
    recipe.update(values)


def notes_of_changes(file: Path, run: Mapping[str, Any]) -> list[str]:
    """Return a note if values of a run's recipe file, which a resumed run does not read, differ.

    `run` is its description, with the keys `recipe` and `config`.
    """
    try:
        values = read_recipe(file)
    except ConfigError:
        return []
    sides = (values.pop("config", {}), run["config"]), (values, run["recipe"])
    changed = [
        name
        for given, own in sides
        for name, value in given.items()
        if name in own and value != tomllib.loads(f"own = {toml_value(own[name])}")["own"]
    ]
    if not changed:
        return []
    return [
        f"{', '.join(changed)} of {file.name} changed since the run began, which has no effect: "
        "--resume keeps the run's recipe. Give new totals with --steps, --epochs or --minutes, and "
        "other values to a new run"
    ]
