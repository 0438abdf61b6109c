"""What the commands share: consoles, JSON, and warnings about plugins."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.errors import DataError
from zoo.registry.registry import Registry, default_registry

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@functools.cache
def console() -> Console:
    """Return the console of standard output; what is not a terminal is wide enough for tables."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


@functools.cache
def messages() -> Console:
    """Return the console of standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def plain(text: object) -> Text:
    """Return text for a table's cell, in which brackets are brackets."""
    from rich.text import Text

    return Text(str(text))


def say(text: str) -> None:
    """Tell a person something on standard error, on one line whatever the terminal's width."""
    messages().print(text, soft_wrap=True, markup=False)


def print_json(value: Any, *, lines: bool = False) -> None:
    """Print a value as JSON, on one line if `lines`."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if lines else 2))


def names() -> Registry:
    """Return the registry; what of it could not be taken in is told on standard error."""
    found = default_registry()
    for problem in (*found.plugins.problems, *found.problems):
        click.echo(f"Warning: {problem}", err=True)
    for plugin in found.plugins.broken:
        click.echo(f"Warning: plugin {plugin} is broken: {plugin.problem}", err=True)
    return found


def person_watches() -> bool:
    """Tell whether standard error is a terminal."""
    return sys.stderr.isatty()


def writable(file: Path) -> None:
    """Check, before anything is computed, that a file can be written.

    Raises:
        DataError: it is a folder, or its folder is missing or not ours to write to.
    """
    if file.is_dir():
        raise DataError(f"cannot write {file}", "it is a folder", "Name a file")
    if not file.parent.is_dir():
        raise DataError(f"cannot write {file}", f"there is no folder {file.parent}", "Make it")
    if not os.access(file.parent, os.W_OK):
        raise DataError(f"cannot write {file}", f"{file.parent} is not ours to write to")
