"""`zoo data get` and `zoo data show`."""

from __future__ import annotations

from typing import Any

import click

from zoo.checkpoint.card_text import size_in_words
from zoo.cli.completion import complete_data, complete_dataset
from zoo.cli.fetching import progress_bars
from zoo.cli.options import Group, json_option, limit_option
from zoo.cli.output import confirm, console, loaded_registry, plain, print_json, say
from zoo.errors import DataError, UnknownNameError
from zoo.registry.declarations import Dataset
from zoo.registry.registry import Registry

ROWS = {
    "pairs": "pairs",
    "distinct sources": "distinct_sources",
    "duplicates": "duplicates",
    "empty": "empty",
    "copies": "copies",
    "characters": "characters",
    "words": "words",
    "longest": "longest",
    "alphabet": "distinct_characters",
}
"""What is shown of each split, and its key; of texts, that of the source and of the target."""
WIDTH = 70
"""The most characters of an example that are shown."""


@click.group(cls=Group)
def data() -> None:
    """Download datasets, and show what is in them."""


@data.command()
@click.argument("name", shell_complete=complete_dataset)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--accept-changed",
    is_flag=True,
    help="Keep files that were published anew; scores are then not comparable.",
)
@json_option
def get(name: str, yes: bool, accept_changed: bool, as_json: bool) -> None:
    """Download the public files of dataset NAME, after showing its terms and their size.

    They are kept in the folder `downloads` below ZOO_CACHE, and checked by SHA-256. An interrupted
    download is continued. ZOO_DATA_MIRROR names a server that has the files at the same paths.
    """
    from zoo.data.datasets import downloads_folder
    from zoo.data.downloads import fetch, is_present

    registry = loaded_registry()
    dataset = _dataset(registry, name)
    folder = downloads_folder()
    missing = [file for file in dataset.downloads if not is_present(file, folder)]
    if missing:
        size = sum(file.size for file in missing)
        unknown = " and files of unknown size" if not all(file.size for file in missing) else ""
        say(f"{name}: {dataset.summary}")
        say(f"Terms: {dataset.terms}")
        for file in missing:
            say(f"  {file.url}  {size_in_words(file.size) if file.size else 'unknown size'}")
        say(f"{size_in_words(size)}{unknown}, to {folder}")
        if not yes:
            confirm("Download?")
    changed = []
    with progress_bars() as progress:
        for file in missing:
            if not fetch(file, folder, progress, accept_changed=accept_changed):
                changed.append(file.file)
    if as_json:
        print_json({"name": name, "folder": str(folder), "downloaded": [f.file for f in missing],
                    "changed": changed})  # fmt: skip
        return
    for path in changed:
        say(f"Warning: {path} differs from the file that this version knows")
    say(f"{name}: {len(missing)} files downloaded" if missing else f"{name} is here already")


def _dataset(registry: Registry, name: str) -> Dataset:
    """Return a dataset that can be downloaded.

    Raises:
        UnknownNameError: there is no such dataset.
        DataError: it has no public files.
    """
    dataset = registry.datasets.get(name)
    if dataset is None:
        raise UnknownNameError("dataset", name, registry.datasets, "See `zoo list datasets`")
    if not dataset.downloads:
        known = [n for n, each in registry.datasets.items() if each.downloads]
        raise DataError(
            f"{name} has no files to download",
            "it is generated, or its plugin declares none",
            f"These have: {', '.join(sorted(known))}",
        )
    return dataset


@data.command()
@click.argument("name", shell_complete=complete_data)
@limit_option
@click.option("--pairs", type=click.IntRange(0), default=3, show_default=True,
              help="Pairs of each split to show.")  # fmt: skip
@json_option
def show(name: str, limit: int | None, pairs: int, as_json: bool) -> None:
    """Show some pairs and statistics of a dataset, or of files, by NAME.

    Lengths are means per text. Duplicates are pairs that occurred before in their split.
    """
    from zoo.data.datasets import find_dataset
    from zoo.data.overview import overview

    shown = overview(find_dataset(loaded_registry(), name), limit, pairs)
    if as_json:
        print_json(shown)
        return
    languages = " to ".join(filter(None, shown["languages"]))
    click.echo(f"{shown['name']}{f' ({languages})' if languages else ''}: {shown['summary']}")
    if shown["terms"]:
        click.echo(f"Terms: {shown['terms']}")
    _print_splits(shown)
    for split, values in shown["splits"].items():
        for number, (source, target) in enumerate(values["examples"], 1):
            click.echo(f"\n{split} {number}  {_short(source)}")
            click.echo(f"{' ' * len(f'{split} {number}')}  {_short(target)}")


def _print_splits(shown: dict[str, Any]) -> None:
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False)
    for column in ("", *shown["splits"]):
        grid.add_column(plain(column), justify="right" if column else "left")
    splits = shown["splits"].values()
    for name, key in ROWS.items():
        values = [
            f"{split[key]:,}"
            if key in split
            else " / ".join(f"{split[side][key]:,}" for side in ("source", "target"))
            for split in splits
        ]
        grid.add_row(plain(name), *map(plain, values))
    console().print(grid)
    for splits, count in shown["overlap"].items():
        if count:
            click.echo(f"Sources in both {' and '.join(splits.split(', '))}: {count:,}")


def _short(text: str) -> str:
    line = str(plain(" ".join(text.split())))  # a text of a file could control the terminal
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}…"
