"""How `zoo train` shows a run: a progress bar in a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from zoo.cli.output import messages, print_json, say, shows_progress
from zoo.registry.events import Event, Note, Report, Validation

if TYPE_CHECKING:
    from zoo.training.session import Session

WIDTH = 100
"""The most characters of a sample that are shown."""
LINE_EVERY = 20
"""Seconds between lines."""

Show = Callable[[Event], None]


def introduce(session: Session) -> None:
    """Print what is trained, on what data and how."""
    trainer = session.trainer
    plan, data, group = trainer.plan, trainer.data, trainer.group
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    source, target = data.source_tokenizer.size, data.target_tokenizer.size
    say(f"{plan.model}: {parameters:,} parameters, vocabularies of {source:,} (source) and "
        f"{target:,} (target) tokens")  # fmt: skip
    left = data.corpus.left_out
    skipped = [f"{left.long:,} too long"] * bool(left.long)
    skipped += [f"{left.empty:,} empty"] * bool(left.empty)
    without = f" ({' and '.join(skipped)} skipped)" if skipped else ""
    padding = f"{100 * trainer.corpus.padding(trainer.batches):.1f}% padding"
    say(f"{data.dataset.name}: {len(data.corpus):,} training pairs{without}, {padding}")
    if session.precision is not None:
        say(str(session.precision))
    if not len(data.validation):
        say("No validation split: the run is not validated")
    if group.size > 1:
        kind = "weights sharded" if group.sharded else "data parallel"
        say(f"{group.size} processes, {kind}")
    for note in session.notes:
        say(f"{note[:1].upper()}{note[1:]}")
    if trainer.state.step:
        say(f"Resuming after update {trainer.state.step:,}")


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """Show a spinner in a terminal until the block ends."""
    if shows_progress():
        with messages().status(text):
            yield
    else:
        yield


@contextlib.contextmanager
def display(session: Session, as_json: bool) -> Iterator[Show]:
    """Give a function that shows an event. Only the first process shows anything."""
    if not session.trainer.group.is_first:
        yield lambda event: None
    elif as_json:
        yield lambda event: print_json(asdict(event), lines=True)
    elif shows_progress():
        with _progress_bar() as show:
            yield show
    else:
        yield _lines(validates=len(session.trainer.data.validation) > 0)


def _scores(validation: Validation) -> str:
    """Return the scores of a validation in a few words."""
    bleu = "" if validation.bleu is None else f"  BLEU {validation.bleu:.1f}"
    return f"  validation {validation.validation_loss:.3f}{bleu}"


def _sample(validation: Validation, number: int) -> Iterator[str]:
    """Yield lines that show a sample translation: another one at each validation."""
    if validation.samples:
        sample = validation.samples[number % len(validation.samples)]
        for name in ("source", "reference", "translation"):
            text = getattr(sample, name)
            yield f"{name:>12}: {text if len(text) <= WIDTH else text[:WIDTH] + '…'}"


def _lines(validates: bool) -> Show:
    """Return a function that prints a line every few seconds, and at each validation."""
    last_shown = time.monotonic()
    report: Report | None = None
    numbers = itertools.count()

    def show(event: Event) -> None:
        nonlocal last_shown, report
        if isinstance(event, Note):
            say(event.text)
            return
        if isinstance(event, Report):
            report = event
            over = event.done >= 1 and not validates  # else the validation's line follows at once
            if time.monotonic() - last_shown < LINE_EVERY and not over:
                return
        if report is None:
            return
        last_shown = time.monotonic()
        line = f"{100 * report.done:3.0f}%  update {report.step:,}  epoch {report.epoch}"
        line += f"  loss {report.loss:.3f}  {report.tokens_per_second:,.0f} tokens/s"
        if isinstance(event, Validation):
            line += _scores(event)
        click.echo(line, err=True)
        if isinstance(event, Validation):
            for text in _sample(event, next(numbers)):
                say(text)

    return show


@contextlib.contextmanager
def _progress_bar() -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=messages()) as bar:
        task = bar.add_task("starting", total=1.0)
        validation = ""
        numbers = itertools.count()

        def show(event: Event) -> None:
            nonlocal validation
            if isinstance(event, Note):
                say(event.text)
            elif isinstance(event, Validation):
                validation = _scores(event)
                say(f"update {event.step:,}{validation}")
                for text in _sample(event, next(numbers)):
                    say(text)
            elif isinstance(event, Report):
                left = timedelta(minutes=event.minutes * (1 / max(event.done, 1e-6) - 1))
                text = f"epoch {event.epoch}  loss {event.loss:.3f}{validation}"
                speed = f"  {event.tokens_per_second:,.0f} tokens/s"
                left_text = f"  {str(left).partition('.')[0]} left"
                bar.update(task, completed=event.done, description=text + speed + left_text)

        yield show
