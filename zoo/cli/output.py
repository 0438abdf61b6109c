"""What commands share to print: consoles, JSON, warnings, and the registry with its warnings."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from zoo.errors import DataError
from zoo.registry.registry import Registry, default_registry

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


@functools.cache
def console() -> Console:
    """Return the console of standard output; wide enough for tables if it is not a terminal."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


@functools.cache
def messages() -> Console:
    """Return the console of standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def plain(text: object) -> Text:
    """Return text for a table's cell, without rich's markup; a long word goes on below."""
    from rich.text import Text

    return Text(str(text), overflow="fold")


def say(text: str) -> None:
    """Print a message on standard error, on one line at any width of the terminal."""
    messages().print(text, soft_wrap=True, markup=False)


def print_json(value: Any, *, lines: bool = False, file: IO[str] | None = None) -> None:
    """Print a value as JSON, on one line if `lines`, on standard output or to a file."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if lines else 2), file=file)


def loaded_registry() -> Registry:
    """Return the registry; print its problems and the broken plugins on standard error."""
    registry = default_registry()
    for problem in (*registry.plugins.problems, *registry.problems):
        click.echo(f"Warning: {problem}", err=True)
    for plugin in registry.plugins.broken:
        click.echo(f"Warning: plugin {plugin} is broken: {plugin.problem}", err=True)
    return registry


def shows_progress() -> bool:
    """Return whether standard error is a terminal, so that progress bars are drawn."""
    return sys.stderr.isatty()


def check_writable(file: Path) -> None:
    """Check, before anything is computed, that a file can be written.

    Raises:
        DataError: it is a folder, a pipe or a device, or its folder is missing or read-only.
    """
    if file.is_dir():
        raise DataError(f"cannot write {file}", "it is a folder", "Name a file")
    if file.exists() and not file.is_file():
        why = "it is a pipe or a device, which a file cannot replace"
        raise DataError(f"cannot write {file}", why, "Without --out, standard output is written")
    file = file.resolve()
    if not file.parent.is_dir():
        raise DataError(
            f"cannot write {file}", f"there is no folder {file.parent}", "Create it first"
        )
    if not os.access(file.parent, os.W_OK):
        raise DataError(f"cannot write {file}", f"you may not write to {file.parent}")
