"""From names and wishes to a run that is ready to go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from zoo.checkpoint import card as cards
from zoo.checkpoint import checkpoint
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.cli.process import keep_freed_memory
from zoo.data.batches import Corpus
from zoo.data.bpe_dropout import bpe_dropout
from zoo.data.corpus import learn_tokenizers, open_corpus
from zoo.data.datasets import find_dataset, is_file_spec
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConfigError, DataError
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.callbacks import callbacks, write_curve
from zoo.training.failures import explained
from zoo.training.group import Group, join, restarted
from zoo.training.optimizer import draw_xavier
from zoo.training.plan import Plan, complete_recipe, make_plan
from zoo.training.precision import Choice, choose
from zoo.training.run import Run
from zoo.training.trainer import Trainer
from zoo.training.validation import HeldOut


@dataclass
class Prepared:
    """A run that is ready to go: iterate over `trainer.events()`, then `finish`, then `close`."""

    registry: Registry
    plan: Plan
    dataset: Dataset
    limit: int | None
    run: Run
    group: Group
    trainer: Trainer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    padding: float
    notes: list[str]
    choice: Choice | None = None
    """What `precision = "auto"` measured and took, if it was asked to."""

    def finish(self) -> Path:
        """Write the checkpoint folder, whole, in place of one that this run wrote before.

        Of several processes, all must call it; the first writes.

        Raises:
            CheckpointError: something else stands there.
            TrainingError: the disk refuses.
        """
        progress, run = self.trainer.progress, self.run
        with explained(progress.step, self.plan.recipe, self.group, run.folder):
            weights = self.trainer.released.chosen(progress)
            if self.group.first:
                self._write(weights)
            self.group.wait()
        return run.out

    def _write(self, weights: Mapping[str, Tensor]) -> None:
        plan, run = self.plan, self.run
        self.draw()
        made = Checkpoint(
            run.out.name,
            plan.model,
            plan.architecture,
            plan.config,
            self.trainer.model,
            self.source_tokenizer,
            self.target_tokenizer,
        )
        training = self._training()
        architecture = self.registry.architecture(plan.architecture)
        card = cards.checkpoint_card(made, architecture, self.dataset, training)
        more = {"curve.png": (run.folder / "curve.png").read_bytes()}
        replace = run.may_replace()
        with run.writing(str(run.out)):
            checkpoint.write(
                run.out,
                made,
                self.registry,
                card,
                training,
                weights=weights,
                more=more,
                replace=replace,
            )

    def draw(self) -> None:
        """Draw the curve so far into the run's folder."""
        title = f"{self.plan.model} on {self.dataset.name}"
        with self.run.writing("the curve"):
            write_curve(self.run.folder, self.run.metrics(), title)

    def _training(self) -> dict[str, Any]:
        """Return what the checkpoint tells of its training."""
        corpus, progress = self.trainer.corpus, self.trainer.progress
        selects = self.plan.recipe.select != "last"
        curve = [{k: v for k, v in r.items() if k != "samples"} for r in self.run.metrics()]
        return {
            "run": self.run.id,
            "data": self.dataset.name,
            "limit": self.limit,
            "pairs": len(corpus),
            "left_out": asdict(corpus.left_out),
            "recipe": self.plan.recipe.model_dump(mode="json"),
            "steps": progress.step,
            "released": progress.best_step if selects else progress.step,
            "minutes": round(progress.seconds / 60, 2),
            "torch": torch.__version__,
            "curve": curve,
        }

    def close(self) -> None:
        """Let other processes have the run."""
        self.run.release()
        self.group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
    shard: bool = False,
    registry: Registry | None = None,
) -> Prepared:
    """Make a run ready: resolve names, read data, learn vocabularies, build the network.

    `resume` goes on with the run of `out`, which needs neither model nor data; `steps`, `epochs`
    and `minutes` are totals. For the other arguments see `train`.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not as it must be.
    """
    registry = registry or default_registry()
    stops = {"steps": steps, "epochs": epochs, "minutes": minutes}
    group = join(device, shard)
    run = Run(Path(out), writes=group.first)
    try:
        if restarted() and (run.folder / "run.json").is_file():
            resume, stops = True, {}  # the totals are the run's own already
        if resume:
            plan, source = _resumed(registry, run, stops)
        else:
            own = {**(settings or {}), **({} if seed is None else {"recipe.seed": seed})}
            source = {"data": data, "limit": limit, "validation": validation}
            if group.first:
                run.check_free()
            plan, source = _new(registry, model, source, recipe, own, stops)
        with explained(0, plan.recipe, group, run.folder):
            return _ready(registry, plan, source, run, group, stops, resume)
    except BaseException:
        run.release()
        group.close()
        raise


def _new(
    registry: Registry,
    model: str | None,
    source: Mapping[str, Any],
    recipe: str | None,
    settings: Mapping[str, Any],
    stops: Mapping[str, float | None],
) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of a new run, and where its data is."""
    data, validation = source["data"], source["validation"]
    if model is None or data is None:
        raise DataError("no model or no data named", "only --resume needs neither")
    for spec in (data, validation):  # a wrong name is told before anything else
        if spec is not None:
            find_dataset(registry, spec)
    data, validation = _absolute(registry, data), _absolute(registry, validation)
    plan = make_plan(registry, model, data or "", recipe=recipe, settings=settings, stops=stops)
    return plan, {**source, "data": data, "validation": validation}


def _resumed(
    registry: Registry, run: Run, stops: Mapping[str, float | None]
) -> tuple[Plan, dict[str, Any]]:
    """Hold a run; return its plan, with new totals if any are given, and where its data is."""
    wanted = run.describe()
    run.hold()
    architecture = registry.architecture(wanted["architecture"])
    recipe = {**wanted["recipe"], **(stops if any(stops.values()) else {})}
    plan = Plan(
        wanted["model"],
        wanted["architecture"],
        architecture.config_type().parse(wanted["config"], "the run's configuration"),
        Recipe.parse(recipe, "the run's recipe"),
    )
    return plan, {key: wanted[key] for key in ("data", "limit", "validation")}


def _ready(
    registry: Registry,
    plan: Plan,
    source: dict[str, Any],
    run: Run,
    group: Group,
    stops: Mapping[str, float | None],
    resume: bool,
) -> Prepared:
    notes = run.mend() if resume else []
    if resume and group.first:
        run.check_replaceable()
    dataset, limit = find_dataset(registry, source["data"]), source["limit"]
    pairs = _validation_pairs(registry, dataset, source["validation"], limit)
    if not resume and group.first:
        tokenizers = learn_tokenizers(dataset, limit, plan.recipe)
    else:
        if not resume:
            group.wait()  # the first process makes the run
        tokenizers = run.tokenizers()
    corpus = open_corpus(dataset, limit, tokenizers, _limits(plan))
    _check_corpus(corpus, dataset)
    network = _network(registry, plan, tokenizers, group)
    if group.device.type == "cpu":
        keep_freed_memory()
    choice = None
    if plan.recipe.precision == "auto":
        choice = choose(network.to(group.device), corpus, plan.recipe)
        # All processes take what the first one found.
        found = "bf16" if group.tell(float(choice.precision == "bf16")) else "float32"
        choice = choice._replace(precision=found)
        plan = replace(plan, recipe=plan.recipe.model_copy(update={"precision": found}))
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
    elif group.first:
        run.create(description, complete_recipe(plan), *tokenizers)
        group.wait()
    held_out = HeldOut(pairs, *tokenizers, _limits(plan))
    told, wrong = callbacks(registry) if group.first else (None, [])
    trainer = Trainer(
        network,
        corpus,
        held_out,
        plan.recipe,
        plan.config.width,
        run,
        group,
        told,
        bpe_dropout(plan.recipe, corpus, tokenizers, _limits(plan)),
    )
    if resume:
        _check_totals(trainer, stops)
        run.describe_as(description, complete_recipe(plan))
    padding = trainer.corpus.padding(trainer.batches)
    notes += [*wrong, *trainer.notes]
    return Prepared(
        registry, plan, dataset, limit, run, group, trainer, *tokenizers, padding, notes, choice
    )


def _network(
    registry: Registry, plan: Plan, tokenizers: tuple[Tokenizer, Tokenizer], group: Group
) -> Seq2Seq:
    """Build the network with its first weights, the same in every process; seed dropout."""
    torch.manual_seed(plan.recipe.seed)
    sizes = (tokenizers[0].size, tokenizers[1].size)
    network = build(network_type(registry.architecture(plan.architecture)), plan.config, *sizes)
    if plan.recipe.initialisation == "xavier":
        draw_xavier(network, plan.config.parameters(*sizes))
    if group.rank:
        torch.manual_seed((plan.recipe.seed + 2**32 * group.rank) % 2**63)
    return network


def _check_totals(trainer: Trainer, stops: Mapping[str, float | None]) -> None:
    """Make sure that new totals are beyond what was done; they end an early stop."""
    if not any(stops.values()):
        return
    trainer.progress.worse = 0
    if trainer.done() > 1:
        progress = trainer.progress
        raise ConfigError(
            "the run is past that already",
            f"it has made {progress.step:,} updates in {progress.epoch} epochs and "
            f"{progress.seconds / 60:.1f} minutes",
            "--steps, --epochs and --minutes are totals",
        )


def _absolute(registry: Registry, spec: str | None) -> str | None:
    """Return where the user's own files are, wherever a later --resume is called from."""
    if spec is None or spec in registry.datasets or not is_file_spec(spec):
        return spec
    return str(Path(spec).absolute())


def _check_corpus(corpus: Corpus, dataset: Dataset) -> None:
    if not len(corpus):
        left = corpus.left_out
        raise DataError(
            f"nothing of {dataset.name} is left to train on",
            f"{left.empty:,} pairs have an empty side, {left.long:,} are over the length limit",
            "Raise --set max_length, or give other data",
        )


def _validation_pairs(
    registry: Registry, dataset: Dataset, validation: str | None, limit: int | None
) -> list[Pair]:
    if validation is None:
        return dataset.load("validation", limit) if "validation" in dataset.splits else []
    other = find_dataset(registry, validation)
    return other.load("all" if "all" in other.splits else "validation")


def _limits(plan: Plan) -> LengthLimits:
    """Return the tighter of the model's limits and the recipe's."""
    most = plan.recipe.max_length
    limits = plan.config.length_limits
    return LengthLimits(*(most if limit is None else min(most, limit) for limit in limits))
