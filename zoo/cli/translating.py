"""`zoo translate` and `zoo score`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from zoo.cli.fetching import located
from zoo.cli.output import json_option, messages, names, person_watches, print_json, say
from zoo.cli.search import search_options
from zoo.data.readers import decode_line, has_lone_surrogate
from zoo.errors import DataError
from zoo.files import whole_file

if TYPE_CHECKING:
    from zoo.translation.translation import Translation
    from zoo.translation.translator import Precision

device_option = click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, or auto."
)
precision_option = click.option(
    "--precision", type=click.Choice(["float32", "int8"]), default="float32", show_default=True,
    help="What products with weights are computed in; int8 is faster on a processor.",
)  # fmt: skip
together_option = click.option(
    "--with", "more", multiple=True, metavar="CHECKPOINT",
    help="Another checkpoint that writes with it, each token by the mean of their probabilities; "
    "may be repeated.",
)  # fmt: skip


@click.command()
@click.argument("checkpoint")
@click.argument("text", nargs=-1)
@click.option("--input", "source", type=click.Path(dir_okay=False, path_type=Path),
              help="A file of texts, one a line, in place of standard input.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="A file for the translations; it appears whole, at the end.")  # fmt: skip
@together_option
@search_options
@click.option("--prefix", default="", help="What every translation must begin with.")
@click.option("--alignment", is_flag=True, help="Print alignments too, after a tab: "
              "SOURCE-TARGET pairs of words, counted from 0.")  # fmt: skip
@click.option("--long", type=click.Choice(["refuse", "split"]), default="refuse", show_default=True,
              help="What becomes of a text longer than --longest or the model reads.")  # fmt: skip
@click.option("--longest", type=click.IntRange(2), default=1024, show_default=True,
              help="Most source tokens read at once, the end token counted.")  # fmt: skip
@precision_option
@device_option
@json_option
def translate(
    checkpoint: str,
    text: tuple[str, ...],
    source: Path | None,
    out: Path | None,
    more: tuple[str, ...],
    search: dict[str, Any],
    precision: Precision,
    device: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Translate each TEXT, or each line of --input or standard input, one line out for each.

    An empty line gives an empty line. With --n-best, each text's translations follow each other,
    the best first, with their scores before them.
    """
    if text and source:
        raise click.UsageError("give TEXT or --input, not both")
    found = names()
    from zoo.translation.translator import load

    checkpoints = [located(name, found) for name in (checkpoint, *more)]
    translator = load(*checkpoints, device=device, precision=precision, registry=found)
    for place, given in enumerate(text, 1):
        if has_lone_surrogate(given):
            raise DataError(f"text {place} is not UTF-8", "give it in the terminal's encoding")
    # A person at the keyboard wants each answer before the next line.
    window = 1 if not text and source is None and sys.stdin.isatty() else None
    with _texts(text, source) as texts, _output(out) as file:
        stream = translator.stream(texts, window=window, **options, **search)
        for translation in _warned(stream, "text" if text else "line"):
            for line in _shown(translation, as_json, search.get("n_best", 1) > 1):
                click.echo(line, file=file)


def _shown(translation: Translation, as_json: bool, several: bool) -> Iterator[str]:
    """Yield the lines that tell a translation."""
    if as_json:
        yield json.dumps(_record(translation), ensure_ascii=False)
        return
    for one in (translation, *translation.alternatives):
        line = " ".join(one.text.splitlines())
        if several:
            line = f"{one.score:.4f}\t{line}"
        if one.alignment is not None:
            line += "\t" + " ".join(f"{s}-{t}" for s, t in one.alignment)
        yield line


def _record(translation: Translation) -> dict[str, Any]:
    """Return what is known of a translation as plain values."""
    record = {
        "source": translation.source,
        "text": " ".join(translation.text.splitlines()),
        "score": translation.score,
        "finished": translation.finished,
        "tokens": translation.tokens,
    }
    if translation.alignment is not None:
        record["alignment"] = translation.alignment
    if translation.alternatives:
        record["alternatives"] = [_record(one) for one in translation.alternatives]
    return record


@contextlib.contextmanager
def _texts(given: tuple[str, ...], file: Path | None) -> Iterator[Iterable[str]]:
    """Give the texts: those of the command line, or lines of a file or of standard input."""
    if given:
        yield given
    elif file is None:
        yield _lines(sys.stdin.buffer, "standard input")
    else:
        with file.open("rb") as lines:
            yield _watched(_lines(lines, str(file)), file)


def _lines(lines: IO[bytes], where: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        text = decode_line(line, number, where)
        if "\0" in text:
            raise DataError(
                f"{where}, line {number}, has a NUL byte",
                "it is not text, or text in UTF-16",
                "Convert it to UTF-8",
            )
        yield text


def _watched(lines: Iterator[str], file: Path) -> Iterator[str]:
    """Yield the lines; show a person how far they are."""
    from rich.progress import track

    watched = person_watches()
    total = sum(1 for _ in file.open("rb")) if watched else None
    yield from track(
        lines, file.name, total=total, console=messages(), transient=True, disable=not watched
    )


@contextlib.contextmanager
def _output(file: Path | None) -> Iterator[IO[str] | None]:
    """Give where to write: standard output, or a file that appears whole or not at all."""
    if file is None:
        yield None
        return
    with whole_file(file) as part, part.open("w", encoding="utf-8") as written:
        yield written


def _warned(stream: Iterator[Translation], what: str) -> Iterator[Translation]:
    """Yield translations; tell of texts in which a model knows nothing, the first and how many."""
    count = 0
    for number, translation in enumerate(stream, 1):
        if translation.unknown:
            count += 1
            if count == 1:
                say(
                    f"Warning: {what} {number}: the model knows none of its tokens (is it in "
                    "another script?), so its translation means nothing"
                )
        yield translation
    if count > 1:
        say(f"Warning: so it is with {count:,} {what}s in all")


@click.command()
@click.argument("checkpoint")
@click.argument("source", required=False)
@click.argument("target", required=False)
@device_option
@json_option
def score(
    checkpoint: str, source: str | None, target: str | None, device: str, as_json: bool
) -> None:
    """Tell the log probability that CHECKPOINT gives TARGET as the translation of SOURCE.

    Without them, of each line of standard input, which has a source, a tab and a target. The end
    token counts.
    """
    if source is not None and target is None:
        raise click.UsageError("give SOURCE and TARGET, or neither")
    found = names()
    from zoo.data.readers import chunks
    from zoo.translation.translator import WINDOW, load

    translator = load(located(checkpoint, found), device=device, registry=found)
    given = [(source, target)] if source is not None and target is not None else _pairs()
    for window in chunks(given, WINDOW):
        sources, targets = zip(*window, strict=True)
        scores = translator.score(sources, targets)
        for pair, tokens in zip(window, scores, strict=True):
            if as_json:
                record = {"source": pair[0], "target": pair[1], "score": sum(tokens)}
                print_json({**record, "tokens": tokens}, lines=True)
            else:
                click.echo(f"{sum(tokens):.4f}")


def _pairs() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_lines(sys.stdin.buffer, "standard input"), 1):
        source, tab, target = line.partition("\t")
        if not tab:
            raise DataError(f"line {number} has no tab", "it is to have a source, a tab, a target")
        yield source, target
