"""From a request to the complete configuration and recipe of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, overload

from zoo.data.datasets import find_dataset, is_file_spec, without_held_out
from zoo.errors import ConfigError, did_you_mean, in_brackets
from zoo.registry.catalogue import AUTO
from zoo.registry.config import Config
from zoo.registry.declarations import METRICS, Dataset
from zoo.registry.open_shelf import OpenShelf, name_of
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import OPEN, Recipe, toml_value
from zoo.registry.registry import Registry
from zoo.training.recipe_layers import (
    TOTALS,
    add_layers,
    named_recipe,
    read_recipe,
    recipe_names,
    update,
)
from zoo.training.request import TrainingRequest

RATED = ("constant", "inverse_sqrt", "cosine", "one_cycle")
"""Schedules of which `learning_rate` is the highest rate."""
UNSMOOTHED = frozenset({"distillation", "minimum_risk"})
"""Objectives that do not read `label_smoothing`."""
COMPLETE = frozenset({"tokenizer", "vocab_size", "learning_rate", "schedule"})
"""A recipe file that has these keys is taken to say everything."""
SELECTIONS = ("last", "loss", *METRICS)
"""What a recipe can select by, besides the metrics of plugins."""


@dataclass(frozen=True)
class Plan:
    """What a run trains, on what data and how. Nothing changes it while the run lasts."""

    model: str
    architecture: str
    config: Config
    recipe: Recipe
    data: str
    limit: int | None = None
    validation: str | None = None
    parent: str = ""
    """The checkpoint that the run is tuned from, if it is."""
    whole: bool = False
    """Whether it trains on all of its files, since it validates on other data."""

    @property
    def length_limits(self) -> LengthLimits:
        """The smaller of the model's limits and the recipe's."""
        most = self.recipe.max_length
        limits = self.config.length_limits
        return LengthLimits(*(most if limit is None else min(most, limit) for limit in limits))

    def describe(self) -> dict[str, Any]:
        """Return the plan as plain values, which `parse` reads."""
        return {
            "model": self.model,
            "architecture": self.architecture,
            "config": self.config.model_dump(mode="json"),
            "recipe": self.recipe.model_dump(mode="json"),
            "data": self.data,
            "limit": self.limit,
            "validation": self.validation,
            "parent": self.parent,
            "whole": self.whole,
        }

    def dataset(self, registry: Registry) -> Dataset:
        """Return what the run trains on.

        Raises:
            UnknownNameError, DataError: there is no such data.
        """
        return training_data(registry, self.data, self.whole)

    @classmethod
    def parse(cls, registry: Registry, values: Mapping[str, Any]) -> Self:
        """Read what `describe` returned.

        Raises:
            PluginError: no installed plugin brings the architecture.
            ConfigError: values of the configuration or of the recipe are not valid.
        """
        config_type = registry.architecture(values["architecture"]).config_type()
        config = config_type.parse(values["config"], "the run's configuration")
        recipe = Recipe.parse(values["recipe"], "the run's recipe")
        if unknown := unknown_names(registry, values["recipe"]):
            raise ConfigError("the run's recipe", "; ".join(unknown))
        data, limit, validation = (values[key] for key in ("data", "limit", "validation"))
        # Runs of earlier versions lack these.
        parent, whole = values.get("parent", ""), values.get("whole", False) is True
        model, architecture = values["model"], values["architecture"]
        return cls(model, architecture, config, recipe, data, limit, validation, parent, whole)

    def to_toml(self) -> str:
        """Return recipe and configuration as TOML: `--recipe FILE` makes the same plan from it."""
        config = self.config.model_dump(mode="json")
        lines = [f"{key} = {toml_value('none' if value is None else value)}"
                 for key, value in config.items()]  # fmt: skip
        return f"# {self.model}\n\n{self.recipe.to_toml()}\n[config]\n" + "\n".join(lines) + "\n"


def training_data(registry: Registry, data: str, whole: bool) -> Dataset:
    """Return a dataset, or files; with `whole`, no part of the files is held out."""
    dataset = find_dataset(registry, data)
    return without_held_out(dataset) if whole else dataset


def make_plan(
    registry: Registry, request: TrainingRequest, chosen: Mapping[str, Any] | None = None
) -> Plan:
    """Resolve a request's names to a complete configuration and recipe, for new weights.

    The recipe is put together from these, where later ones override earlier ones: the data's
    recipe, the model's, the recipe `MODEL.DATA`, where DATA is the name of the data's recipe and
    then of the dataset itself, the request's recipe (a name or a TOML file), its settings together
    with its totals (`steps`, `epochs`, `minutes`). Any total replaces all earlier ones. A requested
    recipe of the form `MODEL.DATA` brings the recipe of that data with it. A recipe's table
    `config` overrides the model's configuration. A configuration that needs one vocabulary gets
    one, unless a recipe says otherwise. A key of the settings belongs to the configuration or to
    the recipe; the prefix `config.` or `recipe.` decides where both have it.

    Where the recipe is `auto`, that name stands for DATA; `chosen` are values that were chosen for
    the corpus, which override the recipes `auto` and the model's, but not `MODEL.auto`.

    Raises:
        UnknownNameError: there is no such model or recipe.
        ConfigError: the recipe file cannot be read, or keys and values are not valid: the message
            names all of them. Or it wants a share of a parent.
    """
    data = absolute(registry, request.data)
    validation = absolute(registry, request.validation)
    entry = registry.find_model(request.model)
    config_type = registry.architecture(entry.architecture).config_type()
    layered = _layered(registry, request, chosen or {})
    config, recipe = resolve(registry, request, config_type, *layered)
    if recipe.parent_share:
        raise ConfigError(
            f"parent_share = {recipe.parent_share:g} has no effect",
            "the run begins with new weights",
            "Leave it out, or tune a checkpoint with --from",
        )
    return Plan(
        *(request.model, entry.architecture, config, recipe, data, request.limit, validation),
        whole=validation is not None,
    )


def resolve(
    registry: Registry,
    request: TrainingRequest,
    config_type: type[Config],
    config_values: dict[str, Any],
    recipe_values: dict[str, Any],
) -> tuple[Config, Recipe]:
    """Return configuration and recipe from these values, which the request's own override.

    Raises:
        ConfigError: as `make_plan`.
    """
    faults: list[str] = []
    settings: dict[str, Any] = {}
    for key, value in request.overrides.items():
        side, name = _side(key, config_type)
        if side == "config":
            config_values[name] = value
        elif side == "recipe":
            settings[name] = value
        else:
            faults.append(name)
    update(recipe_values, settings)
    where = f"settings for {request.model}"
    parsed: list[Any] = []
    for kind, values in ((config_type, config_values), (Recipe, recipe_values)):
        try:
            parsed.append(kind.parse(values, where))
        except ConfigError as error:
            faults.append(error.why)
    faults += unknown_names(registry, recipe_values)
    if faults:
        raise ConfigError(where, "; ".join(faults), f"See `zoo info {request.model}`")
    config, recipe = parsed
    if config.one_vocabulary and "shared_vocab" not in recipe_values:
        recipe = recipe.model_copy(update={"shared_vocab": True})
    if idle := _without_effect(recipe, set(settings)):
        raise ConfigError(where, "; ".join(idle))
    recipe = recipe.model_copy(update={"objective": _absolute_teachers(registry, recipe.objective)})
    _check(config, recipe, where)
    return config, recipe


def _without_effect(recipe: Recipe, settings: set[str]) -> list[str]:
    """Return which of these settings change nothing beside the others, one text each."""
    schedule = name_of(recipe.schedule)
    objectives = [name_of(named) for named in recipe.objectives]
    reasons = {
        "learning_rate": schedule == "noam" and "schedule = noam: set factor",
        "factor": schedule in RATED and f"schedule = {schedule}: set learning_rate",
        "warmup": schedule == "one_cycle" and "schedule = one_cycle, which rises for a tenth",
        "cooldown": not recipe.patience and "no patience: set patience",
        "tolerance": recipe.select == "last" and "select = last: set select = loss",
        "target_tokenizer": recipe.shared_vocab and "one vocabulary for both sides: set tokenizer",
        "batch_tokens": recipe.batch_sentences
        and "batch_sentences" not in settings
        and f"batch_sentences = {recipe.batch_sentences} of the recipe: set that, or it to none",
        "label_smoothing": UNSMOOTHED.issuperset(objectives)
        and f"objective = {', '.join(objectives)}: add cross_entropy to it",
    }
    return [
        f"{name} has no effect with {why}"
        for name, why in reasons.items()
        if why and name in settings and getattr(recipe, name) != Recipe.model_fields[name].default
    ]


def unknown_names(registry: Registry, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with names and their options in a recipe's values, one text each."""
    faults = []
    known, name = [*SELECTIONS, *registry.metrics], values.get("select")
    if isinstance(name, str) and name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
        faults.append(f"select = {name!r} ({hint})")
    for key, kind in OPEN.items():
        value = None if values.get(key) == "none" else values.get(key)
        shelf = registry.shelves[kind]
        assert isinstance(shelf, OpenShelf), kind
        for entry in value if isinstance(value, list | tuple) else [value]:
            faults += shelf.faults(key, entry)
    return faults


@overload
def absolute(registry: Registry, spec: str) -> str: ...
@overload
def absolute(registry: Registry, spec: None) -> None: ...
def absolute(registry: Registry, spec: str | None) -> str | None:
    """Return a dataset's name, or the absolute path of files: --resume works in any folder."""
    if spec is None or spec in registry.datasets or not is_file_spec(spec):
        return spec
    return str(Path(spec).absolute())


def _absolute_teachers(registry: Registry, objective: Any) -> Any:
    """Return objectives whose teachers, where these are folders, have absolute paths."""
    if isinstance(objective, list):
        return [_absolute_teachers(registry, each) for each in objective]
    teacher = objective.get("teacher") if isinstance(objective, dict) else None
    if not isinstance(teacher, str) or teacher in registry.checkpoints:
        return objective
    return (
        {**objective, "teacher": os.path.abspath(teacher)} if Path(teacher).is_dir() else objective
    )


def uses_auto(registry: Registry, request: TrainingRequest) -> bool:
    """Return whether the recipe is `auto`: it is requested, or the data has no recipe.

    A recipe file that does not say everything overrides what `auto` chooses.
    """
    if request.recipe == AUTO:
        return True
    of_file = _file_values(request)
    if request.recipe is not None and (of_file is None or of_file.keys() >= COMPLETE):
        return False
    names = recipe_names(registry, request.model, request.data)
    return not any(name in registry.recipes for name in names)


def _file_values(request: TrainingRequest) -> dict[str, Any] | None:
    """Return the values of the request's recipe file; None if it names none."""
    if request.recipe is None or not request.recipe.endswith(".toml"):
        return None
    return read_recipe(Path(request.recipe))


def fixed_values(registry: Registry, request: TrainingRequest) -> dict[str, Any]:
    """Return what the recipe `auto` may not choose, by name: `MODEL.auto`, settings, totals."""
    values, config = dict[str, Any](), dict[str, Any]()
    own = registry.recipes.get(f"{request.model}.{AUTO}", {})
    add_layers([own, _file_values(request) or {}], config, values)
    values |= config
    update(values, {key.rpartition(".")[2]: value for key, value in request.overrides.items()})
    return {key: None if value == "none" else value for key, value in values.items()}


def _layered(
    registry: Registry, request: TrainingRequest, chosen: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of configuration and recipe before the request's settings."""
    entry = registry.find_model(request.model)
    data = AUTO if uses_auto(registry, request) else request.data
    names = recipe_names(registry, request.model, data)
    of_data, *of_model = (registry.recipes.get(name, {}) for name in names)
    layers = [of_data, entry.recipe, chosen, *of_model]
    if request.recipe not in (None, AUTO):
        layers += named_recipe(registry, str(request.recipe))
    config_values, recipe_values = dict(entry.config), dict[str, Any]()
    add_layers(layers, config_values, recipe_values)
    return config_values, recipe_values


def _side(key: str, config: type[Config]) -> tuple[str, str]:
    """Return `config` or `recipe` and the key without a prefix, or "" and what is wrong."""
    prefix, dot, bare = key.partition(".")
    sides = {"config": config.model_fields, "recipe": Recipe.model_fields}
    if dot and prefix in sides:
        return prefix, bare
    owners = [side for side, fields in sides.items() if key in fields]
    if len(owners) == 1:
        return owners[0], key
    if owners:
        return "", f"{key!r} is a key of both: write config.{key} or recipe.{key}"
    guess = did_you_mean(key, [*sides["config"], *sides["recipe"]])
    return "", f"unknown key {key!r}{in_brackets(guess)}"


def _check(config: Config, recipe: Recipe, where: str) -> None:
    """Raise ConfigError if the run would never end, or recipe and configuration disagree."""
    if not any(getattr(recipe, total) for total in TOTALS):
        raise ConfigError(where, "nothing says when to stop", "Give --steps, --epochs or --minutes")
    read = "feature vectors" if config.features else ", ".join(config.sources)
    for name in ("shared_vocab", "bpe_dropout"):
        if (config.features or len(config.sources) > 1) and getattr(recipe, name):
            raise ConfigError(
                where, f"{name} is for one source of text, the model reads {read}",
                f"Leave out {name}",
            )  # fmt: skip
    if config.one_vocabulary and not recipe.shared_vocab:
        raise ConfigError(
            where, "this configuration needs one vocabulary", "Leave out shared_vocab = false"
        )
