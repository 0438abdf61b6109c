"""The one loop that trains everything. It yields what happens and prints nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from zoo.data import Batch, Corpus, evaluation_batches, shuffled_batches
from zoo.errors import TrainingError
from zoo.model import Seq2Seq
from zoo.recipe import Recipe
from zoo.training.loss import teacher_forcing
from zoo.training.run import COUNTERS, Run
from zoo.training.schedule import learning_rate

REPORT_EVERY = 10
"""Updates between reports, and so between looks at the loss."""


@dataclass(frozen=True)
class Report:
    """How training goes: loss per target token, and target tokens a second.

    `done` is the share of the run that is over.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    done: float
    minutes: float


@dataclass(frozen=True)
class Validation:
    """The loss per target token of the validation split, in nats, without label smoothing."""

    step: int
    epoch: int
    validation_loss: float
    minutes: float


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop; it can be resumed."""

    step: int


Event = Report | Validation | Stopped


class Trainer:
    """Trains a model on a corpus by a recipe, and keeps a run folder.

    Args:
        model: on the device to train on.
        corpus: what to train on.
        validation: what to validate on; may be empty.
        width: the model's, for schedules that scale by it.
        run: where states and metrics go. If it holds a state, training goes on from there.
    """

    def __init__(
        self,
        model: Seq2Seq,
        corpus: Corpus,
        validation: Corpus,
        recipe: Recipe,
        width: int,
        run: Run,
    ) -> None:
        self.model, self.corpus, self.validation = model, corpus, validation
        self.recipe, self.width, self.run = recipe, width, run
        self.device = next(model.parameters()).device
        self.optimiser = torch.optim.Adam(
            model.parameters(),
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            eps=recipe.epsilon,
            fused=True,
        )
        self.stop = False
        """Set it to stop after the current update, with the state saved."""
        counters, self.damaged = run.load_state(model, self.optimiser)
        self.step, self.epoch = counters.get("step", 0), counters.get("epoch", 0)
        self.position, self.seconds = counters.get("position", 0), counters.get("seconds", 0.0)
        self._batches = self._order()

    def events(self) -> Iterator[Event]:
        """Train until the recipe says stop, yielding what happens."""
        recipe = self.recipe
        self.model.train()
        self._clock = time.monotonic() - self.seconds
        total, tokens, last = torch.zeros((), device=self.device), 0, (self._time(), self.step)
        validated = saved = self.step  # nothing to do at the end of a run that was over before
        while self.done() < 1:
            indices = self._batches[self.position]
            rate = learning_rate(recipe, self.step + 1, self.width, self.done())
            loss = self._update(self.corpus.batch(indices).to(self.device), rate)
            self.step += 1
            self.position += 1
            self._time()
            # The begin token is given, not predicted.
            tokens += int(self.corpus.target.lengths[indices].sum()) - len(indices)
            total = total + loss
            ended = self.position == len(self._batches)
            if ended:
                self.epoch, self.position = self.epoch + 1, 0
                self._batches = self._order()
            every = recipe.validate_every
            validating = self.step % every == 0 if every else ended
            stopping = self.stop  # read once: a signal may set it at any time
            saving = stopping or self.step % recipe.save_every == 0
            # A state is saved, and a validation made, only after a look at the loss.
            if validating or saving or self.step % REPORT_EVERY == 0 or self.done() >= 1:
                now = self._time()
                speed = tokens / max(now - last[0], 1e-9)
                yield self._report(float(total) / (self.step - last[1]), rate, speed)
                total, tokens, last = torch.zeros_like(total), 0, (self._time(), self.step)
            if validating:
                yield from self._validate()
                validated = self.step
                last = (self._time(), last[1])
            if saving:
                self._save()
                saved = self.step
            if stopping:
                yield Stopped(self.step)
                return
        if self.step and self.step != validated:
            yield from self._validate()
        if self.step != saved:
            self._save()
        self.model.eval()

    def _update(self, batch: Batch, rate: float) -> torch.Tensor:
        """Make one update; return the loss per target token."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        loss = teacher_forcing(self.model, batch, self.recipe.label_smoothing)
        mean = loss.total / loss.tokens
        mean.backward()
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        return mean.detach()

    def _report(self, loss: float, rate: float, speed: float) -> Report:
        if not math.isfinite(loss):
            raise self._run_away(f"the loss is {loss}")
        minutes = self._time() / 60
        report = Report(self.step, self.epoch, loss, rate, speed, min(self.done(), 1.0), minutes)
        self.run.note(asdict(report))
        return report

    def _run_away(self, what: str) -> TrainingError:
        return TrainingError(
            f"{what} at update {self.step}",
            "the weights have run away; the last saved state is untouched",
            "Try a lower --set learning_rate, a longer --set warmup, or a smaller --set clip",
        )

    def _validate(self) -> Iterator[Validation]:
        if not len(self.validation):
            return
        self.model.eval()
        total = tokens = 0.0
        with torch.inference_mode():
            for batch in evaluation_batches(self.validation, self.recipe.batch_tokens):
                loss = teacher_forcing(self.model, batch.to(self.device))
                total += float(loss.total)
                tokens += float(loss.tokens)
        self.model.train()
        validation = Validation(self.step, self.epoch, total / tokens, self._time() / 60)
        self.run.note(asdict(validation))
        yield validation

    def _order(self) -> list[torch.Tensor]:
        recipe = self.recipe
        return shuffled_batches(
            self.corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, self.epoch
        )

    def _time(self) -> float:
        """Look at the clock; return the seconds of training, resumed parts together."""
        self.seconds = time.monotonic() - self._clock
        return self.seconds

    def done(self) -> float:
        """Return the share of the run that is over, by whichever of its stops is nearest."""
        recipe = self.recipe
        shares = [0.0]
        if recipe.steps:
            shares.append(self.step / recipe.steps)
        if recipe.epochs:
            shares.append((self.epoch + self.position / len(self._batches)) / recipe.epochs)
        if recipe.minutes:
            shares.append(self.seconds / 60 / recipe.minutes)
        return max(shares)

    def _save(self) -> None:
        self._time()
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise self._run_away("the weights are not finite")
        counters: dict[str, Any] = {name: getattr(self, name) for name in COUNTERS}
        self.run.save_state(self.model, self.optimiser, counters)
