"""Checkpoints that a command needs: found or pulled, with a progress bar on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.checkpoint.card_text import size_in_words
from zoo.checkpoint.format import is_checkpoint
from zoo.cli.output import messages, say, shows_progress
from zoo.cli.settings import checkpoint_of
from zoo.errors import UnknownNameError
from zoo.registry.address import Address

if TYPE_CHECKING:
    from zoo.hub.contract import Progress
    from zoo.hub.pull import Pulling
    from zoo.registry.registry import Registry


def located(
    name: str, registry: Registry, others: Iterable[str] = (), *, offline: bool = False
) -> Path:
    """Return a checkpoint's folder; it is pulled first if needed, and the pull is announced.

    `others` are names of other kinds that the command also accepts.

    Raises:
        UnknownNameError: there are `others`, and the name is none of them and no checkpoint.
        CheckpointError, HubError, ConversionError: as `zoo.interop.locate.locate`.
    """
    name = checkpoint_of(name, registry)
    if not (Path(name).exists() or Address.is_one(name) or name in registry.checkpoints):
        if not others or registry.absent_packages(name):
            raise registry.no_checkpoint(name)
        raise UnknownNameError("name", name, [*others, *registry.checkpoints], "See `zoo list`")
    # Importers need torch; a checkpoint of the zoo is found without it.
    if name in registry.checkpoints or is_checkpoint(Path(name)):
        from zoo.hub.pull import locate
    else:
        from zoo.interop.locate import locate

    with progress_bars() as progress:
        return locate(name, registry, offline=offline, on_pull=announce, progress=progress)


def announce(pulling: Pulling) -> None:
    """Print on standard error what is about to be downloaded."""
    source = "" if pulling.name == str(pulling.address) else f" from {pulling.address}"
    say(f"Pulling {pulling.name}{source}: {size_in_words(pulling.size)}")


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a function that shows the progress of each file; on a terminal only."""
    if not shows_progress():
        yield lambda file, done, size: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
               TransferSpeedColumn(), TimeRemainingColumn())  # fmt: skip
    with Bars(*columns, console=messages(), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(file: str, done: int, size: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=size)
            bars.update(tasks[file], completed=done)

        yield show
