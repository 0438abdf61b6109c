"""`zoo card`: shows and writes cards. Nothing here imports torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from zoo.cli.fetching import located
from zoo.cli.output import console, names, say
from zoo.errors import CheckpointError, UnknownNameError
from zoo.registry.catalogue import Model
from zoo.registry.registry import Registry


@click.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="The cards of all models, into --out.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
@click.option("--write", is_flag=True, help="Make a checkpoint's card again; what you wrote stays.")
@click.option("--scores", type=click.File("rb"), metavar="FILE",
              help="With --write: add what `zoo eval --json` printed; - reads it.")  # fmt: skip
@click.option("--benchmark", metavar="OWNER/DATASET[:TASK]",
              help="With --scores: the Hub's benchmark that they are scores on.")  # fmt: skip
def card(
    name: str | None,
    every: bool,
    out: Path | None,
    write: bool,
    scores: Any,
    benchmark: str | None,
) -> None:
    """Show the card of a model or checkpoint, or write it.

    --write makes the card of a checkpoint folder again from what is known: configuration, data,
    recipe, curve, scores, parameters. Your own sections, and metadata such as the license, stay.
    """
    found = names()
    if (scores is not None and not write) or (benchmark is not None and scores is None):
        raise click.UsageError("--scores needs --write, and --benchmark needs --scores")
    if every:
        _all_models(found, out)
        return
    if name is None:
        raise click.UsageError("name a model or checkpoint, or say --all")
    if write:
        _write(found, Path(name), scores, benchmark)
        return
    shown = _shown(found, name)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{Path(name).name}.md").write_text(shown, encoding="utf-8")
    elif console().is_terminal:
        from rich.markdown import Markdown

        console().print(Markdown(_without_metadata(shown)))
    else:
        click.echo(shown, nl=False)


def _text(found: Registry, model: Model) -> str:
    from zoo.checkpoint.card import model_card

    return model_card(model, found.architecture(model.architecture), found.config(model.name))


def _all_models(found: Registry, out: Path | None) -> None:
    if out is None:
        raise click.UsageError("--all needs --out")
    out.mkdir(parents=True, exist_ok=True)
    for model in found.models.values():
        (out / f"{model.name}.md").write_text(_text(found, model), encoding="utf-8")


def _shown(found: Registry, name: str) -> str:
    if name in found.models:
        return _text(found, found.models[name])
    from zoo.checkpoint.card import CARD_LIMIT
    from zoo.files import read_text

    file = located(name, found) / "README.md"
    if not file.is_file():
        raise UnknownNameError("name", name, [*found.models, *found.checkpoints], "See `zoo list`")
    return read_text(file, CARD_LIMIT)


def _without_metadata(text: str) -> str:
    """Return a card as a person reads it: without the Hub's metadata and our own marks."""
    if text.startswith("---\n"):
        text = text[4:].partition("\n---\n")[2]
    lines = [line for line in text.split("\n") if not line.startswith("<!-- ")]
    return "\n".join(lines)


def _write(found: Registry, folder: Path, scores: Any, benchmark: str | None) -> None:
    from zoo.checkpoint.card import card_of, evaluation_results
    from zoo.checkpoint.format import CARD, EVALUATION, SCORES
    from zoo.checkpoint.scores import read_scores, with_score
    from zoo.files import replace_file

    if not folder.is_dir():
        raise CheckpointError(
            f"no folder {str(folder)!r}", "--write needs a checkpoint folder of your own"
        )
    records = read_scores(folder)
    if scores is not None:
        for record in _given(scores):
            about = {"benchmark": benchmark} if benchmark else {}
            records = with_score(records, {**record, **about})
    text = card_of(folder, found, records)
    if scores is not None:
        kept = json.dumps({"scores": records}, indent=2, ensure_ascii=False, allow_nan=False)
        replace_file(folder / SCORES, kept + "\n")
        results = evaluation_results(records)
        if results:
            (folder / EVALUATION).parent.mkdir(exist_ok=True)
            replace_file(folder / EVALUATION, results)
    replace_file(folder / CARD, text)
    say(f"{folder / CARD} is written")


def _given(scores: Any) -> list[dict[str, Any]]:
    """Return the records in what `zoo eval --json` printed, one or several."""
    from zoo.checkpoint.scores import is_score
    from zoo.files import JSON_LIMIT, parse_json

    where = "standard input" if scores is sys.stdin.buffer else getattr(scores, "name", "scores")
    try:
        value = parse_json(scores.read(JSON_LIMIT))
    except ValueError as error:
        raise CheckpointError(f"{where} holds no scores", f"{error}") from None
    records = value if isinstance(value, list) else [value]
    if not records or not all(is_score(record) for record in records):
        raise CheckpointError(f"{where} holds no scores", "give what `zoo eval --json` printed")
    return records
