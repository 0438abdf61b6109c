"""`zoo list`. Nothing here imports torch or pydantic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from zoo.cli.fetching import readable
from zoo.cli.options import json_option
from zoo.cli.output import console, loaded_registry, plain, print_json
from zoo.registry.catalogue import Released
from zoo.registry.registry import Registry


@dataclass(frozen=True)
class Column:
    """A column of a list.

    `value` returns a thing's cell, by default its attribute of the column's name. JSON has every
    column, the table for people only those with `shown`.
    """

    name: str
    value: Callable[[Registry, Any], Any] | None = None
    shown: bool = True

    def cell(self, registry: Registry, thing: Any) -> Any:
        """Return the plain value for one thing."""
        return self.value(registry, thing) if self.value else getattr(thing, self.name)


def _languages(registry: Registry, released: Released) -> list[str]:
    """Return the languages of source and target, as far as they are languages."""
    dataset = registry.datasets.get(released.dataset)
    return [code for code in dataset.languages if code] if dataset else []


COLUMNS = {
    "architectures": (
        Column("name"),
        Column("summary"),
        Column("paper", shown=False),
    ),
    "models": (
        Column("name"),
        Column("architecture"),
        Column("parameters"),
        Column("source_vocab", shown=False),
        Column("target_vocab", shown=False),
        Column("installed", lambda registry, model: model.architecture in registry.architectures,
               shown=False),
        Column("summary"),
    ),
    "checkpoints": (
        Column("name"),
        Column("model", shown=False),
        Column("dataset", shown=False),
        Column("location", lambda _, released: released.location or str(released.folder),
               shown=False),
        Column("languages", _languages),
        Column("size", lambda _, each: sum(file.size for file in each.files.values()) or None),
        Column("scores"),
        Column("terms"),
        Column("summary", shown=False),
    ),
    "datasets": (
        Column("name"),
        Column("languages", lambda _, dataset: [code for code in dataset.languages if code],
               shown=False),
        Column("splits", lambda _, dataset: list(dataset.splits), shown=False),
        Column("terms", shown=False),
        Column("summary"),
    ),
    "importers": (Column("name"), Column("summary")),
    "exporters": (
        Column("name"),
        Column("architecture", lambda _, format: format.architecture or "any"),
        Column("summary"),
    ),
    "engines": (Column("name"), Column("format"), Column("summary")),
    "tokenizers": (Column("name"), Column("summary")),
    "processors": (Column("name"), Column("summary")),
    "searches": (Column("name"), Column("summary")),
    "splitters": (Column("name"), Column("summary")),
}  # fmt: skip
"""The columns of each kind, in order. A new column is one line here."""


def rows_of(registry: Registry, kind: str) -> list[dict[str, Any]]:
    """Return everything of one kind, sorted by name, as plain values by column."""
    shelf = registry.shelves[kind]
    return [
        {column.name: column.cell(registry, shelf[name]) for column in COLUMNS[kind]}
        for name in sorted(shelf)
    ]


@click.command("list")
@click.argument("kind", type=click.Choice(tuple(COLUMNS)), required=False)
@json_option
def list_(kind: str | None, as_json: bool) -> None:
    """List architectures, models, checkpoints, datasets, foreign formats and engines."""
    registry = loaded_registry()
    rows = {each: rows_of(registry, each) for each in ([kind] if kind else COLUMNS)}
    if as_json:
        print_json(rows)
        return
    for each in rows:
        _print_table(each, rows[each])
        if each == "checkpoints":
            _print_packages(registry)


def _print_table(kind: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False)
    columns = [column.name for column in COLUMNS[kind] if column.shown]
    for name in columns:
        number = bool(rows) and type(rows[0][name]) is int
        table.add_column(name, justify="right" if number else "left", no_wrap=name == "name")
    for row in rows:
        table.add_row(*(plain(_text(name, row[name])) for name in columns))
    console().print(table if rows else f"[bold]{kind}[/bold]: none", "", sep="\n")


def _print_packages(registry: Registry) -> None:
    """Print where the checkpoints are that are not installed."""
    for package in registry.absent_packages():
        click.echo(f"{package.summary} ({package.terms}): pip install {package.name}\n")


def _text(name: str, value: Any) -> str:
    """Return a plain value as the text of a table's cell."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {score}" for name, score in value.items())
    if isinstance(value, list):
        return " to ".join(value)
    if name == "size" and value:
        return readable(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
