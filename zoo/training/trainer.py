"""The training loop. It yields what happens and prints nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain

import torch
from torch import Tensor

from zoo.errors import ConfigError
from zoo.files import replace_file
from zoo.nn.contract import Seq2Seq
from zoo.registry.events import Event, Note, Report, Stopped, Validation
from zoo.registry.open_shelf import name_of
from zoo.registry.recipe import Recipe
from zoo.training.advice import of_rising_loss, rising
from zoo.training.averaging import AveragedWeights
from zoo.training.callbacks import Callbacks
from zoo.training.data import TrainingData
from zoo.training.environment import training_environment
from zoo.training.failures import blaming, explain_failures, not_finite, one_report
from zoo.training.objective import TrainingLoss
from zoo.training.optimizer import clip_gradients, make_optimizer
from zoo.training.parts import Parts
from zoo.training.passes import make_passes
from zoo.training.plan import Plan
from zoo.training.process_group import ProcessGroup
from zoo.training.run_folder import RunFolder
from zoo.training.run_view import RunView
from zoo.training.saving import load_state, save_state
from zoo.training.schedule import Progress, make_schedule
from zoo.training.state import TrainingState
from zoo.training.validation import validate
from zoo.training.window import Window

REPORT_EVERY = 10
"""Updates between reports. Between them, the loss is not copied from the device."""

SAVED_APART = 20
"""The fewest updates between states at the ends of epochs: those of few pairs are short."""


class Trainer:
    """Trains a model as a plan says, and writes to a run folder.

    Args:
        model: the network; it is moved to the group's device, or sharded.
        data: what to train on and what to validate on.
        plan: the complete configuration and recipe.
        folder: where states and metrics are written. If it has a state, training continues there.
        group: the processes that train together.
    """

    def __init__(
        self, model: Seq2Seq, data: TrainingData, plan: Plan, folder: RunFolder, group: ProcessGroup
    ) -> None:
        self.model, self.data, self.plan, self.folder, self.group = model, data, plan, folder, group
        recipe, registry = plan.recipe, data.setup.registry
        group.move(model)
        self.loss = TrainingLoss(data.setup, model, data.augmentations, recipe.compile)
        if group.sharded and len(self.loss.objectives):
            raise ConfigError(
                "--shard splits the network's weights alone",
                "an objective has weights of its own",
                "Leave out --shard",
            )
        self.passes = make_passes(self.loss, group, recipe)
        self.schedule = make_schedule(registry, recipe)
        optimizer = make_optimizer(registry, recipe, self.loss.parameters())
        parts = {"schedule": self.schedule.rate, **self.loss.named_parts()}
        self.state = TrainingState(model, optimizer, self.loss.weights(), Parts(parts))
        if recipe.average_decay:
            self.state.average = [weight.detach().clone() for weight in model.parameters()]
        self.averaged = AveragedWeights(self.state, recipe, folder, group)
        self.callbacks = Callbacks()
        self.stop = False
        """Set it to stop after the current update, with the state saved."""
        self.finishing = ""
        """Why a callback ends the run after the next update."""
        self.threads, self.notes = load_state(self.averaged)
        self._saved = self.state.step
        self.corpus, self.batches = data.epoch(recipe, self.state.epoch)

    def events(self) -> Iterator[Event]:
        """Train until the recipe's end, yielding what happens.

        Raises:
            TrainingError: loss or weights are not finite; memory or disk is full; or another
                process has ended.
        """
        state = self.state
        with training_environment(self.threads, self.group.sharded):
            yield from self.callbacks.begin(
                state.step, self.folder.path, self.folder.describe(), self._view
            )
            try:
                with one_report(self.group, self.folder.path):
                    for event in self._train():
                        yield event
                        yield from self.callbacks.notify(event)
            finally:
                self.model.eval()
                ended = self.callbacks.end(state.step)
            yield from ended

    def _train(self) -> Iterator[Event]:
        state, recipe = self.state, self.plan.recipe
        self.model.train()
        self._start = time.monotonic() - state.seconds
        window = Window(state.seconds)
        while self.fraction_done() < 1:
            with explain_failures(state.step + 1, recipe, self.group, self.folder.path):
                rate = self._rate()
                batches = self.batches[state.position : state.position + recipe.accumulate]
                self.update(batches, rate, window)
                epoch_ended = self._advance(len(batches))
                every = recipe.validate_every
                validating = state.step % every == 0 if every else epoch_ended
                saving = state.step % recipe.save_every == 0 or (
                    epoch_ended and state.step - self._saved >= SAVED_APART
                )
                # A state is saved, and a validation made, only after the loss was checked.
                reporting = validating or saving or state.step % REPORT_EVERY == 0
                stopping_now = (self.stop or self.finishing) and self.group.size == 1
                if not (reporting or self.fraction_done() >= 1 or stopping_now):
                    continue
                report, stopping = self._report(window, rate)
                yield report
                if state.finished and self.finishing:
                    yield Note(state.step, self.finishing)
                over = self.fraction_done() >= 1
                if validating or over:
                    yield from self._validate()
                window = Window(self._seconds())
                if saving or stopping or self.fraction_done() >= 1:
                    self._save()
            if stopping and self.fraction_done() < 1:
                yield Stopped(state.step)
                return

    def fraction_done(self, recipe: Recipe | None = None) -> float:
        """Return the fraction of the run, or of one with another recipe, that is over."""
        recipe, state = recipe or self.plan.recipe, self.state
        if state.finished or (state.out_of_patience(recipe) and not recipe.cooldown):
            return 1.0
        planned = state.fraction_done(recipe, len(self.batches))
        return planned if planned >= 1 else planned + (1 - planned) * state.cooldown(recipe)

    def _view(self, name: str) -> RunView:
        """Return the run as the callback of this name sees it."""

        def finish(reason: str) -> None:
            self.finishing = self.finishing or f"{name} ends the run: {reason}"

        return RunView(self.state, self.group, finish)

    def check_totals(self, before: Recipe) -> None:
        """Make sure that new totals are beyond what was done; they undo an early stop.

        A run that was not over by its recipe `before` goes on as it was.

        Raises:
            ConfigError: the run has passed them.
        """
        state, over = self.state, self.fraction_done(before) >= 1
        if over:
            state.not_improved = state.cooldown_start = state.finished = 0
        if self.fraction_done() > 1:
            raise ConfigError(
                "the run is past that already",
                f"it has made {state.step:,} updates in {state.epoch} epochs and "
                f"{state.seconds / 60:.1f} minutes",
                "--steps, --epochs and --minutes are totals",
            )
        if over:  # also if this process is killed before the next state
            save_state(self.averaged)

    def _rate(self) -> float:
        """Return the rate of the next update: the schedule's, which a cooldown decays to zero."""
        recipe, state = self.plan.recipe, self.state
        planned = state.fraction_done(recipe, len(self.batches))
        width = self.plan.config.width
        rate = self.schedule(
            Progress(state.step + 1, planned, width, state.epoch, state.not_improved)
        )
        return rate * max(1 - state.cooldown(recipe), 0.0)

    # --- an update ------------------------------------------------------------------------------

    def update(self, batches: list[Tensor], rate: float, window: Window) -> None:
        """Make one update by the mean loss per target token of these batches, over all processes.

        Σ_batches Σ_tokens −log p / tokens: the sum does not depend on how rows are distributed.
        """
        optimizer, recipe = self.state.optimizer, self.plan.recipe
        for group in optimizer.param_groups:
            group["lr"] = rate
        self.passes.clear()
        tokens = sum(self.corpus.predicted(indices) for indices in batches)
        total = torch.zeros((), dtype=torch.float32, device=self.group.device)
        for number, indices in enumerate(batches):
            rows, weight = self.group.local_rows(indices)
            with self.group.accumulating(number == len(batches) - 1):
                batch = self.corpus.batch(rows).to(self.group.device)
                # The processes' gradients are averaged; their number turns that into the sum.
                mean, own = self.passes(batch, tokens, weight, self.group.size)
            total = total + mean
            window.add_own(own, weight / tokens)
        if recipe.clip is not None:
            norm = clip_gradients(self.loss.parameters(), recipe.clip)
            window.norms.append(self.group.to_local(norm))
        with blaming(self.data.setup.registry.optimizers, name_of(recipe.optimizer)):
            optimizer.step()
        if recipe.average_decay:
            self.state.update_average(recipe.average_decay)
        window.losses.append(total)
        window.batches.append(batches)
        window.tokens += tokens

    def _advance(self, batches: int) -> bool:
        """Count an update; return whether it was the last of its epoch."""
        state, recipe = self.state, self.plan.recipe
        state.step += 1
        state.position += batches
        if self.group.size == 1:
            self._seconds()
        if state.position < len(self.batches):
            return False
        state.epoch, state.position = state.epoch + 1, 0
        self.corpus, self.batches = self.data.epoch(recipe, state.epoch)
        return True

    # --- between updates ------------------------------------------------------------------------

    def _report(self, window: Window, rate: float) -> tuple[Report, bool]:
        """Copy losses from the device and check them; return a report, and whether to stop.

        All processes call this after the same updates, and agree on the time and on whether to
        stop.
        """
        flags = [float(self.stop), float(bool(self.finishing))]
        flag = torch.tensor(flags, dtype=torch.float32, device=self.group.device)
        parts = window.parts()
        values = torch.stack([*window.losses, *chain.from_iterable(parts.values())])
        sums = self.group.all_reduce(torch.cat([values, flag]))
        norms = torch.stack(window.norms) if window.norms else sums[:0]
        *reduced, stops, finishes = sums.tolist()
        count, state = len(window.losses), self.state
        losses, *of_parts = (reduced[i : i + count] for i in range(0, len(reduced), count))
        own = dict(zip(parts, of_parts, strict=True))
        state.finished = int(finishes > 0)
        state.seconds = self.group.broadcast(self._seconds())
        self._check_finite(window, losses, norms.tolist(), own)
        report = Report(
            state.step,
            state.epoch,
            sum(losses) / len(losses),
            rate,
            float(norms[-1]) if len(norms) else None,
            window.tokens / max(state.seconds - window.began, 1e-9),
            min(self.fraction_done(), 1.0),
            state.seconds / 60,
            {name: sum(part) / count for name, part in own.items()},
        )
        self.folder.add_metrics(asdict(report))
        return report, stops > 0

    def _check_finite(
        self, window: Window, losses: list[float], norms: list[float], own: dict[str, list[float]]
    ) -> None:
        """Raise if a loss or a gradient norm is not finite, and write down which pairs it is of."""
        for number, batches in enumerate(window.batches):
            loss, norm = losses[number], norms[number] if norms else 0.0
            if math.isfinite(loss) and math.isfinite(norm):
                continue
            name, value = ("the gradient norm", norm) if math.isfinite(loss) else ("the loss", loss)
            step = self.state.step - len(losses) + number + 1
            indices = [i for batch in batches for i in batch.tolist()]
            file = self.folder.path / "not-finite.json"
            if self.group.is_first:
                pairs = self.data.texts(indices)
                record = {"step": step, name: str(value), "indices": indices, "pairs": pairs}
                replace_file(file, json.dumps(record, ensure_ascii=False) + "\n")
            bad = [part for part, values in own.items() if not math.isfinite(values[number])]
            where = [*map(self.loss.describe_part, bad), f"its {len(indices)} pairs are in {file}"]
            what, pairs_in = f"{name} is {value}", "; ".join(where)
            raise not_finite(what, step, self.plan.recipe, self.folder, pairs_in)

    def _validate(self) -> Iterator[Validation | Note]:
        state, recipe, validation = self.state, self.plan.recipe, self.data.validation
        if not len(validation) and recipe.average_last == 1:
            return
        with self.averaged.swapped_in():
            if not len(validation):
                return
            self.model.eval()
            try:
                result = validate(self.model, validation, recipe, self.group)
            finally:
                self.model.train()
        if not math.isfinite(result.loss):
            what = f"the validation loss is {result.loss}"
            raise not_finite(what, state.step, recipe, self.folder)
        by_loss = recipe.select not in result.scores
        value = result.loss if by_loss else result.scores[recipe.select]
        best = state.record_validation(recipe, value, by_loss or validation.lower_is_better)
        if best and recipe.select != "last":
            self.averaged.keep()
        minutes = self.group.broadcast(self._seconds()) / 60
        event = Validation(
            state.step,
            state.epoch,
            result.loss,
            result.scores.get("bleu"),
            best,
            tuple(result.samples),
            minutes,
            result.scores.get("chrf"),
            {name: s for name, s in result.scores.items() if name not in ("bleu", "chrf")},
            result.exact,
        )
        self.folder.add_metrics(asdict(event))
        yield event
        losses = [r["validation_loss"] for r in self.folder.metrics() if "validation_loss" in r]
        if recipe.select == "last" and rising(losses):
            yield Note(state.step, of_rising_loss(losses, self.data))
        count = state.not_improved
        over = self.fraction_done() >= 1
        if state.begin_cooldown(recipe):
            text = f"no improvement in {count} validations: the learning rate decays to zero"
            if not over:
                yield Note(state.step, text)
        elif state.out_of_patience(recipe) and not recipe.cooldown:
            yield Note(state.step, f"no improvement in {count} validations: stopping early")

    def _save(self) -> None:
        self.state.seconds = self.group.broadcast(self._seconds())
        bad = [
            (~self.group.to_local(weight).isfinite()).any() for weight in self.model.parameters()
        ]
        if float(self.group.all_reduce(torch.stack(bad).sum().float())):
            what = "the weights are not finite"
            raise not_finite(what, self.state.step, self.plan.recipe, self.folder)
        save_state(self.averaged)
        self._saved = self.state.step

    def _seconds(self) -> float:
        """Return the seconds of training so far, those before a resume included."""
        seconds = time.monotonic() - self._start
        if self.group.size == 1:
            self.state.seconds = seconds
        return seconds
