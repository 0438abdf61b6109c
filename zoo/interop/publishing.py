"""Push a checkpoint to a hub: its own folder, or an export to another project's format."""

from __future__ import annotations

import os
import tempfile
from os import PathLike
from pathlib import Path

from zoo.checkpoint.checkpoint import read
from zoo.errors import ConversionError
from zoo.hub import push as hub
from zoo.hub.metadata import check_metadata
from zoo.interop.exporter import export_checkpoint, exporter_of
from zoo.interop.locate import locate
from zoo.registry.address import Address
from zoo.registry.arguments import checked
from zoo.registry.registry import Registry, default_registry


@checked
def push(
    checkpoint: str | PathLike[str],
    address: Address | str,
    registry: Registry | None = None,
    *,
    private: bool = False,
    message: str | None = None,
    dry_run: bool = False,
    format: str | None = None,
    precision: str | None = None,
) -> hub.Pushed:
    """Push a checkpoint to an address, by one commit, or by none if nothing differs.

    Args:
        checkpoint: its folder, a released name or an address.
        address: hf://owner/repo or file:///folder, optionally with @BRANCH.
        registry: where hubs, formats and names are looked up; by default that of the installed
            plugins.
        private: makes a repository private that is created.
        message: of the commit.
        dry_run: only return what would change.
        format: push an export to this format, such as `huggingface`, instead of the checkpoint.
        precision: of the exported weights, as for `zoo.export`.

    Raises:
        UnknownNameError: there is no such hub or format.
        CheckpointError: the folder is not a complete checkpoint, or its card is invalid.
        ConversionError: the format cannot express the checkpoint exactly; lists all reasons.
        ConflictError: the repository has a commit by someone else since it was read.
        HubError: the push failed.
    """
    registry = registry or default_registry()
    if format is None:
        if precision is not None:
            raise ConversionError(
                "a precision is for an export", "no format is given", "Name one: format="
            )
        folder = Path(checkpoint)
        if not os.path.exists(checkpoint):
            folder = locate(checkpoint, registry)
            message = message or f"Push {checkpoint}"
        return hub.push(
            folder, address, registry, private=private, message=message, dry_run=dry_run
        )
    address = hub.branch(address)
    made = read(locate(checkpoint, registry), registry)
    message = message or f"Push {made.name} as {format}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / format
        export_checkpoint(made, format, folder, registry, precision)
        check_metadata(folder)
        written = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
        names = {path.as_posix() for path in written}
        names |= {*exporter_of(format, made.architecture, registry).files}
        return hub.send(folder, address, registry, sorted(names), private, message, dry_run)
