"""`zoo translate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from zoo.cli.output import json_option, names, print_json
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

    translator = load(checkpoint, device=device, names=found)
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
