"""`zoo list`. Nothing here imports torch or pydantic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.card_text import size_in_words
from zoo.cli.completion import complete_entry
from zoo.cli.options import json_option
from zoo.cli.output import console, loaded_registry, plain, print_json
from zoo.errors import UnknownNameError
from zoo.evaluation.labels import metric_label
from zoo.registry.catalogue import AUTO, Released
from zoo.registry.declarations import METRICS, Metric
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.registry import Registry, matching

if TYPE_CHECKING:
    from rich.console import JustifyMethod


@dataclass(frozen=True)
class Column:
    """A column of a list.

    `value` returns a thing's cell, by default its attribute of the column's name. JSON has every
    column, the table for people only those with `shown`. Those with `heading` are written once,
    above the things that share them.
    """

    name: str
    value: Callable[[Registry, Any], Any] | None = None
    shown: bool = True
    heading: bool = False

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
        Column("dataset", shown=False, heading=True),
        Column("location", lambda _, released: released.location or str(released.folder),
               shown=False),
        Column("languages", _languages),
        Column("size", lambda _, each: sum(file.size for file in each.files.values()) or None),
        Column("scores"),
        Column("summary", shown=False, heading=True),
        Column("terms", shown=False, heading=True),
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
    "metrics": (Column("name"), Column("summary")),
    "recipes": (
        Column("name", lambda _, recipe: recipe[0]),
        Column("values", lambda _, recipe: {} if recipe[0] == AUTO else recipe[1], shown=False),
    ),
    **{
        kind: (Column("name"), Column("summary"))
        for kind in (
            "tokenizers", "objectives", "schedules", "optimizers", "initializations",
            "augmentations", "processors", "searches", "splitters",
        )
    },
}  # fmt: skip
"""The columns of each kind, in order. A new column is one line here."""


def rows_of(registry: Registry, kind: str, name: str = "") -> list[dict[str, Any]]:
    """Return everything of one kind, or what `name` names, as plain values by column.

    They are sorted by name. `name` is a name, or a pattern such as `*-tiny`. An entry of an open
    shelf that is named has its options too, which are read from its code.

    Raises:
        UnknownNameError: there is nothing of that name, or that matches the pattern.
        PluginError: the entry that is named is broken.
    """
    shelf = registry.shelves[kind]
    things: Mapping[str, Any] = shelf
    if kind == "metrics":  # those that need no plugin are on no shelf
        own = (Metric(each, summary, "") for each, summary in METRICS.items())
        things = {**shelf, **{each.name: each for each in own}}
    chosen = matching(things, name or "*")
    if name and not chosen:
        raise UnknownNameError(shelf.kind, name, things, shelf.hint)
    if kind == "recipes":  # values only, which do not have their name
        things = {each: (each, shelf[each]) for each in shelf}
    rows = [
        {column.name: column.cell(registry, things[each]) for column in COLUMNS[kind]}
        for each in chosen
    ]
    if chosen == [name] and isinstance(shelf, OpenShelf):
        described = shelf.described(name)
        rows[0] |= {"package": str(shelf.owner(name)), "options": described}
    return rows


@click.command("list")
@click.argument(
    "kind",
    required=False,
    shell_complete=lambda ctx, param, word: [kind for kind in COLUMNS if kind.startswith(word)],
)
@click.argument("name", required=False, shell_complete=complete_entry)
@json_option
def list_(kind: str | None, name: str | None, as_json: bool) -> None:
    """List architectures, models, checkpoints, datasets, and everything else that has a name.

    KIND is one of: architectures, models, checkpoints, datasets, metrics, importers, exporters,
    engines, recipes; tokenizers, objectives, schedules, optimizers, initializations, augmentations,
    which a recipe names; processors, searches, splitters, which decoding names. Without it, the
    number of each is shown. NAME shows one of them: a recipe with its values, and what a recipe or
    decoding names with its options: `zoo list schedules cosine`. It may be a pattern:
    `zoo list checkpoints '*en-fr*'`.
    """
    if kind is not None and kind not in COLUMNS:
        raise UnknownNameError("kind", kind, COLUMNS, "See `zoo list --help`")
    registry = loaded_registry()
    rows = {each: rows_of(registry, each, name or "") for each in ([kind] if kind else COLUMNS)}
    if as_json:
        print_json(rows)
        return
    if kind is None:
        _print_overview(rows)
    else:
        _print_table(kind, rows[kind])
    if kind in (None, "checkpoints"):
        _print_packages(registry)
    first = rows[kind][0] if kind and rows[kind] else {}
    if "options" in first:
        _print_options(**first)
    if kind == "recipes" and first.get("name") == name:
        for key, value in first["values"].items():
            click.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}")
        if name == AUTO:
            click.echo("Its values are chosen by the text, the model and the time: see --dry-run.")


def _print_overview(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Print a line for each kind: how many names there are, and the first that fit."""
    wide = max(map(len, rows)) + 2
    for kind, things in rows.items():
        names = [*dict.fromkeys(str(thing["name"]) for thing in things)]
        line = f"{kind:{wide}}{len(names):>3}  {', '.join(names)}"
        limit = console().width
        click.echo(line if len(line) <= limit else f"{line[: limit - 1]}…")
    click.echo(
        "\n`zoo list KIND` lists all of a kind, `zoo list KIND NAME` shows one; `zoo info NAME` "
        "describes an architecture, a model or a checkpoint.\n"
    )


def _print_table(kind: str, rows: list[dict[str, Any]]) -> None:
    """Print a kind's things, or those under each heading, as a table."""
    from rich.table import Table

    columns = [column.name for column in COLUMNS[kind] if column.shown]
    headings = [column.name for column in COLUMNS[kind] if column.heading]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: [row[name] for name in headings]):
        heading = "; ".join(row[name] for name in headings if row[name])
        groups.setdefault(heading, []).append(row)
    widths = {
        name: max((len(_text(name, row[name])) for row in rows), default=0) for name in columns
    }
    fits = sum(widths.values()) + 2 * len(columns) <= console().width
    console().print(f"[bold]{kind}[/bold]" if rows else f"[bold]{kind}[/bold]: none")
    for heading, members in groups.items():
        table = Table(box=None, pad_edge=False, show_header=not headings)
        for name in columns:
            # The tables of a list are aligned if they fit; a single one may wrap its cells.
            width = widths[name] if headings and fits else None
            justify: JustifyMethod = "right" if type(members[0][name]) is int else "left"
            table.add_column(name, justify=justify, no_wrap=name == "name", min_width=width)
        for row in members:
            table.add_row(*(plain(_text(name, row[name])) for name in columns))
        if headings:
            console().print("", plain(heading), sep="\n", style="bold")
        console().print(table)
    console().print()


def _print_options(
    name: str, package: str, options: list[dict[str, Any]], **columns: object
) -> None:
    """Print who brings an entry, and its options."""
    from rich.table import Table

    click.echo(f"{name} is brought by {package}")
    table = Table("option", "type", "default", box=None, pad_edge=False)
    for option in options:
        default = "required" if option["required"] else json.dumps(option["default"])
        table.add_row(*map(plain, (option["name"], option["type"], default)))
    console().print(table if options else "It has no options of its own.")


def _print_packages(registry: Registry) -> None:
    """Print where the checkpoints are that are not installed."""
    for package in registry.absent_packages():
        click.echo(f"{package.summary} ({package.terms}): pip install {package.name}\n")


def _text(name: str, value: Any) -> str:
    """Return a plain value as the text of a table's cell; of several scores, the first."""
    if name == "size":
        return "" if value is None else size_in_words(value)
    if isinstance(value, dict):
        scores = ((one, score) for one, score in value.items() if isinstance(score, int | float))
        return next((f"{metric_label(one)} {score:.2f}" for one, score in scores), "")
    if isinstance(value, list):
        return " to ".join(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
