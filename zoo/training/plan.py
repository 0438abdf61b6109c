"""From a model's name and some wishes to a complete configuration and recipe."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, near
from zoo.registry.config import Config
from zoo.registry.recipe import Recipe, toml_value
from zoo.registry.registry import Registry

STOPS = ("steps", "epochs", "minutes")


@dataclass(frozen=True)
class Plan:
    """What a training run is made of."""

    model: str
    architecture: str
    config: Config
    recipe: Recipe


def make_plan(
    registry: Registry,
    model: str,
    data: str,
    *,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    stops: Mapping[str, float | None] | None = None,
) -> Plan:
    """Resolve a model's configuration and recipe.

    Later ones override earlier ones: the data's recipe, the model's own, the one named
    `MODEL.DATA`, the one called `recipe` (or in that TOML file), `settings`, and `stops` (`steps`,
    `epochs`, `minutes`, which replace each other). One of another pair, MODEL.DATA, comes with that
    data's, on which it stands. A recipe's table `config` overrides the model's.
    A key of `settings` is the config's or the recipe's; `config.` or `recipe.` before it decides.

    Raises:
        UnknownNameError: there is no such model or recipe.
        ConfigError: the file cannot be read; or names all keys and values that do not fit.
    """
    entry = registry.models.find(model)
    config_type = registry.architecture(entry.architecture).config_type()
    known = registry.datasets.get(data)
    task = known.recipe if known and known.recipe else data
    layers = [
        registry.recipes.get(task, {}),
        entry.recipe,
        registry.recipes.get(f"{model}.{task}", {}),
    ]
    if recipe is not None:
        layers += _named(registry, recipe)
    of_config, of_recipe = dict(entry.config), dict[str, Any]()
    for layer in layers:
        of_config.update(layer.get("config", {}))
        _update(of_recipe, {key: value for key, value in layer.items() if key != "config"})
    faults = []
    for key, value in (settings or {}).items():
        side, name = _side(key, config_type)
        if side == "config":
            of_config[name] = value
        elif side == "recipe":
            _update(of_recipe, {name: value})
        else:
            faults.append(name)
    _update(of_recipe, {key: value for key, value in (stops or {}).items() if value is not None})
    where = f"settings for {model}"
    parsed: list[Any] = []
    for kind, values in ((config_type, of_config), (Recipe, of_recipe)):
        try:
            parsed.append(kind.parse(values, where))
        except ConfigError as error:
            faults.append(error.why)
    if faults:
        raise ConfigError(where, "; ".join(faults), f"See `zoo info {model}`")
    config, complete = parsed
    if not any(getattr(complete, stop) for stop in STOPS):
        raise ConfigError(where, "nothing says when to stop", "Give --steps, --epochs or --minutes")
    if config.one_vocabulary and not complete.shared_vocab:
        raise ConfigError(
            where, "this configuration needs one vocabulary", "Add --set shared_vocab=true"
        )
    return Plan(model, entry.architecture, config, complete)


def _named(registry: Registry, recipe: str) -> list[dict[str, Any]]:
    """Return the recipe of that name or file, after the one it stands on."""
    if recipe.endswith(".toml"):
        return [read_recipe(Path(recipe))]
    return [registry.recipes.get(recipe.partition(".")[2], {}), registry.recipes.find(recipe)]


def read_recipe(file: Path) -> dict[str, Any]:
    """Return the values of a recipe in a TOML file; its table `config` is of the model.

    Raises:
        ConfigError: there is no such file, or it is not TOML.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"no recipe {file}", error.strerror or str(error)) from None
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML", str(error)) from None
    if not isinstance(values.get("config", {}), dict):
        raise ConfigError(f"{file} is no recipe", "config must be a table")
    return values


def complete_recipe(plan: Plan) -> str:
    """Return a plan's recipe and configuration as TOML: `--recipe FILE` makes the same plan of it.

    A value of the configuration that is left open is left out.
    """
    config = plan.config.model_dump(mode="json")
    lines = [f"{key} = {toml_value(value)}" for key, value in config.items() if value is not None]
    return f"# {plan.model}\n\n{plan.recipe.to_toml()}\n[config]\n" + "\n".join(lines) + "\n"


def _update(recipe: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Override values; whoever says when to stop replaces every earlier word on it."""
    if any(stop in values for stop in STOPS):
        for stop in STOPS:
            recipe.pop(stop, None)
    recipe.update(values)


def _side(key: str, config: type[Config]) -> tuple[str, str]:
    """Return whose key it is and its bare name, or "" and what is wrong."""
    prefix, dot, bare = key.partition(".")
    sides = {"config": config.model_fields, "recipe": Recipe.model_fields}
    if dot and prefix in sides:
        return prefix, bare
    owners = [side for side, fields in sides.items() if key in fields]
    if len(owners) == 1:
        return owners[0], key
    if owners:
        return "", f"{key!r} is a key of both: say config.{key} or recipe.{key}"
    guess = near(key, [*sides["config"], *sides["recipe"]])
    suggestion = f" (did you mean {' or '.join(guess)}?)" if guess else ""
    return "", f"unknown key {key!r}{suggestion}"
