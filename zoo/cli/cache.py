"""`zoo cache list`, `zoo cache remove`, `zoo cache clean` and `zoo cache verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from zoo.checkpoint.card_text import size_in_words
from zoo.cli.options import Group, json_option
from zoo.cli.output import confirm, console, plain, print_json, say
from zoo.registry.cache_folder import KINDS


@click.group(cls=Group)
def cache() -> None:
    """Manage the checkpoints of the Hugging Face Hub's cache, and the zoo's own cache."""


@cache.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the checkpoints in the cache."""
    from rich.table import Table as Grid

    from zoo.hub.cache import list_commits
    from zoo.registry.cache_folder import contents

    commits = list_commits()
    if as_json:
        print_json(
            [
                {"address": c.address, "commit": c.commit, "revisions": list(c.revisions),
                 "folder": str(c.folder), "size": c.size, "complete": c.complete}
                for c in commits
            ]
        )  # fmt: skip
        return
    grid = Grid("address", "commit", "revisions", "size", "", box=None, pad_edge=False)
    for c in commits:
        revisions = ", ".join(c.revisions)
        state = "" if c.complete else "incomplete"
        grid.add_row(
            plain(c.address), c.commit[:12], plain(revisions), size_in_words(c.size), state
        )
    console().print(grid if commits else "the cache is empty")
    size = sum(one.size for one in contents())
    if size:
        say(f"{size_in_words(size)} more can be made again when needed: see `zoo cache clean`")


@cache.command()
@click.argument("address")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def remove(address: str, yes: bool) -> None:
    """Remove ADDRESS from the cache: hf://owner/repo, or one @REVISION of it."""
    from zoo.hub.cache import find_commits
    from zoo.hub.cache import remove as remove_commits

    commits = find_commits(address)
    for cached in commits:
        say(f"{cached.address}@{cached.commit[:12]}  {size_in_words(cached.size)}")
    if not yes:
        confirm("Remove?")
    say(f"Freed {size_in_words(remove_commits(commits))}")


@cache.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...", type=click.Choice([*KINDS]))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def clean(kinds: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove files of these KINDs, which are made or downloaded again when they are needed.

    A KIND is imported, exports, tokens, pairs, datasets, downloads or kernels. Without one, show
    what there is: conversions of other projects' checkpoints, exports for other engines, tokenized
    data and the like.
    """
    from rich.table import Table as Grid

    from zoo.registry import cache_folder

    everything = cache_folder.contents()
    rows = [row for row in everything if not kinds or row.kind in kinds]
    freed, busy = 0, list[Path]()
    if not as_json:
        grid = Grid("kind", "number", "size", "", box=None, pad_edge=False)
        for row in rows:
            grid.add_row(row.kind, f"{row.number:,}", size_in_words(row.size), KINDS[row.kind])
        console().print(grid if rows else "there is nothing to remove")
    if kinds and rows:
        if not yes:
            confirm("Remove?")
        freed, busy = cache_folder.clean(kinds)
        everything = cache_folder.contents()
        say(f"Freed {size_in_words(freed)}")
        for path in busy:
            say(f"{path} is being written by another process, and stays")
    elif kinds:
        cache_folder.clean(kinds)  # lock files that are left of earlier times
    if as_json:
        print_json({"contents": [row._asdict() for row in everything], "freed": freed,
                    "busy": [str(path) for path in busy]})  # fmt: skip


@cache.command()
@click.argument("address", required=False)
@click.option("--remove", "remove_damaged", is_flag=True, help="Remove damaged files.")
@json_option
def verify(address: str | None, remove_damaged: bool, as_json: bool) -> None:
    """Verify the files in the cache, or those of ADDRESS, against their digests.

    Makes no request. The exit code is 1 if a file is damaged or missing.
    """
    from zoo.hub.cache import discard, find_commits, list_commits
    from zoo.hub.cache import verify as verify_commits

    results = list(verify_commits(find_commits(address) if address else list_commits()))
    all_faults = [fault for _, faults in results for fault in faults]
    if as_json:
        print_json(
            [
                {"address": c.address, "commit": c.commit, "good": not faults,
                 "faults": [{"file": str(f.file), "reason": f.reason} for f in faults]}
                for c, faults in results
            ]
        )  # fmt: skip
    else:
        for cached, faults in results:
            click.echo(f"{cached.address}@{cached.commit[:12]}  {'damaged' if faults else 'good'}")
            for fault in faults:
                click.echo(f"  {fault.file}: {fault.reason}")
    if remove_damaged and all_faults:
        removed = discard(all_faults)
        say(f"Files removed: {removed}. The next pull downloads what is missing")
    sys.exit(1 if all_faults else 0)
