"""`zoo registry add`, `zoo registry remove` and `zoo registry check`."""

from __future__ import annotations

import sys

import click

from zoo.cli.fetching import bars
from zoo.cli.output import json_option, names, print_json, say


@click.group()
def registry() -> None:
    """Your own names for checkpoints, in ~/.config/zoo/registry.toml or where ZOO_REGISTRY says."""


@registry.command()
@click.argument("name")
@click.argument("where", metavar="ADDRESS|FOLDER")
@click.option("--summary", help="A line on what it is.")
@click.option("--terms", default="", help="The terms of its weights and its data.")
@click.option("--replace", is_flag=True, help="Put it in the place of your own entry of this name.")
def add(name: str, where: str, summary: str | None, terms: str, replace: bool) -> None:
    """Give the checkpoint at ADDRESS, or in FOLDER, the name NAME, pinned to what it is now."""
    from zoo.hub import user_catalogue as own
    from zoo.registry.catalogue import user_catalogue

    found = names()
    with bars() as show:
        pinned = own.add(
            name, where, found, summary=summary, terms=terms, replace=replace, show=show
        )
    say(f"{name} is {pinned}, in {user_catalogue()}")


@registry.command()
@click.argument("name")
def remove(name: str) -> None:
    """Take NAME out of your catalogue; what it named stays where it is."""
    from zoo.hub import user_catalogue as own
    from zoo.registry.catalogue import user_catalogue

    own.remove(name)
    say(f"{name} is no longer in {user_catalogue()}")


@registry.command()
@json_option
def check(as_json: bool) -> None:
    """Check every model and checkpoint of all catalogues, asking the hubs.

    Exits with 1 if anything is wrong.
    """
    from zoo.hub import user_catalogue as own
    from zoo.registry.registry import default_registry as everything

    results = []
    for checked in own.check(everything()):
        results.append(checked)
        if not as_json:
            state = checked.fault or "good"
            click.echo(f"{checked.kind:<10} {checked.name:<32} {state}".rstrip())
    if as_json:
        print_json([{"kind": c.kind, "name": c.name, "fault": c.fault or None} for c in results])
    sys.exit(1 if any(c.fault for c in results) else 0)
