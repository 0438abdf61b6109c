"""Train any registered model on parallel text, from a name to a checkpoint folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from zoo import cards, checkpoint
from zoo.checkpoint import Checkpoint
from zoo.config import LengthLimits
from zoo.data import Corpus, shuffled_batches
from zoo.datasets import Dataset, Pair, is_file_spec
from zoo.errors import ConfigError, DataError
from zoo.model import build
from zoo.recipe import Recipe
from zoo.registry import Registry, registry
from zoo.text import Tokenizer
from zoo.training.plan import Plan, make_plan
from zoo.training.run import Run
from zoo.training.trainer import Event, Report, Stopped, Trainer, Validation
from zoo.translator import pick_device

__all__ = [
    "Event",
    "Plan",
    "Prepared",
    "Report",
    "Run",
    "Stopped",
    "Trainer",
    "Validation",
    "make_plan",
    "prepare",
    "train",
]


@dataclass
class Prepared:
    """A run that is ready to go: iterate over `trainer.events()`, then `finish`."""

    names: Registry
    plan: Plan
    dataset: Dataset
    limit: int | None
    run: Run
    trainer: Trainer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    padding: float

    def finish(self) -> Path:
        """Write the checkpoint folder, whole, in place of one that this run wrote before.

        Raises:
            CheckpointError: something else stands there.
        """
        plan = self.plan
        made = Checkpoint(
            self.run.out.name,
            plan.model,
            plan.architecture,
            plan.config,
            self.trainer.model,
            self.source_tokenizer,
            self.target_tokenizer,
        )
        corpus = self.trainer.corpus
        training = {
            "data": self.dataset.name,
            "limit": self.limit,
            "pairs": len(corpus),
            "left_out": asdict(corpus.left_out),
            "recipe": plan.recipe.model_dump(mode="json"),
            "steps": self.trainer.step,
            "minutes": round(self.trainer.seconds / 60, 2),
            "torch": torch.__version__,
            "curve": self.run.metrics(),
        }
        architecture = self.names.architecture(plan.architecture)
        card = cards.checkpoint_card(made, architecture, self.dataset, training)
        checkpoint.write(
            self.run.out, made, self.names, card, training, replace=self.run.may_replace()
        )
        self.run.finished()
        return self.run.out


def prepare(
    model: str | None,
    data: str | None,
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
    resume: bool = False,
    device: str = "auto",
    names: Registry | None = None,
) -> Prepared:
    """Make a run ready: resolve names, read data, learn vocabularies, build the network.

    `resume` goes on with the run of `out`, which needs neither model nor data; `steps`, `epochs`
    and `minutes` are totals. For the other arguments see `train`.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not as it must be.
    """
    names = names or registry()
    where = pick_device(device)
    run = Run(Path(out))
    stops = {"steps": steps, "epochs": epochs, "minutes": minutes}
    if resume:
        plan, source = _resumed(names, run, stops)
    else:
        if model is None or data is None:
            raise DataError("no model or no data named", "only --resume needs neither")
        for spec in (data, validation):  # a wrong name is told before anything else
            if spec is not None:
                names.dataset(spec)
        run.check_free()
        data, validation = _absolute(names, data), _absolute(names, validation)
        own = {**(settings or {}), **({} if seed is None else {"recipe.seed": seed})}
        plan = make_plan(names, model, data or "", recipe=recipe, settings=own, stops=stops)
        source = {"data": data, "limit": limit, "validation": validation}
    dataset = names.dataset(source["data"])
    pairs = dataset.load("train", source["limit"])
    held_out = _validation_pairs(names, dataset, source["validation"], source["limit"])
    tokenizers = run.tokenizers() if resume else learn_tokenizers(pairs, plan.recipe)
    corpus = Corpus.encode(pairs, *tokenizers, _limits(plan))
    _check_corpus(corpus, dataset)
    torch.manual_seed(plan.recipe.seed)
    network = names.architecture(plan.architecture).network_type()
    built = build(network, plan.config, tokenizers[0].size, tokenizers[1].size)
    built = built.to(where)
    description = {
        "model": plan.model,
        "architecture": plan.architecture,
        "config": plan.config.model_dump(mode="json"),
        "recipe": plan.recipe.model_dump(mode="json"),
        **source,
        "fingerprint": corpus.fingerprint(),
    }
    if resume:
        run.check_same(description)
    else:
        run.create(description, *tokenizers)
    held_out_corpus = Corpus.encode(held_out, *tokenizers, _limits(plan))
    trainer = Trainer(built, corpus, held_out_corpus, plan.recipe, plan.config.width, run)
    if resume:
        if any(stops.values()) and trainer.done() > 1:
            raise ConfigError(
                "the run is past that already",
                f"it has made {trainer.step:,} updates in {trainer.epoch} epochs and "
                f"{trainer.seconds / 60:.1f} minutes",
                "--steps, --epochs and --minutes are totals",
            )
        run.describe_as(description)
    first = shuffled_batches(corpus, plan.recipe.batch_tokens, plan.recipe.batch_sentences, 0, 0)
    padding = corpus.padding(first)
    return Prepared(names, plan, dataset, source["limit"], run, trainer, *tokenizers, padding)


def _absolute(names: Registry, spec: str | None) -> str | None:
    """Return where the user's own files are, wherever a later --resume is called from."""
    if spec is None or spec in names.datasets or not is_file_spec(spec):
        return spec
    return str(Path(spec).absolute())


def _resumed(
    names: Registry, run: Run, stops: Mapping[str, float | None]
) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of a run, with new totals if any are given, and where its data is."""
    wanted = run.describe()
    run.check_replaceable()
    architecture = names.architecture(wanted["architecture"])
    recipe = {**wanted["recipe"], **(stops if any(stops.values()) else {})}
    plan = Plan(
        wanted["model"],
        wanted["architecture"],
        architecture.config_type().parse(wanted["config"], "the run's configuration"),
        Recipe.parse(recipe, "the run's recipe"),
    )
    return plan, {key: wanted[key] for key in ("data", "limit", "validation")}


def _check_corpus(corpus: Corpus, dataset: Dataset) -> None:
    if not len(corpus):
        left = corpus.left_out
        raise DataError(
            f"nothing of {dataset.name} is left to train on",
            f"{left.empty:,} pairs have an empty side, {left.long:,} are over the length limit",
            "Raise --set max_length, or give other data",
        )


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
    names: Registry | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Path:
    """Train a model and return its checkpoint folder.

    Args:
        model: a model's name.
        data: a dataset's name, or files of your own: `PREFIX:en-de`, `FILE.tsv`, `FILE.jsonl`.
        out: the checkpoint folder to make; the run lives in `OUT.run` beside it.
        limit: read no more than this many pairs of each file.
        validation: other data to validate on, whole; by default the data's own validation split.
        recipe: a recipe of the catalogue, over the model's and the dataset's own.
        settings: values of the model's configuration and of the recipe.
        steps, epochs, minutes: when to stop, in place of what the recipe says.
        seed: of weights, order and dropout.
        device: `auto`, `cpu`, `cuda`, …
        on_event: called with every report and validation.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not as it must be.
    """
    prepared = prepare(
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
        names=names,
    )
    for event in prepared.trainer.events():
        if on_event is not None:
            on_event(event)
    return prepared.finish()


def learn_tokenizers(pairs: list[Pair], recipe: Recipe) -> tuple[Tokenizer, Tokenizer]:
    """Learn the source's and the target's vocabulary; one and the same if the recipe shares it."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if recipe.shared_vocab:
        both = Tokenizer.train(sources + targets, recipe.tokenizer, recipe.vocab_size)
        return both, both
    return (
        Tokenizer.train(sources, recipe.tokenizer, recipe.vocab_size),
        Tokenizer.train(targets, recipe.tokenizer, recipe.vocab_size),
    )


def _validation_pairs(
    names: Registry, dataset: Dataset, validation: str | None, limit: int | None
) -> list[Pair]:
    if validation is None:
        return dataset.load("validation", limit) if "validation" in dataset.splits else []
    other = names.dataset(validation)
    return other.load("all" if "all" in other.splits else "validation")


def _limits(plan: Plan) -> LengthLimits:
    """Return the tighter of the model's limits and the recipe's."""
    most = plan.recipe.max_length
    limits = plan.config.length_limits
    return LengthLimits(*(most if limit is None else min(most, limit) for limit in limits))
