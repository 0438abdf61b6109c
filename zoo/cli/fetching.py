"""Checkpoints that a command needs here: found, fetched with a bar where a person watches."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.cli.output import messages, person_watches, say
from zoo.errors import HubWarning

if TYPE_CHECKING:
    from zoo.hub.contract import Show
    from zoo.hub.pull import Pulling
    from zoo.registry.registry import Registry


def located(name: str, registry: Registry, *, offline: bool = False) -> Path:
    """Return a checkpoint's folder, pulled first if need be, which is told."""
    from zoo.hub.pull import locate

    with bars() as show:
        return locate(name, registry, offline=offline, on_pull=tell, show=show)


def tell(pulling: Pulling) -> None:
    """Say what is about to be fetched."""
    whence = "" if pulling.name == str(pulling.address) else f" from {pulling.address}"
    say(f"Pulling {pulling.name}{whence}: {readable(pulling.size)}")


def readable(size: int) -> str:
    """Return a number of bytes as a person says it."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        amount /= 1000
    return f"{amount:.3g} GB"


@contextlib.contextmanager
def bars() -> Iterator[Show]:
    """Give a function that shows how far each file is; it shows nothing where nobody watches."""
    if not person_watches():
        yield lambda file, done, size: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
               TransferSpeedColumn(), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=messages(), transient=True) as progress:
        tasks: dict[str, Any] = {}

        def show(file: str, done: int, size: int) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file, total=size)
            progress.update(tasks[file], completed=done)

        yield show


@contextlib.contextmanager
def hub_warnings() -> Iterator[None]:
    """Show what a hub could not do as a line on standard error."""

    def shown(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, HubWarning):
            click.echo(f"Warning: {' '.join(str(message).split())}", err=True)
        else:
            before(message, category, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", HubWarning)
        before = warnings.showwarning
        # Python looks this name up on purpose: it is meant to be replaced.
        warnings.showwarning = shown
        yield
