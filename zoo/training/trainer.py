"""The one loop that trains everything. It yields what happens and prints nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from zoo.data.batches import Batches, Corpus, shuffled_batches
from zoo.errors import ConfigError, TrainingError
from zoo.files import replace_file
from zoo.nn.contract import Seq2Seq
from zoo.registry.events import Event, Note, Report, Stopped, Validation
from zoo.registry.recipe import Recipe
from zoo.training import state
from zoo.training.averaging import Released
from zoo.training.callbacks import Callbacks
from zoo.training.failures import describe_batch, explained, run_away, speak_up
from zoo.training.group import Group
from zoo.training.loss import training_loss
from zoo.training.optimizer import make_optimiser
from zoo.training.precision import autocast, compiled
from zoo.training.run import Run
from zoo.training.schedule import learning_rate
from zoo.training.validation import HeldOut, validate

REPORT_EVERY = 10
"""Updates between reports, and so between looks at the loss."""


@dataclass
class Window:
    """The updates since the last look: their losses and gradients' norms, still on the device."""

    began: float
    losses: list[Tensor] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)
    batches: list[list[Tensor]] = field(default_factory=list)
    tokens: int = 0


class Trainer:
    """Trains a model on a corpus by a recipe, and keeps a run folder.

    Args:
        model: the network; it is brought to the group's device.
        corpus: what to train on.
        held_out: what to validate on; may be empty.
        width: the model's, for schedules that scale by it.
        run: where states and metrics go. If it holds a state, training goes on from there.
        group: the processes that train together.
        callbacks: who is told.
        recut: makes the corpus of an epoch by its number, the same pairs in other tokens.
    """

    def __init__(
        self,
        model: Seq2Seq,
        corpus: Corpus,
        held_out: HeldOut,
        recipe: Recipe,
        width: int,
        run: Run,
        group: Group,
        callbacks: Callbacks | None = None,
        recut: Callable[[int], Corpus] | None = None,
    ) -> None:
        if recipe.select != "last" and not len(held_out):
            raise ConfigError(
                f"select = {recipe.select} has nothing to go by",
                "no pairs are held out",
                "Give --validation, or leave out select and patience",
            )
        self.model, self.corpus, self.held_out = model, corpus, held_out
        self.recipe, self.width, self.run, self.group = recipe, width, run, group
        self.callbacks = callbacks or Callbacks([])
        self.recut = recut
        placed = group.place(model)
        self.forward: Callable[..., Any] = (
            compiled(placed, group.device) if recipe.compile else placed
        )
        self.optimiser = make_optimiser(model, recipe)
        self.released = Released(model, recipe, run, group)
        self.stop = False
        """Set it to stop after the current update, with the state saved."""
        self.progress, self.notes = state.load(run, group, model, self.optimiser, self.released)
        self.batches = self._order()

    @property
    def step(self) -> int:
        """How many updates were made."""
        return self.progress.step

    def events(self) -> Iterator[Event]:
        """Train until the recipe says stop, yielding what happens.

        Raises:
            TrainingError: loss or weights are not finite; memory or disk is full; or another
                process has ended.
        """
        yield from self.callbacks.begin(self.step, self.run)
        try:
            for event in self._train():
                yield event
                yield from self.callbacks.tell(event)
        except TrainingError:
            if self.group.size > 1:
                speak_up(self.run.folder)  # the others need not say that this process has ended
            raise
        finally:
            self.model.eval()
            ended = self.callbacks.end(self.step)
        yield from ended

    def _train(self) -> Iterator[Event]:
        recipe, progress = self.recipe, self.progress
        self.model.train()
        self._clock = time.monotonic() - progress.seconds
        window = Window(progress.seconds)
        while self.done() < 1:
            with explained(self.step + 1, recipe, self.group, self.run.folder):
                rate = learning_rate(recipe, self.step + 1, self.width, self.done())
                batches = self.batches[progress.position : progress.position + recipe.accumulate]
                self.update(batches, rate, window)
                ended = self._advance(len(batches))
                every = recipe.validate_every
                validating = self.step % every == 0 if every else ended
                saving = ended or self.step % recipe.save_every == 0
                # A state is saved, and a validation made, only after a look at the loss.
                looking = validating or saving or self.step % REPORT_EVERY == 0
                if not (looking or self.done() >= 1 or (self.stop and self.group.size == 1)):
                    continue
                report, stopping = self._look(window, rate)
                yield report
                over = self.done() >= 1
                if validating or over:
                    yield from self._validate()
                window = Window(self._time())
                if saving or stopping or self.done() >= 1:
                    self._save()
            if stopping and self.done() < 1:
                yield Stopped(self.step)
                return

    # --- an update ------------------------------------------------------------------------------

    def update(self, batches: list[Tensor], rate: float, window: Window) -> None:
        """Make one update by the mean loss per target token of these batches, over all processes.

        Σ_batches Σ_tokens −log p / tokens: however the rows are parted, the sum is the same.
        """
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        tokens = sum(self.corpus.predicted(indices) for indices in batches)
        total = torch.zeros((), device=self.group.device)
        for place, indices in enumerate(batches):
            rows, weight = self.group.share(indices)
            with self.group.accumulating(place == len(batches) - 1):
                batch = self.corpus.batch(rows).to(self.group.device)
                with autocast(self.group.device, self.recipe.precision):
                    loss = training_loss(self.forward, batch, self.recipe)
                mean = loss.total * weight / tokens
                # Processes' gradients are averaged; this makes it their sum.
                (mean * self.group.size).backward()
            total = total + mean.detach()
        if self.recipe.clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
            window.norms.append(self.group.local(norm))
        self.optimiser.step()
        self.released.update(self.step + 1)
        window.losses.append(total)
        window.batches.append(batches)
        window.tokens += tokens

    def _advance(self, batches: int) -> bool:
        """Count an update; return whether it was the last of its epoch."""
        progress = self.progress
        progress.step += 1
        progress.position += batches
        if self.group.size == 1:
            self._time()
        if progress.position < len(self.batches):
            return False
        progress.epoch, progress.position = progress.epoch + 1, 0
        self.batches = self._order()
        return True

    def _look(self, window: Window, rate: float) -> tuple[Report, bool]:
        """Look at what the device has computed; return a report, and whether to stop.

        All processes come here after the same updates, and agree on clock and stop.
        """
        flag = torch.tensor([float(self.stop)], device=self.group.device)
        sums = self.group.sum(torch.cat([torch.stack(window.losses), flag]))
        norms = torch.stack(window.norms) if window.norms else sums[:0]
        *losses, stops = sums.tolist()
        self.progress.seconds = self.group.tell(self._time())
        self._check(window, losses, norms.tolist())
        progress = self.progress
        report = Report(
            progress.step,
            progress.epoch,
            sum(losses) / len(losses),
            rate,
            float(norms[-1]) if len(norms) else None,
            window.tokens / max(progress.seconds - window.began, 1e-9),
            min(self.done(), 1.0),
            progress.seconds / 60,
        )
        self.run.note(asdict(report))
        return report, stops > 0

    def _check(self, window: Window, losses: list[float], norms: list[float]) -> None:
        """Raise if a loss or a gradient was not finite, and keep the batch to look at."""
        for place, batches in enumerate(window.batches):
            norm = norms[place] if norms else 0.0
            if math.isfinite(losses[place]) and math.isfinite(norm):
                continue
            bad = losses[place] if not math.isfinite(losses[place]) else norm
            what = "the loss" if bad is not norm else "the gradient's norm"
            step = self.step - len(losses) + place + 1
            indices = [i for batch in batches for i in batch.tolist()]
            if self.run.writes:
                told = json.dumps({"step": step, what: str(bad), "indices": indices})
                replace_file(self.run.folder / "not-finite.json", told + "\n")
            raise run_away(f"{what} is {bad}", step, describe_batch(batches))

    # --- between updates ------------------------------------------------------------------------

    def _validate(self) -> Iterator[Validation | Note]:
        if not len(self.held_out) and self.recipe.average_last == 1:
            return
        progress = self.progress
        with self.released.in_place(progress.step):
            if not len(self.held_out):
                return
            self.model.eval()
            try:
                result = validate(self.model, self.held_out, self.recipe, self.group)
            finally:
                self.model.train()
        if not math.isfinite(result.loss):
            raise run_away(f"the validation loss is {result.loss}", progress.step)
        best = progress.judge(self.recipe, result.loss, result.bleu)
        if best and self.recipe.select != "last":
            self.released.keep(progress.step)
        minutes = self.group.tell(self._time()) / 60
        validation = Validation(
            progress.step,
            progress.epoch,
            result.loss,
            result.bleu,
            best,
            tuple(result.samples),
            minutes,
        )
        self.run.note(asdict(validation))
        yield validation
        if progress.impatient(self.recipe):
            yield Note(progress.step, f"no better for {progress.worse} validations: stopping early")

    def _save(self) -> None:
        self.progress.seconds = self.group.tell(self._time())
        bad = [(~self.group.local(weight).isfinite()).any() for weight in self.model.parameters()]
        if float(self.group.sum(torch.stack(bad).sum().float())):
            raise run_away("the weights are not finite", self.step)
        state.save(self.run, self.group, self.progress, self.model, self.optimiser, self.released)

    def _order(self) -> Batches:
        recipe, epoch = self.recipe, self.progress.epoch
        if self.recut:
            self.corpus = self.recut(epoch)
        return shuffled_batches(
            self.corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, epoch
        )

    def _time(self) -> float:
        """Look at the clock; return the seconds of training, resumed parts together."""
        seconds = time.monotonic() - self._clock
        if self.group.size == 1:
            self.progress.seconds = seconds
        return seconds

    def done(self) -> float:
        """Return the share of the run that is over, by whichever of its stops is nearest."""
        if self.progress.impatient(self.recipe):
            return 1.0
        return self.progress.share(self.recipe, len(self.batches))
