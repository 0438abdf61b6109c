"""`zoo eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.cli.fetching import located
from zoo.cli.output import (
    json_option,
    messages,
    names,
    person_watches,
    print_json,
    say,
    writable,
)
from zoo.cli.search import search_options
from zoo.cli.translating import device_option, precision_option, together_option
from zoo.data.datasets import find_dataset
from zoo.data.readers import read_lines
from zoo.errors import DataError
from zoo.files import replace_file
from zoo.registry.declarations import Pair
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.evaluation.metrics import Comparison, Scores
    from zoo.translation.translator import Precision, Translator

TOKENISED = 100
"""Translations ending in a sign with a space before it, from which sacreBLEU too warns."""


@click.command("eval")
@click.argument("checkpoint")
@click.option("--data", required=True, help="A dataset's name, or files of your own.")
@click.option("--split", help="Which split; by default `test`, or `all` of files of your own.")
@click.option("--limit", type=click.IntRange(1), help="Read only the first N pairs of each file.")
@click.option("--bleu-order", "orders", type=click.IntRange(1, 3), multiple=True, metavar="N",
              help="BLEU of maximum order N too; may be repeated.")  # fmt: skip
@click.option(
    "--lowercase", is_flag=True, help="Letter case does not count; for TER it never does."
)
@click.option("--confidence", is_flag=True, help="95% confidence intervals, by bootstrap.")
@click.option("--against", metavar="OTHER",
              help="Paired bootstrap test against a checkpoint or a text file.")  # fmt: skip
@click.option("--out", "output", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the translations, a line each.")  # fmt: skip
@together_option
@search_options
@precision_option
@device_option
@json_option
def eval_(
    checkpoint: str,
    data: str,
    split: str | None,
    limit: int | None,
    orders: tuple[int, ...],
    lowercase: bool,
    confidence: bool,
    against: str | None,
    output: Path | None,
    more: tuple[str, ...],
    search: dict[str, Any],
    precision: Precision,
    device: str,
    as_json: bool,
) -> None:
    """Score CHECKPOINT's translations: BLEU, chrF and TER by sacreBLEU, and more.

    Exact match is the percentage of translations equal to their reference; token error rate the
    Levenshtein distance in the checkpoint's own tokens, over the reference's tokens. TER and token
    error rate are better the lower they are.
    """
    found = names()
    dataset = find_dataset(found, data)
    split = split or dataset.scored_split
    pairs = dataset.load(split, limit)
    if not pairs:
        raise DataError("nothing to score", f"{data}, {split}, is empty", "Name another --split")
    if output is not None:
        writable(output)
    others = _lines(against, found, pairs) if against is not None else None
    from zoo.evaluation import metrics
    from zoo.translation.translator import load

    checkpoints = [located(name, found) for name in (checkpoint, *more)]
    translator = load(*checkpoints, device=device, precision=precision, registry=found)
    texts = _translations(translator, pairs, split, search)
    if output is not None:
        replace_file(output, "".join(f"{' '.join(text.splitlines())}\n" for text in texts).encode())
    if against is not None and others is None:
        other = load(located(against, found), device=device, precision=precision, registry=found)
        others = _translations(other, pairs, against, search)
    references = [pair.target for pair in pairs]
    sources = [pair.source for pair in pairs]
    using = metrics.make_metrics(
        found.metrics,
        lowercase=lowercase,
        orders=orders,
        tokenizer=translator.checkpoint.target_tokenizer,
    )
    for problem in using.problems:
        say(f"Warning: {problem}")
    resamples = metrics.RESAMPLES if confidence or others is not None else 0
    scores = metrics.score(texts, references, using, sources=sources, resamples=resamples)
    compared = {}
    if others is not None:
        compared = metrics.compare(texts, others, references, using, sources=sources)
    if sum(text.endswith(" .") for text in texts) >= TOKENISED:
        say("The translations look tokenised (« .»): BLEU of plain text is something else.")
    if as_json:
        record = {"checkpoint": checkpoint, "data": data, "split": split, **scores.as_json()}
        told = {"limit": limit, "lowercase": lowercase or None, **search}
        told["precision"] = precision if precision != "float32" else None
        record.update({name: value for name, value in told.items() if value is not None})
        print_json({**record, **_against(against, compared)})
        return
    click.echo(f"{checkpoint} on {data}, {split}: {scores.sentences:,} sentences")
    _show(scores, against, compared)


def _lines(against: str, found: Registry, pairs: Sequence[Pair]) -> list[str] | None:
    """Return another system's translations if `against` is a file of them.

    Raises:
        DataError: it has not a line for each pair.
    """
    if against in found.checkpoints or not Path(against).is_file():
        return None
    lines = list(read_lines(Path(against)))
    if len(lines) != len(pairs):
        raise DataError(
            f"{against} is not of these sentences",
            f"it has {len(lines):,} lines for {len(pairs):,} pairs",
            "Write one with zoo eval --out on the same --data, --split and --limit",
        )
    return lines


def _translations(
    translator: Translator, pairs: Sequence[Pair], what: str, search: Mapping[str, Any]
) -> list[str]:
    from rich.progress import track

    stream = translator.stream((pair.source for pair in pairs), **search)
    watched = track(
        stream,
        f"Translating {what}",
        total=len(pairs),
        console=messages(),
        transient=True,
        disable=not person_watches(),
    )
    return [translation.text for translation in watched]


def _against(other: str | None, compared: Mapping[str, Comparison]) -> dict[str, Any]:
    """Return a comparison as plain values; a card takes in nothing nested."""
    values: dict[str, Any] = {"against": other} if compared else {}
    for name, comparison in compared.items():
        values |= {f"against_{name}": comparison.other.value, f"{name}_p_value": comparison.p_value}
    return values


LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
PERCENT = ("exact_match", "token_error_rate")


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("bleu_", "BLEU-").replace("_", " "))


def _show(scores: Scores, other: str | None, compared: Mapping[str, Comparison]) -> None:
    for name, score in scores.by_name.items():
        shown = f"{_label(name):<16}  {score.value:6.2f}"
        shown += "%" if name in PERCENT else " "
        if score.confidence is not None:
            shown += f" (μ = {score.mean:.2f} ± {score.confidence:.2f})"
        click.echo(f"{shown} {score.signature}")
    if not compared:
        return
    click.echo(f"\nagainst {other}, by paired bootstrap:")
    for name, comparison in compared.items():
        difference = scores.by_name[name].value - comparison.other.value
        click.echo(
            f"{_label(name):<16}  {comparison.other.value:6.2f}"
            f"  difference {difference:+.2f}, p = {comparison.p_value:.4f}"
        )
