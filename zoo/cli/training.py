"""`zoo train`."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from zoo.cli.output import json_option, messages, names, person_watches, print_json, say
from zoo.errors import TrainingError, ZooError

if TYPE_CHECKING:
    from zoo.registry.events import Event, Validation
    from zoo.training import Prepared, Trainer

WIDTH = 100
"""Most signs of a sample's text that are shown."""


@click.command()
@click.argument("model", required=False)
@click.option("--data", help="A dataset's name, or files: PREFIX:en-de, FILE.tsv, FILE.jsonl.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Checkpoint folder.")
@click.option("--limit", type=click.IntRange(1), help="Read only the first N pairs of each file.")
@click.option("--validation", help="Other data to validate on.")
@click.option("--recipe", metavar="NAME|FILE.toml",
              help="A recipe of the catalogue or a file, over model and data's own.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="A value of the model's config or of the recipe; may be repeated.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), help="Stop after N updates.")
@click.option("--epochs", type=click.IntRange(1), help="Stop after N passes over the data.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop after M minutes.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of weights, order and dropout."
)
@click.option("--precision", type=click.Choice(["float32", "bf16", "auto"]),
              help="What products are computed in; auto measures once.")  # fmt: skip
@click.option("--compile/--no-compile", "compile_", default=None,
              help="Have torch.compile make kernels (needs a C++ compiler).")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the run of --out.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
@click.option("--shard", is_flag=True, help="Part the weights among torchrun's processes.")
@json_option
def train(
    model: str | None,
    data: str | None,
    out: Path,
    settings: tuple[str, ...],
    as_json: bool,
    resume: bool,
    precision: str | None,
    compile_: bool | None,
    **options: Any,
) -> None:
    """Train MODEL on parallel text, into a checkpoint folder.

    The run lives in OUT.run; OUT appears at its end. --steps, --epochs and --minutes are totals,
    and replace what the recipe says of stopping.
    """
    own = {key: options[key] for key in ("limit", "validation", "recipe", "seed")}
    speed = {"precision": precision, "compile": compile_}
    own.update(speed)
    if resume:
        given = [f"--{key}" for key, value in own.items() if value is not None]
        given += ["MODEL"] * bool(model) + ["--data"] * bool(data) + ["--set"] * bool(settings)
        if given:
            raise click.UsageError(f"--resume goes on as before: leave out {', '.join(given)}")
    elif model is None or data is None:
        raise click.UsageError("name a MODEL and its --data, or say --resume")
    found = names()
    from zoo.registry.config import parse_settings
    from zoo.training import prepare

    chosen = {f"recipe.{key}": value for key, value in speed.items() if value is not None}
    with _one_voice():
        with _status("Reading data"):
            ready = prepare(
                model,
                data,
                out,
                settings={**parse_settings(settings), **chosen},
                resume=resume,
                registry=found,
                **options,
            )
        with ready:
            _train(ready, as_json)


@contextlib.contextmanager
def _one_voice() -> Iterator[None]:
    """Of several processes that fail alike, let one tell it."""
    try:
        yield
    except ZooError as error:
        from zoo.training.failures import LostProcessError, RunAwayError

        first = os.environ.get("RANK", "0") == "0"
        own = isinstance(error, TrainingError) and not isinstance(error, RunAwayError)
        silent = isinstance(error, LostProcessError) and error.quiet
        if silent or not (first or own):
            sys.exit(1)
        raise


def _train(ready: Prepared, as_json: bool) -> None:
    """Train and write the checkpoint; of several processes, the first tells of it."""
    out, first = ready.run.out, ready.group.first
    if first and not as_json:
        _introduce(ready)
    stopped_by = _run(ready, as_json)
    if stopped_by is not None:
        if first:
            ready.draw()
            say(f"Stopped; go on with: zoo train --resume --out {out}")
        sys.exit(128 + stopped_by)
    ready.finish()
    trainer = ready.trainer
    if as_json and first:
        print_json({"checkpoint": str(out), "step": trainer.step}, lines=True)
    elif first:
        minutes = trainer.progress.seconds / 60
        say(f"{out}: {trainer.step:,} updates in {minutes:.1f} minutes")


@contextlib.contextmanager
def _status(text: str) -> Iterator[None]:
    if person_watches():
        with messages().status(text):
            yield
    else:
        yield


def _introduce(ready: Prepared) -> None:
    trainer = ready.trainer
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    sizes = f"{ready.source_tokenizer.size:,} and {ready.target_tokenizer.size:,} tokens"
    say(f"{ready.plan.model}: {parameters:,} parameters, vocabularies of {sizes}")
    left = trainer.corpus.left_out
    out = [f"{left.long:,} too long"] * bool(left.long) + [f"{left.empty:,} empty"] * bool(
        left.empty
    )
    without = f", left out {' and '.join(out)}" if out else ""
    padding = f"{100 * ready.padding:.1f}% of the batches is padding"
    say(f"{ready.dataset.name}: {len(trainer.corpus):,} pairs{without}; {padding}")
    if ready.choice is not None:
        say(str(ready.choice))
    if not len(trainer.held_out):
        say("No validation split: nothing is held out to validate on")
    if ready.group.size > 1:
        kind = "each with its share of the weights" if ready.group.sharded else "data in parallel"
        say(f"{ready.group.size} processes, {kind}")
    for note in ready.notes:
        say(f"{note[:1].upper()}{note[1:]}")
    if trainer.step:
        say(f"Resuming after update {trainer.step:,}")


def _run(ready: Prepared, as_json: bool) -> int | None:
    """Train and show it; return the signal that stopped it, if one did."""
    from zoo.training import Stopped
    from zoo.training.failures import LostProcessError

    with _graceful(ready.trainer) as caught, _display(ready, as_json) as show:
        try:
            for event in ready.trainer.events():
                show(event)
                if isinstance(event, Stopped):
                    return caught[0] if caught else signal.SIGTERM
        except LostProcessError as error:
            # At once, while SIGTERM is caught: torchrun ends what is left of a run with it.
            if not error.quiet:
                click.echo(f"Error: {error}", err=True)
            error.quiet = True
            raise
    return None


@contextlib.contextmanager
def _graceful(trainer: Trainer) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM save the state first; a second one interrupts at once."""
    caught: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)
        trainer.stop = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _display(ready: Prepared, as_json: bool) -> Iterator[Any]:
    """Give a function that shows an event: a progress bar to a person, lines to anything else."""
    if not ready.group.first:
        yield lambda event: None
    elif as_json:
        yield lambda event: print_json(asdict(event), lines=True)
    elif person_watches():
        with _bar() as show:
            yield show
    else:
        yield _lines(validates=len(ready.trainer.held_out) > 0)


def _scores(validation: Validation) -> str:
    """Return what a validation found, in a few words."""
    bleu = "" if validation.bleu is None else f"  BLEU {validation.bleu:.1f}"
    return f"  validation {validation.validation_loss:.3f}{bleu}"


def _sample(validation: Validation, turn: int) -> Iterator[str]:
    """Yield lines that show a translation: another one at each validation."""
    if validation.samples:
        sample = validation.samples[turn % len(validation.samples)]
        for name in ("source", "reference", "translation"):
            text = getattr(sample, name)
            yield f"{name:>12}: {text if len(text) <= WIDTH else text[:WIDTH] + '…'}"


def _lines(validates: bool) -> Any:
    """Return a function that prints a line now and then, and at each validation."""
    from zoo.registry.events import Note, Report, Validation

    last_shown = time.monotonic()
    report: Report | None = None
    turns = itertools.count()

    def show(event: Event) -> None:
        nonlocal last_shown, report
        if isinstance(event, Note):
            say(event.text)
            return
        if isinstance(event, Report):
            report = event
            over = event.done >= 1 and not validates  # else the validation's line comes at once
            if time.monotonic() - last_shown < 20 and not over:
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
            for text in _sample(event, next(turns)):
                say(text)

    return show


@contextlib.contextmanager
def _bar() -> Iterator[Any]:
    from rich.progress import BarColumn, Progress, TextColumn

    from zoo.registry.events import Note, Report, Validation

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=messages()) as bar:
        task = bar.add_task("starting", total=1.0)
        validation = ""
        turns = itertools.count()

        def show(event: Event) -> None:
            nonlocal validation
            if isinstance(event, Note):
                say(event.text)
            elif isinstance(event, Validation):
                validation = _scores(event)
                say(f"update {event.step:,}{validation}")
                for text in _sample(event, next(turns)):
                    say(text)
            elif isinstance(event, Report):
                left = timedelta(minutes=event.minutes * (1 / max(event.done, 1e-6) - 1))
                text = f"epoch {event.epoch}  loss {event.loss:.3f}{validation}"
                speed = f"  {event.tokens_per_second:,.0f} tokens/s"
                left_text = f"  {str(left).partition('.')[0]} left"
                bar.update(task, completed=event.done, description=text + speed + left_text)

        yield show
