"""What a plugin can add: every hook, with its exact signature."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from zoo.address import Scheme
    from zoo.architecture import Architecture
    from zoo.datasets import Dataset
    from zoo.events import Callback

hookspec = pluggy.HookspecMarker("zoo")
hookimpl = pluggy.HookimplMarker("zoo")


@hookspec
def zoo_architectures() -> Iterable[Architecture]:  # type: ignore[empty-body]  # a specification
    """Return the architectures that this plugin brings."""


@hookspec
def zoo_catalogues() -> Iterable[Path]:  # type: ignore[empty-body]  # a specification
    """Return TOML files that list models, checkpoints and recipes."""


@hookspec
def zoo_datasets() -> Iterable[Dataset]:  # type: ignore[empty-body]  # a specification
    """Return the datasets that this plugin brings."""


@hookspec
def zoo_hubs() -> Iterable[Scheme]:  # type: ignore[empty-body]  # a specification
    """Return the hubs that this plugin brings, each with the scheme of its addresses."""


@hookspec
def zoo_commands(cli: click.Group) -> None:
    """Add commands to the `zoo` command line: `cli.add_command(...)`."""


@hookspec
def zoo_callbacks() -> Iterable[Callback]:  # type: ignore[empty-body]  # a specification
    """Return callbacks for a training run that begins."""
