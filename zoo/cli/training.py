"""`zoo train`."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zoo.cli.completion import complete_checkpoint, complete_data, complete_model
from zoo.cli.kernels import note_outdated_kernels
from zoo.cli.options import (
    Number,
    check_contradictions,
    device_option,
    json_option,
    limit_option,
    recipe_option,
    settings_option,
    training_precision_option,
)
from zoo.cli.output import loaded_registry, print_json, say
from zoo.cli.settings import checkpoint_of
from zoo.errors import TrainingError, ZooError

if TYPE_CHECKING:
    from zoo.training.session import Session
    from zoo.training.trainer import Trainer

SECONDS_BETWEEN_RETURNS = 30.0
"""How often freed memory is given back: it takes some hundredths of a second."""


@click.command()
@click.argument("model", required=False, shell_complete=complete_model)
@click.option("--data", shell_complete=complete_data,
              help="A dataset's name, or files: PREFIX:en-de, FILE.tsv, .csv, .jsonl.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Checkpoint folder.")
@click.option("--from", "from_", metavar="CHECKPOINT", shell_complete=complete_checkpoint,
              help="Tune this checkpoint.")  # fmt: skip
@click.option(
    "--new-vocabulary",
    type=click.Choice(["source", "target", "both"]),
    help="With --from: learn these tokenizers again; common tokens keep their rows.",
)
@click.option(
    "--extend-vocabulary",
    type=click.Choice(["source", "target", "both"]),
    help="With --from: add the frequent tokens of the data that these vocabularies lack.",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PATTERN",
    help="Do not train weights of these names, such as 'encoder.*'; repeatable.",
)
@click.option(
    "--also-score",
    multiple=True,
    metavar="DATA",
    shell_complete=complete_data,
    help="With --from: compare the checkpoints on this data too; repeatable.",
)
@limit_option
@click.option("--validation", shell_complete=complete_data,
              help="Validate on this dataset, or on these files.")  # fmt: skip
@recipe_option
@settings_option
@click.option("--steps", type=click.IntRange(1), help="Stop after N updates.")
@click.option("--epochs", type=click.IntRange(1), help="Stop after N passes over the data.")
@click.option("--minutes", type=Number(0, min_open=True), help="Stop after M minutes.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1),
              help="Seed of the weights, the order of the data and dropout.")  # fmt: skip
@training_precision_option
@click.option("--compile/--no-compile", "compile_", default=None,
              help="Use torch.compile (needs a C++ compiler).")  # fmt: skip
@click.option("--resume", is_flag=True, help="Resume the run of --out.")
@click.option(
    "--dry-run", is_flag=True, help="Show the run and its recipe; train and write nothing."
)
@device_option
@click.option("--shard", is_flag=True, help="Split the weights among torchrun's processes.")
@json_option
def train(
    model: str | None,
    data: str | None,
    out: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
    resume: bool,
    dry_run: bool,
    precision: str | None,
    compile_: bool | None,
    freeze: tuple[str, ...],
    **options: Any,
) -> None:
    """Train MODEL on parallel text, and write a checkpoint folder.

    With --from, no MODEL is needed: the run tunes a checkpoint, with its configuration and its
    tokenizers.

    The run is kept in OUT.run; OUT is written at its end. --steps, --epochs and --minutes are
    totals, and replace those of the recipe. --resume keeps a run's settings; --data and
    --validation name its files again if they were moved. --dry-run prints the complete recipe,
    which --recipe reads.
    """
    speed = {"precision": precision, "compile": compile_}
    _check_arguments(model, data, settings, resume, {**options, **speed, "freeze": freeze})
    if dry_run and resume:
        raise click.UsageError("--dry-run shows a new run: leave out --resume.")
    if out is None and not dry_run:
        raise click.UsageError("Give --out, the checkpoint folder.")
    registry = loaded_registry()
    from zoo.cli.training_display import status
    from zoo.registry.config import parse_settings
    from zoo.training import session as sessions
    from zoo.training.request import TrainingRequest

    with _one_report(), _folder(None if dry_run else out) as out:
        with status("Reading data"):
            if resume or data is None:
                again = {key: {"data": data, **options}[key] for key in WITH_RESUME}
                # Saved defaults are for new runs: this one keeps its end and its data.
                again |= {key: None for key in KEPT if not _is_given(key)}
                session = sessions.resume(out, registry=registry, **again)
            else:
                chosen: dict[str, Any] = {
                    f"recipe.{key}": v for key, v in speed.items() if v is not None
                }
                chosen |= {"recipe.freeze": freeze} if freeze else {}
                values = parse_settings(settings)
                beside = {key: options[key] for key in (*TOTALS, "seed")}
                check_contradictions(values, {**beside, **speed, "freeze": [*freeze] or None})
                values |= chosen
                options["from_"] = options["from_"] and checkpoint_of(options["from_"], registry)
                request = TrainingRequest(model or "", data, out, settings=values, **options)
                session = sessions.begin(request, registry)
        with session:
            note_outdated_kernels()
            if dry_run:
                _show(session, as_json)
            else:
                _train(session, as_json)


@contextlib.contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Give the checkpoint folder; without one, a temporary folder."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "dry-run"


TOTALS = ("steps", "epochs", "minutes")
TUNING = ("new_vocabulary", "extend_vocabulary", "also_score")
"""The options that need `--from`."""
KEPT = (*TOTALS, "data", "validation")
"""What a resumed run keeps, unless the command line says otherwise."""
WITH_RESUME = (*KEPT, "device", "shard")


def _is_given(option: str) -> bool:
    """Return whether an option is on the command line, not a default."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def _check_arguments(
    model: str | None,
    data: str | None,
    settings: tuple[str, ...],
    resume: bool,
    options: dict[str, Any],
) -> None:
    """Make sure that a new run has a model and data, and that a resumed one keeps its settings.

    Raises:
        UsageError: arguments are missing, or --resume does not allow them.
    """
    if not resume:
        if (model is None and options["from_"] is None) or data is None:
            raise click.UsageError("Give a MODEL, or --from, and --data; or --resume.")
        tuning = [f"--{key.replace('_', '-')}" for key in TUNING if options[key]]
        if tuning and options["from_"] is None:
            raise click.UsageError(f"{' and '.join(tuning)} needs --from.")
        return
    given = [
        f"--{key.strip('_').replace('_', '-')}"
        for key in options
        if key not in WITH_RESUME and _is_given(key)
    ]
    given += ["MODEL"] * bool(model) + ["--set"] * bool(settings)
    if given:
        raise click.UsageError(f"--resume keeps the run's settings: leave out {', '.join(given)}")


@contextlib.contextmanager
def _one_report() -> Iterator[None]:
    """Let one of several processes that fail alike report the error."""
    try:
        yield
    except ZooError as error:
        quiet = error.quiet
        if quiet is None:
            first = os.environ.get("RANK", "0") == "0"
            quiet = not (first or isinstance(error, TrainingError))
        if quiet:
            sys.exit(1)
        raise


def _show(session: Session, as_json: bool) -> None:
    """Print what a run would train, on standard error, and its recipe on standard output."""
    from zoo.cli.training_display import introduce

    plan = session.trainer.plan
    if as_json:
        config, recipe = (values.model_dump(mode="json") for values in (plan.config, plan.recipe))
        print_json({"model": plan.model, "config": config, "recipe": recipe})
    else:
        introduce(session)
        click.echo(plan.to_toml(), nl=False)


def _train(session: Session, as_json: bool) -> None:
    """Train and write the checkpoint; the first process prints."""
    from zoo.cli.training_display import introduce
    from zoo.training.summary import from_here, summarize

    trainer = session.trainer
    out, first = trainer.folder.out, trainer.group.is_first
    if first and not as_json:
        introduce(session)
    stopped_by = _run(session, as_json)
    if stopped_by is not None:
        if first:
            session.write_curve()
            say(f"Stopped. Resume with: zoo train --resume --out {shlex.quote(from_here(out))}")
        sys.exit(128 + stopped_by)
    session.finish()
    if as_json and first:
        tuned = {"tuning": session.compared} if session.compared else {}
        print_json({"checkpoint": str(out), "step": trainer.state.step, **tuned}, lines=True)
    elif first:
        for line in summarize(session).lines():
            say(line)


def _run(session: Session, as_json: bool) -> int | None:
    """Train and show the events; return the signal that stopped training, if one did."""
    from zoo.cli.process import return_freed_memory
    from zoo.cli.training_display import display
    from zoo.registry.events import Stopped, Validation

    due = time.monotonic() + SECONDS_BETWEEN_RETURNS
    unread: OSError | SystemExit | None = None
    with _graceful(session.trainer) as caught, display(session, as_json) as show:
        try:
            for event in session.trainer.events():
                try:
                    if unread is None:
                        show(event)
                except (OSError, SystemExit) as error:  # rich raises this one for a closed pipe
                    unread, session.trainer.stop = error, True  # the state is saved first
                if isinstance(event, Validation) or time.monotonic() > due:
                    return_freed_memory()
                    due = time.monotonic() + SECONDS_BETWEEN_RETURNS
                if isinstance(event, Stopped):
                    if unread is not None:
                        raise unread
                    return caught[0] if caught else signal.SIGTERM
        except ZooError as error:
            # At once, while SIGTERM is caught: torchrun ends the other processes with it.
            if error.quiet is False:
                click.echo(f"Error: {error}", err=True)
                error.quiet = True
            raise
    return None


@contextlib.contextmanager
def _graceful(trainer: Trainer) -> Iterator[list[int]]:
    """On Ctrl-C, SIGTERM and SIGHUP, save the state and stop; a second signal interrupts at once.

    A terminal that is closed sends SIGHUP, and its shell does too; `nohup` has it ignored.
    """
    caught: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # absent on Windows
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)

    def handle(number: int, frame: FrameType | None) -> None:
        if caught and number != hangup:
            raise KeyboardInterrupt
        caught.append(number)
        trainer.stop = True

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
