"""`zoo cache list`, `zoo cache remove` and `zoo cache verify`."""

from __future__ import annotations

import sys

import click

from zoo.cli.fetching import readable
from zoo.cli.output import console, json_option, plain, print_json, say


@click.group()
def cache() -> None:
    """The checkpoints that were pulled from the Hub, in its client's cache."""


@cache.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List what is here."""
    from rich.table import Table as Grid

    from zoo.hub.cache import listed

    found = listed()
    if as_json:
        print_json(
            [
                {"address": c.address, "commit": c.commit, "names": list(c.names),
                 "folder": str(c.folder), "size": c.size, "whole": c.whole}
                for c in found
            ]
        )  # fmt: skip
        return
    grid = Grid("address", "commit", "names", "size", "", box=None, pad_edge=False)
    for c in found:
        names = ", ".join(c.names)
        state = "" if c.whole else "in part"
        grid.add_row(plain(c.address), c.commit[:12], plain(names), readable(c.size), state)
    console().print(grid if found else "nothing is in the cache")


@cache.command()
@click.argument("address")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(address: str, yes: bool) -> None:
    """Remove ADDRESS from the cache: hf://owner/repo whole, or one @REVISION of it."""
    from zoo.hub import cache as room

    chosen = room.matching(address)
    for cached in chosen:
        say(f"{cached.address}@{cached.commit[:12]}  {readable(cached.size)}")
    if not yes:
        click.confirm("Remove?", abort=True, err=True)
    say(f"Freed {readable(room.remove(chosen))}")


@cache.command()
@click.argument("address", required=False)
@click.option("--remove", "clear", is_flag=True, help="Remove the files that are damaged.")
@json_option
def verify(address: str | None, clear: bool, as_json: bool) -> None:
    """Check every file in the cache, or of ADDRESS, against its digest; asks nobody.

    Exits with 1 if any is damaged or missing.
    """
    from zoo.hub import cache as room

    results = list(room.verify(room.matching(address) if address else room.listed()))
    bad = [fault for _, faults in results for fault in faults]
    if as_json:
        print_json(
            [
                {"address": c.address, "commit": c.commit, "whole": not faults,
                 "faults": [{"file": str(f.file), "reason": f.reason} for f in faults]}
                for c, faults in results
            ]
        )  # fmt: skip
    else:
        for cached, faults in results:
            click.echo(f"{cached.address}@{cached.commit[:12]}  {'damaged' if faults else 'good'}")
            for fault in faults:
                click.echo(f"  {fault.file}: {fault.reason}")
    if clear and bad:
        room.discard(bad)
        say("Removed; pull again")
    sys.exit(1 if bad else 0)
