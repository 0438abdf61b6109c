"""The checkpoint that a run is tuned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import torch

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.format import TRAINING, trained_on
from zoo.files import TEXT_LIMIT, read_json
from zoo.interop.locate import locate
from zoo.registry.declarations import Dataset
from zoo.registry.open_shelf import name_of
from zoo.registry.registry import Registry
from zoo.translation.languages import choose, languages_of
from zoo.translation.loading import load
from zoo.translation.translator import Translator

LEARNING_RATE_PER_WIDTH = 0.02
"""Divided by a model's width: the peak rate for a parent whose own rate is unknown, 4e-5 at 512."""

LARGEST = 1e12
"""From here on a number is no value of a recipe."""


@dataclass(frozen=True)
class Parent:
    """A loaded checkpoint, its training recipe and its dataset's name, empty if unknown."""

    translator: Translator
    recipe: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    recorded_rate: float = 0.0
    """The peak rate that a tuned checkpoint has taken over from its own parent, or 0."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint."""
        return self.translator.checkpoint

    @property
    def shares_vocabulary(self) -> bool:
        """Whether source and target have one vocabulary, as OPUS-MT's two tokenizers do."""
        checkpoint = self.checkpoint
        same = checkpoint.source_tokenizer is checkpoint.target_tokenizer
        return same or checkpoint.config.one_vocabulary

    @property
    def peak_rate(self) -> float:
        """The highest learning rate of the parent's training, or a guess by its width.

        That of tuning is a part of it: a tuned checkpoint has the rate of its first training, or
        its weights would move less each time that they are tuned again.
        """
        width = self.checkpoint.config.width
        if self.recorded_rate:
            return self.recorded_rate
        return peak_of(self.recipe, width) if self.recipe else 5 * LEARNING_RATE_PER_WIDTH / width

    def for_languages_of(self, dataset: Dataset) -> Parent:
        """Return the checkpoint with its tags for a dataset's languages, if both have any.

        Raises:
            DecodingError: it lacks one of the languages.
        """
        chosen = languages_of(self.checkpoint, dataset.languages)
        if not any(chosen):
            return self
        return replace(self, translator=Translator(choose(self.checkpoint, *chosen)))

    def dataset(self, registry: Registry) -> Dataset | None:
        """Return the dataset that it was trained on, or None."""
        return registry.datasets.get(self.data)


def peak_of(recipe: Mapping[str, Any], width: int) -> float:
    """Return the highest learning rate of a recipe, which may be that of any checkpoint."""
    schedule = recipe.get("schedule")
    if isinstance(schedule, str | Mapping) and name_of(schedule) == "noam":
        warmup = max(_number(recipe, "warmup", 1), 1)
        return _number(recipe, "factor", 1.0) * (width * warmup) ** -0.5
    return _number(recipe, "learning_rate", 1e-3)


def _number(values: Mapping[str, Any], name: str, default: float) -> float:
    """Return a value that comes with a checkpoint, if it can be one."""
    value: Any = values.get(name)
    known = type(value) in (int, float) and 0 < value < LARGEST
    return float(value) if known else default


def read_parent(registry: Registry, given: str | PathLike[str], device: torch.device) -> Parent:
    """Load a checkpoint by anything that `zoo.load` accepts.

    Raises:
        ZooError: as `zoo.load`, or its training record cannot be read.
    """
    translator = load(given, device=str(device), registry=registry)
    file = locate(given, registry) / TRAINING
    training = read_json(file, TEXT_LIMIT) if file.is_file() else {}
    recipe = training.get("recipe")
    released = registry.checkpoints.get(str(given))
    names = [released.dataset if released else "", translator.checkpoint.about.data]
    names.append(trained_on(training))
    data = next((name for name in names if name in registry.datasets), "")
    rate = _number(training, "peak_rate", 0.0)
    return Parent(translator, recipe if isinstance(recipe, dict) else {}, data, rate)
