"""How a run is shown: a progress bar in a terminal or a notebook, lines elsewhere.

`zoo train` and `zoo.train(progress=True)` show the same. Everything goes to a console of rich.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import counted
from zoo.registry.events import Event, Note, Report, Validation
from zoo.training.advice import early_warnings
from zoo.training.session import Session
from zoo.training.summary import from_here, says_nothing, summarize

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
"""The most characters of a sample that are shown."""
LINE_EVERY = 20
"""Seconds between lines."""
SAMPLE_EVERY = 60
"""Seconds between samples."""

Show = Callable[[Event], None]


def is_interactive() -> bool:
    """Return whether somebody watches: in a terminal or a notebook."""
    shell = sys.modules.get("IPython")
    kernel = shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
    return kernel or sys.stderr.isatty()


def run_shown(
    session: Session, on_event: Callable[[Event], None] | None, wanted: bool | None
) -> Path:
    """Train to the end, show how it goes on standard error, and return the checkpoint folder.

    `wanted` None shows it only where somebody watches.
    """
    show_it = is_interactive() if wanted is None else wanted
    if not show_it or not session.trainer.group.is_first:
        return session.run(on_event)
    from rich.console import Console

    console = Console(stderr=True, highlight=False, emoji=False)
    for line in introduction(session):
        say(console, line)
    with progress(session, console, is_interactive()) as show:

        def receive(event: Event) -> None:
            show(event)
            if on_event is not None:
                on_event(event)

        folder = session.run(receive)
    for line in summarize(session).lines():
        say(console, line)
    return folder


def say(console: Console, text: str) -> None:
    """Print a message on one line at any width of the terminal."""
    console.print(text, soft_wrap=True, markup=False)


def introduction(session: Session) -> Iterator[str]:
    """Yield what is trained, on what data and how, in lines."""
    trainer = session.trainer
    plan, data, group = trainer.plan, trainer.data, trainer.group
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    source, target = data.source_tokenizer.size, data.target_tokenizer.size
    sizes = f"vocabularies of {source:,} (source) and {target:,} (target) tokens"
    if plan.config.features:
        sizes = f"vectors of {source:,} numbers, a vocabulary of {target:,} tokens"
    yield f"{plan.model}: {parameters:,} parameters, {sizes}"
    skipped = data.corpus.left_out.in_words()
    without = f" ({skipped} skipped)" if skipped else ""
    padding = f"{100 * trainer.corpus.padding(trainer.batches):.1f}% padding"
    pairs = counted(len(data.corpus), "training pair")
    yield f"{from_here(data.dataset.name)}: {pairs}{without}, {padding}"
    for line in session.chosen:
        yield f"auto: {line}"
    if session.precision is not None:
        yield str(session.precision)
    if not len(data.validation):
        yield "No validation split: the run is not validated"
    if group.size > 1:
        kind = "weights sharded" if group.sharded else "data parallel"
        yield f"{group.size} processes, {kind}"
    for note in session.notes:
        yield f"{note[:1].upper()}{note[1:]}"
    for warning in early_warnings(plan, data, len(trainer.batches), trainer.group.device.type):
        yield f"Warning: {warning}"
    if trainer.state.step:
        yield f"Resuming after update {trainer.state.step:,}"


@contextlib.contextmanager
def progress(session: Session, console: Console, bar: bool) -> Iterator[Show]:
    """Yield a function that shows an event, in a progress bar or in lines."""
    if bar:
        with _progress_bar(console) as show:
            yield show
    else:
        yield _lines(console, validates=len(session.trainer.data.validation) > 0)


def _scores(validation: Validation) -> str:
    """Return the scores of a validation in a few words."""
    bleu = "" if validation.bleu is None else f"  BLEU {validation.bleu:.1f}"
    if says_nothing(validation.bleu, validation.exact_match):
        own = validation.scores.get("exact_match")
        bleu = f"  exact match {validation.exact_match:.1f}%" if own is None else ""
    chrf = "" if validation.chrf is None else f"  chrF {validation.chrf:.1f}"
    others = "".join(f"  {name} {score:.1f}" for name, score in validation.scores.items())
    return f"  validation {validation.validation_loss:.3f}{bleu}{chrf}{others}"


class _Samples:
    """Shows sample translations, another one each time, and not too often."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.last = -float(SAMPLE_EVERY)

    def lines(self, validation: Validation, over: bool) -> Iterator[str]:
        """Yield lines that show a sample, if it is time for one or the run is over."""
        now = time.monotonic()
        if not validation.samples or (now - self.last < SAMPLE_EVERY and not over):
            return
        self.last = now
        sample = validation.samples[next(self.numbers) % len(validation.samples)]
        for name in ("source", "reference", "translation"):
            text = getattr(sample, name)
            yield f"{name:>12}: {text if len(text) <= WIDTH else text[:WIDTH] + '…'}"


def _losses(report: Report) -> str:
    """Return the loss, and the parts of it that are the network's own."""
    own = ", ".join(f"{name} {loss:.3f}" for name, loss in report.losses.items())
    return f"{report.loss:.3f} ({own})" if own else f"{report.loss:.3f}"


def _lines(console: Console, validates: bool) -> Show:
    """Return a function that prints a line every few seconds, and at each validation."""
    last_shown = time.monotonic()
    report: Report | None = None
    samples = _Samples()

    def show(event: Event) -> None:
        nonlocal last_shown, report
        if isinstance(event, Note):
            say(console, event.text)
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
        line += f"  loss {_losses(report)}  {report.tokens_per_second:,.0f} tokens/s"
        if isinstance(event, Validation):
            line += _scores(event)
        say(console, line)
        if isinstance(event, Validation):
            for text in samples.lines(event, report.done >= 1):
                say(console, text)

    return show


@contextlib.contextmanager
def _progress_bar(console: Console) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=1.0)
        validation = ""
        done = 0.0
        samples = _Samples()

        def show(event: Event) -> None:
            nonlocal validation, done
            if isinstance(event, Note):
                say(console, event.text)
            elif isinstance(event, Validation):
                validation = _scores(event)
                say(console, f"update {event.step:,}{validation}")
                for text in samples.lines(event, done >= 1):
                    say(console, text)
            elif isinstance(event, Report):
                done = event.done
                left = timedelta(minutes=event.minutes * (1 / max(event.done, 1e-6) - 1))
                text = f"epoch {event.epoch}  loss {_losses(event)}{validation}"
                speed = f"  {event.tokens_per_second:,.0f} tokens/s"
                left_text = f"  {str(left).partition('.')[0]} left"
                bar.update(task, completed=event.done, description=text + speed + left_text)

        yield show
