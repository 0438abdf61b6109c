"""`zoo pull`, `zoo push` and `zoo convert`."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from zoo.cli.fetching import located, readable
from zoo.cli.output import json_option, names, print_json, say
from zoo.errors import UnknownNameError

DTYPES = ("float32", "float16", "bfloat16")


@click.command()
@click.argument("name", metavar="NAME|ADDRESS")
@click.option("--offline", is_flag=True, help="Ask nobody: use what is here, or fail.")
@json_option
def pull(name: str, offline: bool, as_json: bool) -> None:
    """Bring a checkpoint here, checked, and print its folder.

    NAME is a released checkpoint's; ADDRESS reads hf://owner/repo or file:///folder, with
    @REVISION after it for a branch, a tag or a commit. What is here whole at its pinned commit is
    not fetched again.
    """
    from zoo.registry.address import Address

    found = names()
    if name not in found.checkpoints and not Address.is_one(name):
        raise UnknownNameError(
            "checkpoint", name, found.checkpoints, "An address reads hf://owner/repo"
        )
    folder = located(name, found, offline=offline)
    if as_json:
        print_json({"name": name, "folder": str(folder), "commit": folder.name})
    else:
        click.echo(folder)


@click.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("address")
@click.option("--private", is_flag=True, help="Make the repository private, if it is made new.")
@click.option("--revision", help="The branch to push to; made if it is not there.")
@click.option("--message", "-m", help="What the commit says.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Send the weights as this type.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
def push(
    checkpoint: Path,
    address: str,
    private: bool,
    revision: str | None,
    message: str | None,
    dtype: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send the folder CHECKPOINT to ADDRESS, by one commit, or none if nothing differs.

    ADDRESS reads hf://owner/repo or file:///folder. Your token for the Hub is the one that
    `hf auth login` keeps, or HF_TOKEN.
    """
    from zoo.errors import HubError
    from zoo.hub.push import push as push_folder
    from zoo.registry.address import Address

    found = names()
    where = Address.parse(address)
    if revision is not None:
        if where.revision not in (None, revision):
            raise HubError(f"{address} names a revision already", f"--revision {revision} differs")
        where = Address.parse(f"{where.at(None)}@{revision}")
    with tempfile.TemporaryDirectory() as beside:
        if dtype is not None:
            checkpoint = _converted(checkpoint, Path(beside), dtype)
        done = push_folder(
            checkpoint, where, found, private=private, message=message, dry_run=dry_run
        )
    if as_json:
        changes = [asdict(change) for change in done.changes]
        print_json(
            {"address": str(where), "commit": done.commit, "changes": changes, "page": done.page}
        )
        return
    for change in done.changes:
        click.echo(f"{change.kind:<7} {change.path}  {readable(change.size)}")
    if not done.changes:
        click.echo(f"{where} has it all already, at commit {done.commit}")
    elif dry_run:
        say("Nothing was sent: --dry-run")
    else:
        click.echo(f"{done.page} is at commit {done.commit}")


def _converted(checkpoint: Path, beside: Path, dtype: str) -> Path:
    from zoo.checkpoint.checkpoint import convert as convert_folder

    made = beside / checkpoint.resolve().name
    convert_folder(checkpoint, made, dtype)
    return made


@click.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--dtype", required=True, type=click.Choice(DTYPES), help="The weights' type on disk."
)
def convert(checkpoint: Path, out: Path, dtype: str) -> None:
    """Write the folder CHECKPOINT again at OUT, with its weights as another type."""
    from zoo.checkpoint.checkpoint import convert as convert_folder

    convert_folder(checkpoint, out, dtype)
    say(f"{out}: {readable((out / 'model.safetensors').stat().st_size)} of {dtype}")
