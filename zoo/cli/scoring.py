"""`zoo score`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from zoo.cli.completion import complete_checkpoint
from zoo.cli.options import (
    TextCommand,
    device_option,
    json_option,
    source_lang_option,
    target_lang_option,
)
from zoo.cli.output import loaded_registry, print_json, say
from zoo.cli.translating import load_translator, read_texts
from zoo.errors import DataError

if TYPE_CHECKING:
    from zoo.translation.translator import Translator


@click.command(cls=TextCommand)
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.argument("source", required=False)
@click.argument("target", required=False)
@source_lang_option
@target_lang_option
@device_option
@json_option
def score(
    checkpoint: str,
    source: str | None,
    target: str | None,
    device: str,
    as_json: bool,
    **languages: str,
) -> None:
    """Print the log probability that CHECKPOINT gives to TARGET as a translation of SOURCE.

    Each is read as one sentence; `zoo translate --no-split` writes what can be compared. Without
    them, score each line of standard input: a source, a tab, a target. The end token is included.
    """
    if source is not None and target is None:
        raise click.UsageError("give SOURCE and TARGET, or neither")
    registry = loaded_registry()
    translator = load_translator((checkpoint,), registry, device, languages=languages)
    from zoo.data.readers import chunks
    from zoo.translation.options import WINDOW

    warned = False
    pairs = [(source, target)] if source is not None and target is not None else _read_pairs()
    wrong: list[DataError] = []
    pairs = _until_wrong(pairs, wrong)
    for window in chunks(pairs, WINDOW, lambda pair: len(pair[0]) + len(pair[1])):
        sources, targets = zip(*window, strict=True)
        scores = translator.score(sources, targets)
        if not warned and (warning := _warning(translator, sources, targets)):
            say(warning)
            warned = True
        for pair, tokens in zip(window, scores, strict=True):
            if as_json:
                record = {"source": pair[0], "target": pair[1], "score": sum(tokens)}
                print_json({**record, "tokens": tokens}, lines=True)
            else:
                click.echo(f"{sum(tokens):.4f}")
    if wrong:
        raise wrong[0]


def _until_wrong(
    pairs: Iterable[tuple[str, str]], wrong: list[DataError]
) -> Iterator[tuple[str, str]]:
    """Yield pairs up to a line that is none; the error, after their scores, goes to `wrong`."""
    try:
        yield from pairs
    except DataError as error:
        wrong.append(error)


def _warning(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> str:
    """Return a warning if texts have parts that are scored unlike what was meant, or nothing.

    That is what the target vocabulary lacks, and white space that is a token.
    """
    from zoo.nn.contract import UNKNOWN

    checkpoint = translator.checkpoint
    for tokenizer, texts in (
        (checkpoint.source_tokenizer, sources), (checkpoint.target_tokenizer, targets)
    ):  # fmt: skip
        spaced = [text for text in texts if text != text.strip()]
        bare = tokenizer.encode([text.strip() for text in spaced])
        for text, with_spaces, without in zip(spaced, tokenizer.encode(spaced), bare, strict=True):
            if with_spaces != without:
                return f"Warning: {text!r} is scored with the white space around it; leave it out"
    encoded = checkpoint.target_tokenizer.encode(list(targets))
    lacking = [text for text, ids in zip(targets, encoded, strict=True) if UNKNOWN in ids]
    if not lacking:
        return ""
    return (
        f"Warning: the target vocabulary lacks a part of {lacking[0]!r}; it is scored as an "
        "unknown token"
    )


def _read_pairs() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_texts(sys.stdin.buffer, "standard input"), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(f"line {number} has no tab", "a line is a source, a tab, and a target")
        yield columns[0], columns[1]  # further columns are ignored, as in files of pairs
