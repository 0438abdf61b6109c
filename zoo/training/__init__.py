"""Train any registered model on parallel text, from a name to a checkpoint folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from zoo.registry.events import Event, Note, Report, Sample, Stopped, Validation
from zoo.registry.registry import Registry
from zoo.training.plan import Plan, make_plan
from zoo.training.prepared import Prepared, prepare
from zoo.training.run import Run
from zoo.training.trainer import Trainer

__all__ = [
    "Event",
    "Note",
    "Plan",
    "Prepared",
    "Report",
    "Run",
    "Sample",
    "Stopped",
    "Trainer",
    "Validation",
    "make_plan",
    "prepare",
    "train",
]


def train(
    model: str,
    data: str,
    out: str | PathLike[str],
    *,
    limit: int | None = None,
    validation: str | None = None,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    shard: bool = False,
    registry: Registry | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Path:
    """Train a model and return its checkpoint folder.

    Args:
        model: a model's name.
        data: a dataset's name, or files of your own: `PREFIX:en-de`, `FILE.tsv`, `FILE.jsonl`.
        out: the checkpoint folder to make; the run lives in `OUT.run` beside it.
        limit: read no more than this many pairs of each file.
        validation: other data to validate on, whole; by default the data's own validation split.
        recipe: a recipe of the catalogue or a TOML file, over the model's and the dataset's own.
        settings: values of the model's configuration and of the recipe.
        steps, epochs, minutes: when to stop, in place of what the recipe says.
        seed: of weights, order and dropout.
        device: `auto`, `cpu`, `cuda`, …
        shard: part the weights among torchrun's processes.
        on_event: called with every report, validation and note.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not as it must be.
    """
    with prepare(
        model,
        data,
        out,
        limit=limit,
        validation=validation,
        recipe=recipe,
        settings=settings,
        steps=steps,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        device=device,
        shard=shard,
        registry=registry,
    ) as prepared:
        for event in prepared.trainer.events():
            if on_event is not None:
                on_event(event)
        return prepared.finish()
