"""`zoo translate` and `zoo eval`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from zoo.cli.fetching import located
from zoo.cli.output import json_option, messages, names, person_watches, print_json
from zoo.datasets import decode_line, half_a_pair
from zoo.errors import DataError

device_option = click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, or auto."
)


@click.command()
@click.argument("checkpoint")
@click.argument("text", nargs=-1)
@device_option
@json_option
def translate(checkpoint: str, text: tuple[str, ...], device: str, as_json: bool) -> None:
    """Translate each TEXT, or each line of standard input, one line out for each.

    An empty line gives an empty line.
    """
    found = names()
    from zoo.translator import load

    translator = load(located(checkpoint, found), device=device, names=found)
    for place, given in enumerate(text, 1):
        if half_a_pair(given):
            raise DataError(f"text {place} is not UTF-8", "give it in the terminal's encoding")
    texts = iter(text) if text else _standard_input()
    # A person at the keyboard wants each answer before the next line.
    window = 1 if not text and sys.stdin.isatty() else None
    for translation in translator.stream(texts, window=window):
        line = " ".join(translation.text.splitlines())
        if as_json:
            hypothesis = translation.hypothesis
            record = {
                "source": translation.source,
                "text": line,
                "score": translation.score,
                "finished": hypothesis is None or hypothesis.finished,
            }
            print_json(record, lines=True)
        else:
            click.echo(line)


def _standard_input() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        yield decode_line(line, number, "standard input")


@click.command("eval")
@click.argument("checkpoint")
@click.option("--data", required=True, help="A dataset's name, or files of your own.")
@click.option("--split", help="Which split; by default `test`, or `all` of files of your own.")
@click.option("--limit", type=click.IntRange(1), help="Read only the first N pairs of each file.")
@device_option
@json_option
def eval_(
    checkpoint: str, data: str, split: str | None, limit: int | None, device: str, as_json: bool
) -> None:
    """Score CHECKPOINT's translations: BLEU and chrF by sacreBLEU, and exact match."""
    found = names()
    dataset = found.dataset(data)
    split = split or dataset.scored_split
    pairs = dataset.load(split, limit)
    from zoo import metrics
    from zoo.translator import load

    translator = load(located(checkpoint, found), device=device, names=found)
    texts = []
    from rich.progress import track

    stream = translator.stream(pair.source for pair in pairs)
    for translation in track(
        stream,
        f"Translating {split}",
        total=len(pairs),
        console=messages(),
        transient=True,
        disable=not person_watches(),
    ):
        texts.append(translation.text)
    scores = metrics.score(texts, [pair.target for pair in pairs])
    if as_json:
        record = {"checkpoint": checkpoint, "data": data, "split": split, **scores.as_json()}
        print_json(record)
        return
    click.echo(f"{checkpoint} on {data}, {split}: {scores.sentences:,} sentences")
    click.echo(f"BLEU         {scores.bleu:6.2f}  {scores.bleu_signature}")
    click.echo(f"chrF         {scores.chrf:6.2f}  {scores.chrf_signature}")
    click.echo(f"exact match  {scores.exact_match:6.2f}%")
