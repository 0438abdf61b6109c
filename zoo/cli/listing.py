"""`zoo list` and `zoo info`: nothing here imports torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.format import CONFIG, architecture_of, describe
from zoo.cli.fetching import located
from zoo.cli.output import console, json_option, names, plain, print_json
from zoo.errors import CheckpointError, ConfigError, UnknownNameError
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.registry.config import Config
    from zoo.registry.parameters import Table

KINDS = ("architectures", "models", "checkpoints", "datasets")


def inventory(found: Registry) -> dict[str, list[dict[str, Any]]]:
    """Return everything that has a name, as plain values sorted by name."""
    rows: dict[str, list[dict[str, Any]]] = {
        "architectures": [
            {"name": a.name, "summary": a.summary, "paper": a.paper}
            for a in found.architectures.values()
        ],
        "models": [
            {
                "name": m.name,
                "architecture": m.architecture,
                "parameters": m.parameters,
                "source_vocab": m.source_vocab,
                "target_vocab": m.target_vocab,
                "installed": m.architecture in found.architectures,
                "summary": m.summary,
            }
            for m in found.models.values()
        ],
        "checkpoints": [
            {
                "name": c.name,
                "model": c.model,
                "dataset": c.dataset,
                "location": c.location or str(c.folder),
                "scores": c.scores,
                "terms": c.terms,
                "summary": c.summary,
            }
            for c in found.checkpoints.values()
        ],
        "datasets": [
            {
                "name": d.name,
                "languages": [language for language in d.languages if language],
                "splits": list(d.splits),
                "terms": d.terms,
                "summary": d.summary,
            }
            for d in found.datasets.values()
        ],
    }
    return {kind: sorted(rows[kind], key=lambda row: str(row["name"])) for kind in KINDS}


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@json_option
def list_(kind: str | None, as_json: bool) -> None:
    """List architectures, models, checkpoints and datasets."""
    everything = inventory(names())
    if kind is not None:
        everything = {kind: everything[kind]}
    if as_json:
        print_json(everything)
        return
    from rich.table import Table as Grid

    columns = {
        "architectures": ("name", "summary"),
        "models": ("name", "architecture", "parameters", "summary"),
        "checkpoints": ("name", "scores", "summary"),
        "datasets": ("name", "summary"),
    }
    for title, rows in everything.items():
        grid = Grid(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in columns[title]:
            number = column == "parameters"
            grid.add_column(column, justify="right" if number else "left", no_wrap=column == "name")
        for row in rows:
            cells = [row[column] for column in columns[title]]
            grid.add_row(*(plain(_cell(cell)) for cell in cells))
        console().print(grid if rows else f"[bold]{title}[/bold]: none", "", sep="\n")


def _cell(value: Any) -> str:
    """Return a value of an inventory as a table's cell."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {score}" for name, score in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Subject:
    """A configured model that `zoo info` tells about."""

    name: str
    architecture: str
    summary: str
    config: Config
    source_vocab: int
    target_vocab: int
    recipe: dict[str, Any]

    def table(self) -> Table:
        """Return the parameter table."""
        return self.config.parameters(self.source_vocab, self.target_vocab)


def subject_of(
    found: Registry,
    name: str,
    source: int | None,
    target: int | None,
    settings: Mapping[str, Any],
) -> Subject:
    """Find a model, or a checkpoint by name or folder, and configure it.

    Raises:
        UnknownNameError: `name` is none of them.
    """
    if name in found.models:
        model = found.models[name]
        sizes = (source or model.source_vocab, target or model.target_vocab)
        config = found.config(name, settings)
        if config.one_vocabulary and sizes[0] != sizes[1]:
            raise ConfigError(f"{name} has one vocabulary", f"{sizes[0]:,} is not {sizes[1]:,}")
        return Subject(name, model.architecture, model.summary, config, *sizes, model.recipe)
    folder = located(name, found)
    if (folder / "config.json").is_file():
        if settings or source or target:
            raise CheckpointError(f"{name} is a checkpoint", "its configuration is what it is")
        return _subject_in(found, name, folder)
    raise UnknownNameError(
        "name", name, [*found.models, *found.architectures, *found.checkpoints], "See `zoo list`"
    )


def _subject_in(found: Registry, name: str, folder: Path) -> Subject:
    written = describe(folder)
    sizes = (written["source_vocab"], written["target_vocab"])
    architecture = architecture_of(folder, written, found)
    config = architecture.config_type().parse(written["config"], f"{folder / CONFIG}, config")
    summary = f"checkpoint of {written['model']}"
    return Subject(name, architecture.name, summary, config, *sizes, {})


@click.command()
@click.argument("name")
@click.option("--parameters", is_flag=True, help="Every parameter: symbol, shape, count.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="A value of the configuration; may be repeated.")  # fmt: skip
@click.option("--source-vocab", type=click.IntRange(4), help="Source entries to count for.")
@click.option("--target-vocab", type=click.IntRange(4), help="Target entries to count for.")
@json_option
def info(
    name: str,
    parameters: bool,
    settings: tuple[str, ...],
    source_vocab: int | None,
    target_vocab: int | None,
    as_json: bool,
) -> None:
    """Tell about a model, an architecture, or a checkpoint.

    --set shows a model as it would be with other values; a checkpoint is what it is.
    """
    from zoo.registry.config import parse_settings

    found = names()
    if name in found.architectures and name not in found.models:
        _architecture(found, name, as_json)
        return
    subject = subject_of(found, name, source_vocab, target_vocab, parse_settings(settings))
    table = subject.table()
    if as_json:
        print_json(
            {
                "name": subject.name,
                "architecture": subject.architecture,
                "summary": subject.summary,
                "paper": found.architecture(subject.architecture).paper,
                "source_vocab": subject.source_vocab,
                "target_vocab": subject.target_vocab,
                "parameters": table.total,
                "blocks": table.blocks(),
                "table": [row.as_json() for row in table],
                "config": subject.config.model_dump(mode="json"),
                "length_limits": subject.config.length_limits._asdict(),
                "recipe": subject.recipe,
            }
        )
        return
    _print_subject(found, subject, table, parameters)


def _print_subject(found: Registry, subject: Subject, table: Table, parameters: bool) -> None:
    from rich.table import Table as Grid

    out = console()
    out.print(plain(f"{subject.name}  {subject.summary}"), style="bold")
    out.print(
        f"architecture {subject.architecture}: {found.architecture(subject.architecture).paper}"
    )
    sizes = f"{subject.source_vocab:,} source and {subject.target_vocab:,} target entries"
    out.print(f"{table.total:,} parameters at {sizes}\n")
    fields = type(subject.config).model_fields
    grid = Grid("config", "value", "meaning", box=None, pad_edge=False)
    for key, value in subject.config.model_dump(mode="json").items():
        grid.add_row(key, plain(json.dumps(value)), plain(fields[key].description))
    out.print(grid, "", sep="\n")
    if parameters:
        grid = Grid("symbol", "shape", "numbers", "parameters", "weight", box=None, pad_edge=False)
        grid.columns[3].justify = "right"
        block = ""
        for row in table:
            if row.block != block:
                block = row.block
                grid.add_row(f"[bold]{block}[/bold]", "", "", f"{table.blocks()[block]:,}", "")
            numbers = " × ".join(f"{size:,}" for size in row.shape)
            part = f"[{row.slice[0]}:{row.slice[1]}]" if row.slice else ""
            cells = (f"  {row.symbol}", row.formula, numbers, f"{row.count:,}", row.path + part)
            grid.add_row(*map(plain, cells))
        grid.add_row("[bold]total[/bold]", "", "", f"[bold]{table.total:,}[/bold]", "")
    else:
        grid = Grid("block", "parameters", box=None, pad_edge=False)
        grid.columns[1].justify = "right"
        for block, count in table.blocks().items():
            grid.add_row(block, f"{count:,}")
        grid.add_row("[bold]total[/bold]", f"[bold]{table.total:,}[/bold]")
    out.print(grid)


def _architecture(found: Registry, name: str, as_json: bool) -> None:
    from rich.table import Table as Grid

    declared = found.architecture(name)
    fields = declared.config_type().model_fields
    models = sorted(m.name for m in found.models.values() if m.architecture == name)
    if as_json:
        described = {key: field.description for key, field in fields.items()}
        print_json({**asdict(declared), "models": models, "fields": described})
        return
    out = console()
    out.print(f"[bold]{name}[/bold]  {declared.summary}\n{declared.paper}")
    out.print(f"models: {', '.join(models)}\n")
    grid = Grid("config", "meaning", box=None, pad_edge=False)
    for key, field in fields.items():
        grid.add_row(key, plain(field.description))
    out.print(grid)
