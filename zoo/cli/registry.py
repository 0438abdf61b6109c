"""`zoo registry list`, `add`, `remove` and `check`."""

from __future__ import annotations

import sys

import click

from zoo.cli.completion import complete_checkpoint, complete_own
from zoo.cli.fetching import progress_bars
from zoo.cli.options import Group, json_option
from zoo.cli.output import console, loaded_registry, plain, print_json, say
from zoo.cli.settings import checkpoint_of


@click.group(cls=Group)
def registry() -> None:
    """Manage your own catalogue: ~/.config/zoo/registry.toml, or the file in ZOO_REGISTRY."""


@registry.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the checkpoints in your own catalogue, and their addresses."""
    from rich.table import Table as Grid

    from zoo.registry import catalogue

    file = catalogue.user_catalogue()
    contents = catalogue.read(file) if catalogue.may_exist(file) else catalogue.Contents()
    for problem in contents.problems:
        say(f"Warning: {problem}")
    rows = [
        {"name": each.name, "model": each.model, "location": each.location or str(each.folder),
         "summary": each.summary, "terms": each.terms}
        for each in contents.checkpoints.values()
    ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    grid = Grid("name", "address", "summary", box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*(plain(row[key]) for key in ("name", "location", "summary")))
    console().print(grid if rows else plain(f"{file} lists no checkpoints"), soft_wrap=not rows)


@registry.command()
@click.argument("name")
@click.argument("where", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@click.option("--summary", help="A description of one line.")
@click.option("--terms", default="", help="The terms of use of its weights and its data.")
@click.option("--replace", is_flag=True, help="Replace the entry of this name in your catalogue.")
def add(name: str, where: str, summary: str | None, terms: str, replace: bool) -> None:
    """Give NAME to CHECKPOINT, pinned to its present commit.

    CHECKPOINT is an address, a folder, a released name or an alias.
    """
    from zoo.hub import user_catalogue
    from zoo.registry import catalogue

    names = loaded_registry()
    with progress_bars() as progress:
        pinned = user_catalogue.add(
            name,
            checkpoint_of(where, names),
            names,
            summary=summary,
            terms=terms,
            replace=replace,
            progress=progress,
        )
    say(f"{name} is {pinned}, in {catalogue.user_catalogue()}")


@registry.command()
@click.argument("name", shell_complete=complete_own)
def remove(name: str) -> None:
    """Remove NAME from your catalogue; the checkpoint itself is kept."""
    from zoo.hub import user_catalogue
    from zoo.registry import catalogue

    user_catalogue.remove(name)
    say(f"{name} is no longer in {catalogue.user_catalogue()}")


@registry.command()
@json_option
def check(as_json: bool) -> None:
    """Check all models and checkpoints of all catalogues, and compare them with the hubs.

    The exit code is 1 if anything is wrong.
    """
    from zoo.hub import user_catalogue
    from zoo.registry.registry import default_registry

    results = []
    for checked in user_catalogue.check(default_registry()):
        results.append(checked)
        if not as_json:
            state = checked.fault or "good"
            click.echo(f"{checked.kind:<10} {checked.name:<32} {state}".rstrip())
    if as_json:
        print_json([{"kind": c.kind, "name": c.name, "fault": c.fault or None} for c in results])
    sys.exit(1 if any(c.fault for c in results) else 0)
