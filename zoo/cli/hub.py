"""`zoo pull`, `zoo push` and `zoo convert`."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.card_text import size_in_words
from zoo.cli.completion import complete_checkpoint, complete_named
from zoo.cli.fetching import located
from zoo.cli.options import NewPath, json_option
from zoo.cli.output import loaded_registry, print_json, say
from zoo.cli.settings import checkpoint_of
from zoo.errors import UnknownNameError

if TYPE_CHECKING:
    from zoo.hub.push import Pushed
    from zoo.registry.address import Address

DTYPES = ("float32", "float16", "bfloat16")


@click.command()
@click.argument("name", metavar="NAME|ADDRESS", shell_complete=complete_checkpoint)
@click.option("--offline", is_flag=True, help="Make no request; fail if it is not in the cache.")
@json_option
def pull(name: str, offline: bool, as_json: bool) -> None:
    """Download and verify a checkpoint, and print its folder.

    NAME is a released checkpoint. ADDRESS is hf://owner/repo or file:///folder, optionally with
    @REVISION: a branch, a tag or a commit. A pinned commit that is complete in the cache is not
    downloaded again.
    """
    from zoo.hub.pull import commit_of
    from zoo.registry.address import Address

    registry = loaded_registry()
    name = checkpoint_of(name, registry)
    if name not in registry.checkpoints and not Address.is_one(name):
        raise UnknownNameError(
            "checkpoint", name, registry.checkpoints, "An address is hf://owner/repo"
        )
    folder = located(name, registry, offline=offline)
    if as_json:
        print_json({"name": name, "folder": str(folder), "commit": commit_of(name, registry)})
    else:
        click.echo(folder)


@click.command()
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.argument("address")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--revision", help="The branch to push to; created if it does not exist.")
@click.option("--message", "-m", help="The commit message.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Convert the weights to this type.")
@click.option("--format", "format_name", shell_complete=complete_named("exporters"),
              help="Push an export, such as huggingface; see `zoo list exporters`.")  # fmt: skip
@click.option("--precision", help="The type of an export's weights, such as bfloat16 or int8.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
def push(
    checkpoint: str,
    address: str,
    private: bool,
    revision: str | None,
    message: str | None,
    dtype: str | None,
    format_name: str | None,
    precision: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Upload CHECKPOINT, a folder, a name or an address, to ADDRESS, in one commit.

    With --format, its export is uploaded instead.

    ADDRESS is hf://owner/repo or file:///folder. Without changes there is no commit. The Hub needs
    your token, from `hf auth login` or HF_TOKEN.
    """
    registry = loaded_registry()
    checkpoint = checkpoint_of(checkpoint, registry)
    target = _target(address, revision)
    if dtype is not None and format_name is not None:
        raise click.UsageError("--dtype is not for an export: use --precision.")
    if precision is not None and format_name is None:
        raise click.UsageError("--precision is for an export: name its --format.")
    options: dict[str, Any] = {"private": private, "message": message, "dry_run": dry_run}
    if format_name is not None:
        from zoo.interop.publishing import push as push_export

        folder = located(checkpoint, registry)
        options |= {"format": format_name, "precision": precision}
        pushed = push_export(folder, target, registry, **options)
    else:
        from zoo.hub.push import push as push_folder

        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(checkpoint)
            if not os.path.exists(checkpoint):
                folder = located(checkpoint, registry)
                options["message"] = message or f"Push {checkpoint}"
            if dtype is not None:
                folder = _converted(folder, Path(temporary), dtype)
            pushed = push_folder(folder, target, registry, **options)
    if as_json:
        changes = [asdict(change) for change in pushed.changes]
        print_json(
            {"address": str(target), "commit": pushed.commit, "changes": changes,
             "page": pushed.page}
        )  # fmt: skip
    else:
        _show(pushed, dry_run)


def _show(pushed: Pushed, dry_run: bool) -> None:
    """Print what a push changed, or would change."""
    for change in pushed.changes:
        click.echo(f"{change.kind:<7} {change.path}  {size_in_words(change.size)}")
    if not pushed.changes:
        click.echo(f"{pushed.address} is up to date, at commit {pushed.commit}")
    elif dry_run:
        say("Nothing was sent: --dry-run")
    else:
        click.echo(f"{pushed.page} is at commit {pushed.commit}")


def _target(address: str, revision: str | None) -> Address:
    from zoo.errors import HubError
    from zoo.registry.address import Address

    target = Address.parse(address)
    if revision is None:
        return target
    if target.revision not in (None, revision):
        raise HubError(f"{address} already names a revision", f"--revision {revision} differs")
    return target.at(revision)


def _converted(checkpoint: Path, parent: Path, dtype: str) -> Path:
    from zoo.checkpoint.checkpoint import convert as convert_folder

    folder = parent / checkpoint.resolve().name
    convert_folder(checkpoint, folder, dtype)
    return folder


@click.command()
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.argument("out", type=NewPath())
@click.option(
    "--dtype", required=True, type=click.Choice(DTYPES), help="The type of the weights on disk."
)
def convert(checkpoint: str, out: Path, dtype: str) -> None:
    """Copy CHECKPOINT to the folder OUT with weights of another type."""
    from zoo.checkpoint.checkpoint import convert as convert_folder
    from zoo.checkpoint.format import WEIGHTS

    convert_folder(located(checkpoint, loaded_registry()), out, dtype)
    say(f"{out}: {size_in_words((out / WEIGHTS).stat().st_size)} in {dtype}")
