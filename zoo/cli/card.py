"""`zoo card`: show and write cards. Nothing here imports torch."""

from __future__ import annotations

import json
import os
import shlex
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from zoo.cli.completion import complete_any
from zoo.cli.fetching import located
from zoo.cli.options import NewPath
from zoo.cli.output import console, loaded_registry, say
from zoo.cli.settings import checkpoint_of
from zoo.errors import CheckpointError
from zoo.files import locked, replace_file
from zoo.registry.address import Address
from zoo.registry.catalogue import Model
from zoo.registry.registry import Registry


@click.command()
@click.argument("name", required=False, shell_complete=complete_any)
@click.option("--all", "every", is_flag=True, help="Write the cards of all models to --out.")
@click.option("--out", type=NewPath(file_okay=False), help="The folder to write to.")
@click.option(
    "--write", is_flag=True, help="Generate a checkpoint's card again; your text is kept."
)
@click.option("--scores", type=click.File("rb"), metavar="FILE",
              help="With --write: add the output of `zoo eval --json`; - reads it.")  # fmt: skip
@click.option("--benchmark", metavar="OWNER/DATASET[:TASK]",
              help="With --scores: the benchmark on the Hub to which they belong.")  # fmt: skip
@click.option("--about", "changes", multiple=True, metavar="KEY=VALUE",
              help="With --write: set a value of the checkpoint's description, such as "
              "decoding.beam=5 or terms=…; may be repeated.")  # fmt: skip
def card(
    name: str | None,
    every: bool,
    out: Path | None,
    write: bool,
    changes: tuple[str, ...],
    scores: Any,
    benchmark: str | None,
) -> None:
    """Show the card of a model or checkpoint, or write it.

    --write generates the card of a checkpoint folder again: configuration, data, recipe, training
    curve, scores and parameters. Your own sections and metadata, such as the license, are kept.
    """
    registry = loaded_registry()
    if (scores is not None and not write) or (benchmark is not None and scores is None):
        raise click.UsageError("--scores needs --write, and --benchmark needs --scores")
    if changes and not write:
        raise click.UsageError("--about needs --write")
    if write and (every or out is not None):
        raise click.UsageError("--write changes a checkpoint folder: leave out --all and --out")
    if every and name is not None:
        raise click.UsageError("name a model or a checkpoint, or use --all, not both")
    if every:
        _write_model_cards(registry, out)
        return
    if name is None:
        raise click.UsageError("name a model or a checkpoint, or use --all")
    meant = checkpoint_of(name, registry)
    if write:
        folder = _own_folder(registry, meant)
        records = None if scores is None else _read_records(scores)
        _change_about(registry, folder, changes)
        _write_card(registry, folder, records, benchmark)
        return
    text = _card_text(registry, name)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        last = os.path.basename(os.path.abspath(name))  # also of . and ..
        replace_file(out / f"{last}.md", text)
    elif console().is_terminal:
        _show("".join(c for c in _without_metadata(text) if c in "\n\t" or not _is_control(c)))
    else:
        click.echo(text, nl=False)


def _show(text: str) -> None:
    """Print Markdown in a terminal: formulas readable, and in a pager if it is long."""
    from rich.markdown import Markdown

    from zoo.cli.maths import readable

    out = console()
    with out.capture() as captured:
        out.print(Markdown(readable(text)))
    if captured.get().count("\n") < out.height:
        click.echo(captured.get(), nl=False, color=True)
    else:
        click.echo_via_pager(captured.get())  # asks `less` for colors


def _model_card(registry: Registry, model: Model) -> str:
    from zoo.checkpoint.model_card import model_card

    return model_card(model, registry.architecture(model.architecture), registry.config(model.name))


def _write_model_cards(registry: Registry, out: Path | None) -> None:
    if out is None:
        raise click.UsageError("--all needs --out")
    out.mkdir(parents=True, exist_ok=True)
    for model in registry.models.values():
        replace_file(out / f"{model.name}.md", _model_card(registry, model))


def _card_text(registry: Registry, name: str) -> str:
    if name in registry.models:
        return _model_card(registry, registry.models[name])
    from zoo.checkpoint.facts import read_card
    from zoo.checkpoint.format import CARD

    folder = located(name, registry, registry.models)
    if not (folder / CARD).is_file():
        raise CheckpointError(f"{name} has no card", "", f"Write one: zoo card {name} --write")
    return read_card(folder)


def _own_folder(registry: Registry, name: str) -> Path:
    """Return the folder of a checkpoint whose card can be written.

    Raises:
        CheckpointError: it is a released checkpoint or an address, there is no such folder, or its
            files are links to others, as in the Hub's cache.
    """
    from zoo.checkpoint.format import CARD, CONFIG, EVALUATION, SCORES, check_own

    folder = Path(name)
    if folder.is_dir():
        for file in (CARD, CONFIG, EVALUATION, SCORES):
            check_own(folder, file, writes=True)
        return folder
    if name in registry.checkpoints or Address.is_one(name):
        raise CheckpointError(
            f"the card of {name} cannot be written",
            "--write needs a checkpoint folder",
            f"Copy it: `zoo convert {shlex.quote(name)} FOLDER --dtype float32`",
        )
    raise CheckpointError(f"no folder {name!r}", "--write needs a checkpoint folder")


def _is_control(character: str) -> bool:
    """Return whether a character could control the terminal."""
    return unicodedata.category(character) == "Cc"


def _without_metadata(text: str) -> str:
    """Return a card without its front matter and its marks."""
    if text.startswith("---\n"):
        text = text[4:].partition("\n---\n")[2]
    lines = [line for line in text.split("\n") if not line.startswith("<!-- ")]
    return "\n".join(lines)


def _write_card(
    registry: Registry, folder: Path, added: list[dict[str, Any]] | None, benchmark: str | None
) -> None:
    """Write a checkpoint folder's card, and its scores if some are added."""
    from zoo.checkpoint.card import card_of
    from zoo.checkpoint.format import CARD, EVALUATION, SCORES
    from zoo.checkpoint.scores import read_scores, with_score
    from zoo.hub.metadata import evaluation_results

    with locked(folder / CARD):  # scores of several evaluations may arrive at once
        records = read_scores(folder)
        for record in added or []:
            extra = {"benchmark": benchmark} if benchmark else {}
            records = with_score(records, {**record, **extra})
        text = card_of(folder, registry, records)
        if added is not None:
            content = json.dumps({"scores": records}, indent=2, ensure_ascii=False, allow_nan=False)
            replace_file(folder / SCORES, content + "\n")
            results = evaluation_results(records)
            if results:
                (folder / EVALUATION).parent.mkdir(exist_ok=True)
                replace_file(folder / EVALUATION, results)
        replace_file(folder / CARD, text)
    say(f"{folder / CARD} is written")


def _change_about(registry: Registry, folder: Path, changes: Sequence[str]) -> None:
    """Write changes into what a checkpoint folder says about itself, if its card can be written."""
    if changes:
        from zoo.checkpoint.card import card_of
        from zoo.checkpoint.format import about_of, describe, write_about
        from zoo.registry.config import parse_settings

        card_of(folder, registry)
        write_about(folder, about_of(describe(folder)).with_changes(parse_settings(changes)))


def _read_records(scores: Any) -> list[dict[str, Any]]:
    """Return the records in the output of `zoo eval --json`, one or several."""
    from zoo.checkpoint.scores import is_score
    from zoo.files import JSON_LIMIT, parse_json

    source = "standard input" if scores is sys.stdin.buffer else getattr(scores, "name", "scores")
    try:
        value = parse_json(scores.read(JSON_LIMIT))
    except ValueError as error:
        raise CheckpointError(f"{source} has no scores", f"{error}") from None
    records = value if isinstance(value, list) else [value]
    if not records or not all(is_score(record) for record in records):
        raise CheckpointError(f"{source} has no scores", "it must be output of `zoo eval --json`")
    return records
