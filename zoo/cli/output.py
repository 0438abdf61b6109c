"""What commands share to print: consoles, JSON, warnings, and the registry with its warnings."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from zoo.errors import DataError
from zoo.files import whole_file
from zoo.registry.registry import Registry, default_registry

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


@functools.cache
def console() -> Console:
    """Return the console of standard output; wide enough for tables if it is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, emoji=False, width=width)


@functools.cache
def messages() -> Console:
    """Return the console of standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def plain(text: object) -> Text:
    """Return text for a table's cell, without rich's markup; a long word goes on below.

    Characters that would control a terminal are replaced.
    """
    from rich.text import Text

    return Text(CONTROL.sub("�", str(text)), overflow="fold")


def say(text: str) -> None:
    """Print a message on standard error, on one line at any width of the terminal."""
    messages().print(text, soft_wrap=True, markup=False)


def print_json(value: Any, *, lines: bool = False) -> None:
    """Print a value as JSON, on one line if `lines`."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if lines else 2))


def confirm(question: str) -> None:
    """Ask a question with yes or no; anything but yes ends the command."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C or Ctrl-D
            raise
        click.echo(err=True)
        raise click.ClickException(
            "the question has no answer: give --yes, or run it in a terminal"
        ) from None
    if not agreed:
        raise click.Abort


def loaded_registry() -> Registry:
    """Return the registry; print its problems and the broken plugins on standard error."""
    registry = default_registry()
    for problem in (*registry.plugins.problems, *registry.problems):
        click.echo(f"Warning: {problem}", err=True)
    for plugin in registry.plugins.broken:
        click.echo(f"Warning: plugin {plugin} is broken: {plugin.problem}", err=True)
    return registry


def shows_progress() -> bool:
    """Return whether standard error is a terminal on which progress bars can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


DESCRIPTOR = re.compile(r"/dev/std(out|err)|/(?:dev|proc/self)/fd/(\d+)")
"""The names of files that are open already, such as standard output."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
STANDARD_STREAM = Path("-")
"""What names standard input to read from, and standard output to write to."""


def is_stream(file: Path) -> bool:
    """Return whether a name is that of an open file, a pipe or a device, which is not replaced."""
    return _descriptor(file) is not None or (
        file.exists() and not file.is_file() and not file.is_dir()
    )


def _descriptor(file: Path) -> int | None:
    """Return the number of the open file that a name is of; None for another name."""
    if file == STANDARD_STREAM:
        return 1
    named = DESCRIPTOR.fullmatch(os.path.abspath(file))
    return None if named is None else int(named[2] or {"out": 1, "err": 2}[named[1]])


@contextlib.contextmanager
def open_output(file: Path) -> Iterator[IO[bytes]]:
    """Give a file that is complete at the end or absent; a stream is written as it goes.

    What is open already is continued where it is, as after `>>` in a shell.
    """
    if not is_stream(file):
        make_folder_of(file)
        with whole_file(file) as part, part.open("wb") as output:
            yield output
        return
    descriptor = _descriptor(file)
    handle = os.open(file, os.O_WRONLY) if descriptor is None else os.dup(descriptor)
    with os.fdopen(handle, "wb") as output:
        yield output


def make_folder_of(file: Path) -> None:
    """Make the folder of a file that is going to be written, and those above it."""
    Path(os.path.realpath(file)).parent.mkdir(parents=True, exist_ok=True)


def check_writable(file: Path, *, stream: bool = True) -> None:
    """Check, before anything is computed, that a file can be written.

    Its folder is made when it is written, as that of a new checkpoint is.

    Args:
        file: what `open_output` is going to write.
        stream: whether it may be a pipe, a device or an open file, such as /dev/stdout.

    Raises:
        DataError: it is a folder, or its folder cannot be made or written to; or it is a stream.
    """
    if file.is_dir():
        raise DataError(f"cannot write {file}", "it is a folder", "Name a file")
    if is_stream(file):
        if not stream:
            raise DataError(f"cannot write {file}", "it is no regular file", "Name another file")
        return
    # `Path.resolve` raises RuntimeError for a link to itself before Python 3.13.
    real = Path(os.path.realpath(file))
    folder = next(parent for parent in real.parents if parent.exists())
    if not folder.is_dir():
        raise DataError(f"cannot write {file}", f"{folder} is not a folder", "Name another file")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        why = f"you may not write to {folder}"
        raise DataError(f"cannot write {file}", why, "Name a file in another folder") from None
