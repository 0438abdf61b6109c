"""Train any registered model on parallel text: from a name to a checkpoint folder.

The modules in reading order, from the call to the weight update:

    request         the arguments of a call
    plan            the complete configuration and recipe of a run
    recipe_layers   the recipes of the catalogue and of files, one over the other
    auto            the recipe `auto`: what it chooses and why
    segmentation    the tokenizer and the vocabulary that it chooses
    fitting         apply it to a run: read the corpus, time an update
    session         begin or resume a run; write its checkpoint
    packages        the plugins with which a run began
    parent          the checkpoint that a run is tuned from
    fine_tuning     the plan and the tokenizers of such a run
    carry_over      its first weights
    tuning_record   scores before and after it
    freezing        weights that are not trained
    own_pairs       pairs that are given from Python
    data            tokenizers, training corpus, validation set
    reading         how the texts of training are read, which a checkpoint records
    text_faults     what is wrong with the pairs of a run
    setup           what objectives and augmentations are made from
    augmentation    changes of each epoch's corpus, or of each batch
    initialization  the network with its first weights
    trainer         the training loop
    passes          the forward and the backward pass of a batch
    precision       float32 or bf16
    window          the updates between two reports
    training_batch  a batch, with the network that is trained on it
    objective       the loss: a sum of objectives
    distillation    the objective that learns from another checkpoint
    minimum_risk    the objective that learns from its own samples
    losses          cross-entropy and divergence of logits
    optimizer       Adam, AdamW
    schedule        the learning rate of each update
    state           what training changes: weights, optimizer, counters
    parts           states of the optimizer, the schedule and the objectives
    averaging       which weights are validated and released
    validation      validation loss, BLEU and sample translations
    saving          write a state, read it back
    run_folder      the files of a run
    environment     what bits depend on besides recipe, data and seed
    process_group   several processes that train one model
    sharding        weights of which each process holds a part
    failures        errors during training, each in one line with advice
    advice          warnings about what makes runs fail
    held_out        scores of the released weights
    callbacks       those of plugins, and TensorBoard's
    run_view        what callbacks see of a run
    curve           the plot of a run's metrics
    benchmark       the speed of updates
    summary         how a run went, and the next commands
    progress        how a run is shown

`Session.trainer.events()` yields what happens. Only `progress` prints, where somebody watches.
Plugins that bring objectives or augmentations import the classes that are exported here; so do
programs that name the types of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from zoo.data.batches import Corpus as Corpus
from zoo.data.batches import Sequences as Sequences
from zoo.decoding.option import plain_number
from zoo.errors import DataError
from zoo.registry.arguments import checked
from zoo.registry.events import Event as Event
from zoo.registry.events import Note as Note
from zoo.registry.events import Stopped as Stopped
from zoo.registry.registry import Registry
from zoo.training import session
from zoo.training.augmentation import Augmentation as Augmentation
from zoo.training.own_pairs import Data, as_file
from zoo.training.progress import run_shown
from zoo.training.request import Sides, TrainingRequest, check_items
from zoo.training.run_folder import OWN_PAIRS
from zoo.training.schedule import Progress as Progress
from zoo.training.setup import Setup as Setup
from zoo.training.training_batch import TrainingBatch as TrainingBatch

__all__ = [
    "Augmentation",
    "Corpus",
    "Event",
    "Note",
    "Progress",
    "Sequences",
    "Setup",
    "Stopped",
    "TrainingBatch",
]


@checked
def train(
    model: str | None,
    data: Data,
    out: str | PathLike[str],
    *,
    from_: str | PathLike[str] | None = None,
    new_vocabulary: Sides | None = None,
    extend_vocabulary: Sides | None = None,
    freeze: Sequence[str] = (),
    also_score: str | PathLike[str] | Sequence[str | PathLike[str]] | None = (),
    limit: int | None = None,
    validation: Data | None = None,
    recipe: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str | torch.device = "auto",
    shard: bool = False,
    registry: Registry | None = None,
    on_event: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Path:
    """Train a model and return its checkpoint folder.

    While it runs, training uses torch's default random generator; its state is restored at the end.

    Args:
        model: a model's name; with `from_`, it may be None.
        data: a dataset's name; your own files: `PREFIX:en-de`, `FILE.tsv`, `FILE.csv`,
            `FILE.jsonl`, also compressed; or an iterable of pairs, each (source, target) or a
            mapping with the keys `source` and `target`. The run keeps a copy of such pairs.
        out: the checkpoint folder to write; the run is kept in `OUT.run` beside it.
        from_: the checkpoint to tune, by anything that `zoo.load` accepts; the run keeps its
            architecture, configuration and tokenizers.
        new_vocabulary: learn the tokenizer of `source`, `target` or `both` again; the rows of
            tokens that the parent has too are carried over.
        extend_vocabulary: keep the tokenizer of `source`, `target` or `both`, with further tokens:
            the frequent characters or words of the data that it lacks.
        freeze: patterns of the names of weights that are not trained, such as `encoder.*`.
        also_score: further data on which the parent and the tuned checkpoint are compared.
        limit: read at most this many pairs of each file.
        validation: another dataset, which is used for validation as a whole; by default the
            validation split of the data.
        recipe: a recipe's name or a TOML file; it overrides the recipes of the model and the data.
        settings: values of the model's configuration and of the recipe.
        steps, epochs, minutes: when to stop; they replace the recipe's own.
        seed: of the weights, the order of the data and dropout.
        device: `auto`, `cpu`, `cuda`, …; or torch's own.
        shard: split the weights among the processes that torchrun started.
        registry: names to look up; by default those of all installed plugins.
        on_event: called with every report, validation and note.
        progress: show what `zoo train` shows, on standard error; by default in a terminal or a
            notebook.

    Raises:
        ArgumentError: an argument is of another type.
        ZooError: a name, a setting, the data or the output folder is not valid, or training fails.
    """
    scored, frozen = _listed(also_score or ()), _listed(freeze)
    check_items(settings, also_score=scored, freeze=frozen)
    copies: list[Path] = []
    request = TrainingRequest(
        model or "",
        _training_file(data, copies),
        out,
        from_=from_,
        new_vocabulary=new_vocabulary,
        extend_vocabulary=extend_vocabulary,
        also_score=tuple(scored),
        limit=plain_number(limit),
        validation=as_file(validation, OWN_PAIRS["validation"], copies),
        copies=tuple(copies),
        recipe=None if recipe is None else fspath(recipe),
        settings={**(settings or {}), **({"recipe.freeze": frozen} if frozen else {})},
        steps=plain_number(steps),
        epochs=plain_number(epochs),
        minutes=plain_number(minutes, whole=False),
        seed=plain_number(seed),
        device=str(device),
        shard=shard,
    )
    with torch.inference_mode(False), session.begin(request, registry) as begun:  # with gradients
        return run_shown(begun, on_event, progress)


def _listed(names: object) -> list[Any]:
    """Return names or paths as a list of texts, also a single one; what is neither stays."""
    is_one = isinstance(names, str | PathLike)
    many: Iterable[Any] = names if isinstance(names, Iterable) and not is_one else [names]
    return [fspath(name) if isinstance(name, PathLike) else name for name in many]


def _training_file(data: Data | None, copies: list[Path]) -> str:
    """Return the file or the name of what is trained on; `copies` gets the file of given pairs.

    Raises:
        DataError: it is None.
    """
    if (spec := as_file(data, OWN_PAIRS["data"], copies)) is None:
        raise DataError("there is nothing to train on", "the data is None", "Name a dataset")
    return spec


@checked
def resume(
    out: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    validation: str | PathLike[str] | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str | torch.device = "auto",
    shard: bool = False,
    registry: Registry | None = None,
    on_event: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Path:
    """Continue a run that was stopped or finished, and return its checkpoint folder.

    Args:
        out: the checkpoint folder that was given to `train`.
        data, validation: where the data is now, if its files were moved; its text must be the same.
        steps, epochs, minutes: new totals, which count what was done before.
        device, shard, registry, on_event, progress: as in `train`.

    Raises:
        ZooError: there is no run, its data has changed, or training fails.
    """
    with (
        torch.inference_mode(False),  # with gradients
        session.resume(
            out,
            data=data,
            validation=validation,
            steps=plain_number(steps),
            epochs=plain_number(epochs),
            minutes=plain_number(minutes, whole=False),
            device=str(device),
            shard=shard,
            registry=registry,
        ) as resumed,
    ):
        return run_shown(resumed, on_event, progress)
