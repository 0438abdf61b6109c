"""`zoo translate` and `zoo join`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from zoo import __version__
from zoo.checkpoint.scores import source_prefixes
from zoo.cli.completion import complete_checkpoint, complete_named
from zoo.cli.fetching import located
from zoo.cli.kernels import note_outdated_kernels
from zoo.cli.options import (
    NewFile,
    TextCommand,
    device_option,
    engine_option,
    ensemble_option,
    json_option,
    precision_option,
    source_lang_option,
    source_prefix_option,
    target_lang_option,
)
from zoo.cli.output import (
    STANDARD_STREAM,
    check_writable,
    loaded_registry,
    make_folder_of,
    messages,
    open_output,
    say,
    shows_progress,
)
from zoo.cli.search import search_options
from zoo.data.compressed import open_text
from zoo.data.readers import bounded_lines, count_lines, decode_line
from zoo.registry.registry import Registry
from zoo.translation.shards import Shard, join, open_shard

if TYPE_CHECKING:
    from zoo.translation.text_search import Precision
    from zoo.translation.translation import Translation
    from zoo.translation.translator import Translator


@click.command(cls=TextCommand)
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.argument("text", nargs=-1)
@click.option("--input", "source", type=click.Path(dir_okay=False, path_type=Path),
              help="Read texts from a file, one per line, instead of standard input.")  # fmt: skip
@click.option("--out", type=NewFile(dir_okay=False),
              help="Write the translations to a file; it is complete or absent.")  # fmt: skip
@click.option("--shard", metavar="I/N",
              help="Translate part I of N of --input's lines to OUT.I-of-N. The same command "
              "continues one that was stopped; `zoo join OUT` joins them.")  # fmt: skip
@source_lang_option
@target_lang_option
@ensemble_option
@search_options
@source_prefix_option
@click.option("--prefix", default="", help="Start every translation with this text.")
@click.option("--alignment", is_flag=True, help="Print word alignments too, after a tab, as "
              "SOURCE-TARGET pairs of word indices from 0.")  # fmt: skip
@click.option("--split/--no-split", default=True, show_default=True,
              help="Translate the sentences of a text one by one, where the checkpoint's source "
              "language is known; --no-split reads each text whole and as it is.")  # fmt: skip
@click.option("--splitter", metavar="NAME", default="", shell_complete=complete_named("splitters"),
              help="What splits sentences, as NAME or NAME:option=value (see `zoo list "
              "splitters`).  [default: sentencex, if the source language is known]")  # fmt: skip
@click.option("--long-texts", type=click.Choice(["refuse", "split"]), default="refuse",
              show_default=True,
              help="Refuse texts that are too long, or translate them in parts.")  # fmt: skip
@click.option("--max-source-length", type=click.IntRange(2), default=1024, show_default=True,
              help="Largest number of source tokens of a sentence, or of a text that is read "
              "whole, with the end token.")  # fmt: skip
@precision_option
@engine_option
@device_option
@json_option
def translate(
    checkpoint: str,
    text: tuple[str, ...],
    source: Path | None,
    out: Path | None,
    shard: str | None,
    more: tuple[str, ...],
    search: dict[str, Any],
    precision: Precision,
    engine: str | None,
    device: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Translate each TEXT, or each line of --input or of standard input, to one line.

    An empty line stays empty; line breaks within a TEXT are kept. With --n-best, the translations
    of a text follow each other, the best first, each after its score. A pipe is answered after
    every 2,048 lines and at its end.
    """
    if text and source:
        raise click.UsageError("give TEXT or --input, not both")
    if source == STANDARD_STREAM:
        source = None
    if shard is not None and (source is None or out is None):
        raise click.UsageError("--shard needs --input and --out")
    wanted = None if shard is None else Shard.parse(shard)
    if out is not None:
        check_writable(out, stream=shard is None)
        if source is not None and out.exists() and out.samefile(source):
            raise click.UsageError("--out is the file of --input, which would be lost")
    registry = loaded_registry()
    translator = load_translator(
        (checkpoint, *more), registry, device, precision, engine,
        source_prefix=options["source_prefix"],
    )  # fmt: skip
    # At a keyboard each line is translated at once.
    window = 1 if not text and source is None and sys.stdin.isatty() else None
    at_prompt = window == 1 and sys.stdout.isatty()
    if at_prompt:
        say("Type a text and press Enter; Ctrl-D ends.")
    form = functools.partial(_lines_of, as_json=as_json, n_best=search.get("n_best", 1))
    if wanted is not None and source is not None and out is not None:
        _translate_shard(translator, source, out, wanted, form, {**options, **search})
        return
    from zoo.cli.translation_notes import untagged, with_notes

    with _texts(text, source) as texts:
        stream = translator.stream(texts, window=window, **options, **search)
        with _output(out) as file:  # opened once the options are known to be possible
            what = "text" if text else "line"
            tasks = untagged(translator, options)
            for translation in with_notes(stream, what, tasks=tasks, at_once=at_prompt):
                for line in form(translation):
                    click.echo(line, file=file)


def _translate_shard(
    translator: Translator,
    source: Path,
    out: Path,
    shard: Shard,
    form: functools.partial[Iterator[str]],
    options: dict[str, Any],
) -> None:
    """Translate what is left of a shard of a file."""
    from zoo.cli.translation_notes import untagged, with_notes
    from zoo.interop.engines import digest

    settings = {
        "checkpoint": [digest(checkpoint) for checkpoint in translator.checkpoints],
        "version": __version__,
        "precision": translator.precision,
        "engine": translator.engine,
        **form.keywords,
        **translator.search_options(options, recommended=options["recommended"]),
    }
    make_folder_of(out)
    with open_shard(out, shard, source, settings) as output:
        if output is None:
            say(f"{shard.file(out)} is finished")
            return
        lines = output.lines
        with open_text(source) as stream:
            texts = _with_progress(read_texts(stream, str(source), lines), source, len(lines))
            translated = translator.stream(texts, first=lines.start, **options)
            tasks = untagged(translator, options)
            for translation in with_notes(translated, "line", lines.start, tasks):
                output.advance("".join(f"{line}\n" for line in form(translation)))


def load_translator(
    checkpoints: Sequence[str],
    registry: Registry,
    device: str,
    precision: Precision = "float32",
    engine: str | None = None,
    of_data: tuple[str, str] = ("", ""),
    languages: Mapping[str, str] | None = None,
    source_prefix: str = "",
) -> Translator:
    """Load a checkpoint, or several as an ensemble; pull those that are not on this machine.

    A source prefix that is none of the first one's known tags is warned of. Languages that are not
    given are those `of_data`, where the checkpoint can choose among several.
    """
    folders = [located(name, registry) for name in checkpoints]
    known = source_prefixes(folders[0]) if source_prefix else []
    if known and source_prefix.strip() not in [tag.strip() for tag in known]:
        tags = ", ".join(map(repr, known))
        say(f"Warning: {checkpoints[0]} was scored with other source prefixes: {tags}")
    note_outdated_kernels()
    # Imports torch: a wrong name is reported before.
    from zoo.translation.languages import languages_of
    from zoo.translation.loading import load

    translator = load(
        *folders, device=device, precision=precision, engine=engine, registry=registry
    )
    of_data = languages_of(translator.checkpoint, of_data)
    chosen = dict(zip(("source_lang", "target_lang"), of_data, strict=True))
    chosen |= {name: code for name, code in (languages or {}).items() if code}
    return translator.for_languages(**chosen)


def _lines_of(translation: Translation, *, as_json: bool, n_best: int) -> Iterator[str]:
    """Yield a line for each of the best translations, empty ones in place of those there are not.

    With JSON, yield one line.
    """
    if as_json:
        yield json.dumps(_record(translation), ensure_ascii=False)
        return
    best = (translation, *translation.alternatives)
    for ranked in best:
        line = ranked.text
        # The translation of a line is one line.
        if n_best > 1 or ranked.alignment is not None or "\n" not in ranked.source.strip():
            line = " ".join(line.splitlines())
        if n_best > 1:
            line = f"{ranked.score:.4f}\t{line}"
        if ranked.alignment is not None:
            line += "\t" + " ".join(f"{s}-{t}" for s, t in ranked.alignment)
        yield line
    absent = "-inf\t" if translation.alignment is None else "-inf\t\t"
    yield from [absent] * (n_best - len(best))


def _record(translation: Translation) -> dict[str, Any]:
    """Return a translation as values for JSON."""
    record = {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "finished": translation.finished,
        "unknown": translation.unknown,
        "divided": translation.divided,
        "respelled": translation.respelled,
        "lost_numbers": translation.lost_numbers,
        "copied": translation.copied,
        "unseen_words": translation.unseen_words,
        "tokens": translation.tokens,
    }
    if translation.alignment is not None:
        record["alignment"] = translation.alignment
    if translation.alternatives:
        record["alternatives"] = [_record(ranked) for ranked in translation.alternatives]
    return record


@contextlib.contextmanager
def _texts(given: tuple[str, ...], file: Path | None) -> Iterator[Iterable[str]]:
    """Give the texts of the command line, or the lines of a file or of standard input."""
    if given:
        for name in filter(os.path.isfile, given):
            advice = f"To translate its lines, give --input {shlex.quote(name)}"
            say(f"Note: {name} is a file, and its name is translated. {advice}")
        yield given
    elif file is None and sys.stdin.isatty() and sys.stdout.isatty():
        yield _typed()
    elif file is None:
        yield read_texts(sys.stdin.buffer, "standard input")
    else:
        with open_text(file) as lines:
            yield _with_progress(read_texts(lines, str(file)), file)


def _typed() -> Iterator[str]:
    """Yield the lines that are typed after a prompt, until Ctrl-D."""
    with contextlib.suppress(ImportError):  # absent on Windows
        import readline  # noqa: F401  # arrow keys and the history of `input`
    while True:
        try:
            yield input("> ")
        except EOFError:
            click.echo(err=True)
            return


def read_texts(lines: IO[bytes], where: str, wanted: range | None = None) -> Iterator[str]:
    """Yield the texts of lines, all or those of the wanted indices."""
    ends = (wanted.start, wanted.stop) if wanted is not None else (0, None)
    for number, line in islice(enumerate(bounded_lines(lines, where), 1), *ends):
        yield decode_line(line, number, where)


def _with_progress(lines: Iterator[str], file: Path, total: int | None = None) -> Iterator[str]:
    """Yield the lines, with a progress bar in a terminal."""
    from rich.progress import track

    visible = shows_progress()
    if visible and total is None:
        total = count_lines(file)
    yield from track(
        lines, file.name, total=total, console=messages(), transient=True, disable=not visible
    )


@contextlib.contextmanager
def _output(file: Path | None) -> Iterator[IO[str] | None]:
    """Give standard output, or a file that is complete at the end or absent."""
    if file is None:
        yield None
        return
    with open_output(file) as output, TextIOWrapper(output, encoding="utf-8") as stream:
        yield stream


@click.command("join")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def join_(out: Path) -> None:
    """Join the shards of OUT that `zoo translate --shard` has written.

    All must be finished, of the same input and with the same options. The shards stay.
    """
    check_writable(out, stream=False)
    say(f"{out}: {join(out):,} shards")
