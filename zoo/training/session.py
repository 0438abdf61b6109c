"""Begin or resume a run, and write its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from zoo.checkpoint import card as cards
from zoo.checkpoint import checkpoint
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.corpus import learn_tokenizers
from zoo.data.datasets import find_dataset
from zoo.errors import ZooError
from zoo.files import replace_file
from zoo.registry.events import Event
from zoo.registry.imports import require
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.callbacks import load_callbacks
from zoo.training.curve import draw_curve, for_the_record
from zoo.training.data import TrainingData, load_data
from zoo.training.failures import explain_failures
from zoo.training.fine_tuning import make_tuning_plan, tuning_tokenizers
from zoo.training.fitting import Automatic, first_plan
from zoo.training.freezing import freeze
from zoo.training.held_out import HeldOutScores, score_held_out
from zoo.training.initialization import build_network, table_notes
from zoo.training.objective import TrainingLoss
from zoo.training.own_pairs import moved
from zoo.training.packages import packages, read_plan
from zoo.training.parent import Parent, read_parent
from zoo.training.plan import Plan, training_data
from zoo.training.precision import PrecisionChoice, choose_precision
from zoo.training.process_group import ProcessGroup, join_process_group, was_restarted
from zoo.training.reading import about_of, source_words
from zoo.training.recipe_layers import TOTALS, notes_of_changes
from zoo.training.request import TrainingRequest
from zoo.training.run_folder import RECIPE, RunFolder
from zoo.training.trainer import Trainer
from zoo.training.tuning_record import (
    TuningRecord,
    first_files,
    load_first_weights,
    with_weights,
)


@dataclass
class Session:
    """A run that this process has locked: iterate over `trainer.events()`, then `finish`.

    Use it as a context manager. At its end the lock is released, the process group is left, and
    torch's default random generators are restored. Until then training owns those generators: do
    not train two sessions in turn.
    """

    registry: Registry
    trainer: Trainer
    notes: list[str] = field(default_factory=list)
    """What the user should know before training: repairs, failed callbacks."""
    precision: PrecisionChoice | None = None
    """What `precision = "auto"` measured and chose, in the process that began the run."""
    chosen: list[str] = field(default_factory=list)
    """What `auto` chose and why, in lines, in the process that began the run."""
    resources: ExitStack = field(default_factory=ExitStack)
    compared: list[dict[str, Any]] = field(default_factory=list)
    """Scores before and after tuning, from `finish` on."""
    warnings: list[str] = field(default_factory=list)
    held_out: HeldOutScores | None = None
    """The scores of the released weights, from `finish` on."""

    def run(self, on_event: Callable[[Event], None] | None = None) -> Path:
        """Train to the end, and return the checkpoint folder.

        Raises:
            ZooError: training fails, or the checkpoint cannot be written.
        """
        for event in self.trainer.events():
            if on_event is not None:
                on_event(event)
        return self.finish()

    def finish(self) -> Path:
        """Write the checkpoint folder, whole; it replaces one that this run wrote before.

        Of several processes, all must call this; the first writes.

        Raises:
            CheckpointError: something else is in its place.
            TrainingError: it cannot be written.
        """
        trainer, folder, group = self.trainer, self.trainer.folder, self.trainer.group
        with explain_failures(trainer.state.step, trainer.plan.recipe, group, folder.path):
            weights = trainer.averaged.to_release()
            try:
                self.held_out = score_held_out(trainer, weights)
            except ZooError as error:  # the checkpoint is worth more than its scores
                self.warnings.append(f"not scored on held-out pairs: {error}")
            if group.is_first:
                self._write(weights)
            group.barrier()
        return folder.out

    def _write(self, weights: Mapping[str, Tensor]) -> None:
        plan, data, folder = self.trainer.plan, self.trainer.data, self.trainer.folder
        self.write_curve()
        about = about_of(data, self.registry)
        tuned = TuningRecord.read(folder.path)
        made = Checkpoint(
            folder.out.name,
            plan.model,
            plan.architecture,
            plan.config,
            self.trainer.model,
            data.source_tokenizer,
            data.target_tokenizer,
            about=about,
            words=source_words(data, about, None if tuned is None else tuned.words),
        )
        training = self._training()
        license: Mapping[str, Any] = {}
        if tuned is not None:
            made.about, license, rate = tuned.about, tuned.license, tuned.peak_rate
            device = self.trainer.group.device
            try:
                self.compared = tuned.compare(with_weights(made, weights, self.registry, device))
            except ZooError as error:  # the checkpoint is worth more than its comparison
                self.warnings.append(f"not compared with {plan.parent}: {error}")
            training |= {"parent": plan.parent, "tuning": self.compared, "peak_rate": rate}
        architecture = self.registry.architecture(plan.architecture)
        card = cards.checkpoint_card(made, architecture, training, license)
        more = {"curve.png": (folder.path / "curve.png").read_bytes()}
        with folder.writing(str(folder.out)):
            checkpoint.write(
                folder.out, made, self.registry, card, training,
                weights=weights, more=more, replace=folder.may_replace(),
            )  # fmt: skip

    def write_curve(self) -> None:
        """Plot the metrics so far into the run folder."""
        folder = self.trainer.folder
        title = f"{self.trainer.plan.model} on {self.trainer.data.dataset.name}"
        picture = draw_curve(folder.metrics(), title)
        with folder.writing("the curve"):
            replace_file(folder.path / "curve.png", picture)

    def _training(self) -> dict[str, Any]:
        """Return what the checkpoint records about its training."""
        plan, data, state = self.trainer.plan, self.trainer.data, self.trainer.state
        folder = self.trainer.folder
        selects = plan.recipe.select != "last"
        curve = [for_the_record(report) for report in folder.metrics()]
        return {
            "run": folder.id,
            "data": data.dataset.name,
            "limit": plan.limit,
            "pairs": len(data.corpus),
            "left_out": asdict(data.corpus.left_out),
            "recipe": plan.recipe.model_dump(mode="json"),
            "steps": state.step,
            "released": state.best_step if selects else state.step,
            "minutes": round(state.seconds / 60, 2),
            "torch": torch.__version__,
            "held_out": asdict(self.held_out) if self.held_out else None,
            "curve": curve,
        }

    def close(self) -> None:
        """Release the run's lock, leave the process group, and restore the random generators."""
        self.resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def begin(request: TrainingRequest, registry: Registry | None = None) -> Session:
    """Begin a run: resolve names, read data, learn vocabularies, build the network.

    Until the session is closed, training owns torch's default random generators. A process that
    torchrun has restarted resumes the run.

    Raises:
        ZooError: a name, a setting, the data or the output folder is not valid.
    """
    if was_restarted() and RunFolder(request.out).exists():
        return resume(request.out, device=request.device, shard=request.shard, registry=registry)
    request.check()
    registry = registry or default_registry()
    with ExitStack() as resources:
        group, folder = _acquire(resources, request.out, request.device, request.shard)
        if group.is_first:
            folder.check_free()
        for spec in filter(None, (request.data, request.validation)):
            find_dataset(registry, spec)  # a wrong name is reported before anything else
        parent = automatic = None
        if request.from_ is None:
            plan, automatic = first_plan(registry, request)
        else:
            parent = read_parent(registry, request.from_, group.device)
            dataset = training_data(registry, request.data, request.validation is not None)
            parent = parent.for_languages_of(dataset)
            plan = make_tuning_plan(registry, request, parent, dataset)
        choice, tuning_notes = None, list[str]()
        with explain_failures(0, plan.recipe, group, folder.path):
            if group.is_first:
                begins = Beginning(request, parent, automatic)
                plan, data, choice, tuning_notes = _create(registry, begins, plan, folder, group)
                group.barrier()
            else:
                group.barrier()  # the first process writes the run folder
                plan = Plan.parse(registry, folder.describe())
                data = load_data(registry, plan, folder.tokenizers(registry))
            trainer, notes = _make_trainer(registry, plan, data, folder, group)
        chosen = automatic.choice.reasons if automatic else []
        return Session(registry, trainer, tuning_notes + notes, choice, chosen, resources.pop_all())


def resume(
    out: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    validation: str | os.PathLike[str] | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    shard: bool = False,
    registry: Registry | None = None,
) -> Session:
    """Resume the run of `out`; `steps`, `epochs` and `minutes` are new totals.

    `data` and `validation` say where the data is now, if its files were moved.

    Raises:
        ZooError: there is no run, or its data has changed, or the totals are reached already.
    """
    registry = registry or default_registry()
    totals = dict(zip(TOTALS, (steps, epochs, minutes), strict=True))
    if was_restarted() or all(total is None for total in totals.values()):
        totals = {}  # a restarted process finds its totals in the run folder
    with ExitStack() as resources:
        group, folder = _acquire(resources, out, device, shard)
        description = folder.describe()
        folder.acquire()
        values = description | {"recipe": description["recipe"] | totals}
        plan = read_plan(registry, values, {"data": data, "validation": validation})
        with explain_failures(0, plan.recipe, group, folder.path):
            repairs = folder.repair() + notes_of_changes(folder.path / RECIPE, description)
            if group.is_first:
                folder.check_replaceable()
            read = load_data(registry, plan, folder.tokenizers(registry))
            read.check_same(plan, description, folder.path)
            trainer, notes = _make_trainer(registry, plan, read, folder, group)
            if totals:
                trainer.check_totals(Recipe.parse(description["recipe"], "the run's recipe"))
            described = description | plan.describe() | read.fingerprints()
            folder.update_description(described, plan.to_toml())
        return Session(registry, trainer, repairs + notes, resources=resources.pop_all())


def _acquire(
    resources: ExitStack, out: str | os.PathLike[str], device: str, shard: bool
) -> tuple[ProcessGroup, RunFolder]:
    """Join the process group and give the run folder; closing `resources` undoes it.

    An error that ends `resources` is marked, so that one process reports it.
    """
    require("matplotlib", extra="train", purpose="training")
    group = join_process_group(device, shard)
    resources.callback(group.close)
    resources.push(group.mark_error)
    folder = RunFolder(out, writes=group.is_first)
    resources.callback(folder.release)
    # Callbacks, not torch's fork_rng: a session that is never closed must not restore them either.
    resources.callback(torch.set_rng_state, torch.get_rng_state())
    if group.device.type == "cuda":
        state = torch.cuda.get_rng_state(group.device)
        resources.callback(torch.cuda.set_rng_state, state, group.device)
    return group, folder


class Beginning(NamedTuple):
    """What a run begins with: the request, and perhaps a parent or the recipe `auto`."""

    request: TrainingRequest
    parent: Parent | None
    automatic: Automatic | None


def _create(
    registry: Registry, begins: Beginning, plan: Plan, folder: RunFolder, group: ProcessGroup
) -> tuple[Plan, TrainingData, PrecisionChoice | None, list[str]]:
    """Learn the tokenizers, choose the precision, and write the run folder; return notes too."""
    request, parent, automatic = begins
    dataset = plan.dataset(registry)
    if parent is None:
        described = (plan.recipe, registry, plan.config)
        tokenizers = learn_tokenizers(dataset, plan.limit, *described)
    else:
        tokenizers = tuning_tokenizers(registry, parent, dataset, plan.limit, plan.recipe, request)
    data = load_data(registry, plan, tokenizers)
    if automatic is not None:
        plan = automatic.fitted(plan, data, group.device)
        data = data.following(plan)
    more, notes = dict[str, bytes | Path](), list[str]()
    if plan.recipe.freeze:
        freeze(build_network(registry, plan, data), plan.recipe.freeze)  # it checks the patterns
    if parent is not None:
        more, notes = first_files(registry, request, plan, data, parent)
    choice = None
    if plan.recipe.precision == "auto":
        network = build_network(registry, plan, data).to(group.device)
        loss = TrainingLoss(data.setup, network, data.augmentations)
        choice = choose_precision(loss, data.corpus, plan.recipe)
        plan = replace(plan, recipe=plan.recipe.model_copy(update={"precision": choice.precision}))
        data = data.following(plan)
    plan = moved(plan, request.copies, folder.path)
    more |= {file.name: file for file in request.copies}
    description = plan.describe() | data.fingerprints() | {"packages": packages(registry)}
    folder.create(description, plan.to_toml(), *tokenizers, more, registry)
    return plan, data, choice, notes


def _make_trainer(
    registry: Registry, plan: Plan, data: TrainingData, folder: RunFolder, group: ProcessGroup
) -> tuple[Trainer, list[str]]:
    """Return the trainer of a run, with its callbacks, and notes for the user."""
    network = build_network(registry, plan, data, group.rank)
    notes = table_notes(network, plan, data)
    load_first_weights(folder.path, network)
    freeze(network, plan.recipe.freeze)
    trainer = Trainer(network, data, plan, folder, group)
    if not group.is_first:
        return trainer, trainer.notes
    trainer.callbacks, failed = load_callbacks(registry)
    return trainer, notes + failed + trainer.notes
