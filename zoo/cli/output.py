"""What the commands share: consoles, JSON, and warnings about plugins."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zoo.errors import DataError
from zoo.registry import Registry, registry

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Item = TypeVar("Item")

REFRESHED = 0.1
"""Seconds between two looks of a progress bar, at least."""

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
    found = registry()
    for problem in (*found.plugins.problems, *found.problems):
        click.echo(f"Warning: {problem}", err=True)
    for plugin in found.plugins.broken:
        click.echo(f"Warning: plugin {plugin} is broken: {plugin.problem}", err=True)
    return found


def person_watches() -> bool:
    """Tell whether standard error is a terminal."""
    return sys.stderr.isatty()


def watched(items: Iterable[Item], what: str, total: int | None) -> Iterator[Item]:
    """Yield items; show a person how many of them are through."""
    if not person_watches():
        yield from items
        return
    from rich.progress import Progress

    # No thread of its own refreshes it: beside one no lane would be a process (zoo.lanes).
    with Progress(console=messages(), transient=True, auto_refresh=False) as bar:
        task, shown = bar.add_task(what, total=total), 0.0
        for item in items:
            yield item
            bar.advance(task)
            if time.monotonic() - shown > REFRESHED:
                bar.refresh()
                shown = time.monotonic()


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
