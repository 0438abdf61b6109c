"""Train any registered model on parallel text: from a name to a checkpoint folder.

The modules in reading order, from the call to the weight update:

    request         the arguments of a call
    plan            the complete configuration and recipe of a run
    session         begin or resume a run; write its checkpoint
    data            tokenizers, training corpus, validation set
    initialization  the network with its first weights
    trainer         the training loop
    objective       the loss
    optimizer       Adam, AdamW
    schedule        the learning rate of each update
    state           what training changes: weights, optimizer, counters
    averaging       which weights are validated and released
    validation      validation loss, BLEU and sample translations
    saving          write a state, read it back
    run_folder      the files of a run
    process_group   several processes that train one model

`Session.trainer.events()` yields what happens. Nothing here prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from zoo.registry.events import Event
from zoo.registry.registry import Registry
from zoo.training import session
from zoo.training.request import TrainingRequest


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

    While it runs, training uses torch's default random generator; its state is restored at the end.

    Args:
        model: a model's name.
        data: a dataset's name, or your own files: `PREFIX:en-de`, `FILE.tsv`, `FILE.jsonl`.
        out: the checkpoint folder to write; the run is kept in `OUT.run` beside it.
        limit: read at most this many pairs of each file.
        validation: another dataset, which is used for validation as a whole; by default the
            validation split of the data.
        recipe: a recipe's name or a TOML file; it overrides the recipes of the model and the data.
        settings: values of the model's configuration and of the recipe.
        steps, epochs, minutes: when to stop; they replace the recipe's own.
        seed: of the weights, the order of the data and dropout.
        device: `auto`, `cpu`, `cuda`, …
        shard: split the weights among the processes that torchrun started.
        registry: names to look up; by default those of all installed plugins.
        on_event: called with every report, validation and note.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not valid, or training fails.
    """
    request = TrainingRequest(
        model,
        data,
        out,
        limit=limit,
        validation=validation,
        recipe=recipe,
        settings=settings or {},
        steps=steps,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        device=device,
        shard=shard,
    )
    with session.begin(request, registry) as begun:
        return begun.run(on_event)


def resume(
    out: str | PathLike[str],
    *,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    shard: bool = False,
    registry: Registry | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Path:
    """Continue a run that was stopped or finished, and return its checkpoint folder.

    Args:
        out: the checkpoint folder that was given to `train`.
        steps, epochs, minutes: new totals, which count what was done before.
        device, shard, registry, on_event: as in `train`.

    Raises:
        ZooError: there is no run, its data has changed, or training fails.
    """
    with session.resume(
        out,
        steps=steps,
        epochs=epochs,
        minutes=minutes,
        device=device,
        shard=shard,
        registry=registry,
    ) as resumed:
        return resumed.run(on_event)
