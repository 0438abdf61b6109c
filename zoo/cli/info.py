"""`zoo info`: a model, a checkpoint or an architecture in detail. Nothing here imports torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.format import CONFIG, architecture_of, describe
from zoo.cli.completion import complete_any, complete_setting
from zoo.cli.fetching import located
from zoo.cli.options import json_option
from zoo.cli.output import console, loaded_registry, plain, print_json
from zoo.cli.settings import check_alias
from zoo.errors import CheckpointError, ConfigError
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.registry.config import Config
    from zoo.registry.parameters import Table


LONG_TABLE = 3_000
"""The most parameters that are laid out as a table; more are separated by tabs."""


@dataclass(frozen=True)
class Subject:
    """A configured model, whose details `zoo info` prints."""

    name: str
    architecture: str
    summary: str
    config: Config
    source_vocab: int
    target_vocab: int
    recipe: dict[str, Any]
    facts: Mapping[str, Any] | None = None
    """What is known about a checkpoint; None for a model."""

    def table(self) -> Table:
        """Return the parameter table."""
        from zoo.registry.config import parameters_of

        return parameters_of(self.config, self.source_vocab, self.target_vocab)

    def as_json(self, registry: Registry) -> dict[str, Any]:
        """Return all details as plain values."""
        table = self.table()
        return {
            "name": self.name,
            "architecture": self.architecture,
            "summary": self.summary,
            "paper": registry.architecture(self.architecture).paper,
            "source_vocab": self.source_vocab,
            "target_vocab": self.target_vocab,
            "parameters": table.total,
            "blocks": table.blocks(),
            "table": [row.as_json() for row in table],
            "config": self.config.model_dump(mode="json"),
            "length_limits": self.config.length_limits._asdict(),
            "recipe": self.recipe,
            **({} if self.facts is None else {"checkpoint": self.facts}),
        }


@click.command()
@click.argument("name", shell_complete=complete_any)
@click.option("--parameters", is_flag=True, help="List every parameter: symbol, shape, count.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              shell_complete=complete_setting,
              help="A value of a model's configuration; may be repeated.")  # fmt: skip
@click.option("--source-vocab", type=click.IntRange(4), help="Size of the source vocabulary.")
@click.option("--target-vocab", type=click.IntRange(4), help="Size of the target vocabulary.")
@json_option
def info(
    name: str,
    parameters: bool,
    settings: tuple[str, ...],
    source_vocab: int | None,
    target_vocab: int | None,
    as_json: bool,
) -> None:
    """Show the details of a model, an architecture or a checkpoint.

    Of a checkpoint: languages, data, origin, terms, license, size, scores, recommended decoding, an
    example, intended use, and how long its training sources were.

    --set and the vocabulary sizes apply to models; those of a checkpoint are fixed.
    """
    from zoo.registry.config import parse_settings

    registry = loaded_registry()
    check_alias(name, registry)
    if name in registry.architectures and name not in registry.models:
        if settings or source_vocab or target_vocab or parameters:
            models = [each for each, model in registry.models.items() if model.architecture == name]
            raise click.UsageError(
                f"{name} is an architecture: these options are for its models {', '.join(models)}"
            )
        _print_architecture(registry, name, as_json)
        return
    sizes = (source_vocab, target_vocab)
    subject = subject_of(registry, name, sizes, parse_settings(settings))
    if as_json:
        print_json(subject.as_json(registry))
        return
    _print_subject(registry, subject)
    if parameters:
        _print_parameters(subject.table())
    else:
        _print_blocks(subject.table())


def subject_of(
    registry: Registry,
    name: str,
    vocabularies: tuple[int | None, int | None],
    settings: Mapping[str, Any],
) -> Subject:
    """Find a model, or a checkpoint by name or folder, and configure it.

    Raises:
        UnknownNameError: `name` is none of them.
        ConfigError: the settings or the vocabulary sizes do not fit the model.
        CheckpointError: settings or sizes were given for a checkpoint.
    """
    if name in registry.models:
        model = registry.models[name]
        sizes = (vocabularies[0] or model.source_vocab, vocabularies[1] or model.target_vocab)
        config = registry.config(name, settings)
        if config.one_vocabulary and sizes[0] != sizes[1]:
            raise ConfigError(
                f"{name} has one vocabulary for both sides", f"{sizes[0]:,} is not {sizes[1]:,}"
            )
        return Subject(name, model.architecture, model.summary, config, *sizes, model.recipe)
    folder = located(name, registry, [*registry.models, *registry.architectures])
    if settings or any(vocabularies):
        raise CheckpointError(
            f"{name} is a checkpoint",
            "its configuration and vocabularies are fixed",
            "Leave out --set, --source-vocab and --target-vocab",
        )
    return _subject_in(registry, name, folder)


def _subject_in(registry: Registry, name: str, folder: Path) -> Subject:
    """Return the model of the checkpoint in `folder`."""
    record = describe(folder)
    sizes = (record["source_vocab"], record["target_vocab"])
    architecture = architecture_of(folder, record, registry)
    config = architecture.config_type().parse(record["config"], f"{folder / CONFIG}, config")
    summary = f"checkpoint of {record['model']}"
    from zoo.checkpoint.facts import checkpoint_facts

    facts = checkpoint_facts(folder, record, registry)
    return Subject(name, architecture.name, summary, config, *sizes, {}, facts)


def _print_subject(registry: Registry, subject: Subject) -> None:
    from rich.table import Table as Grid

    out = console()
    paper = registry.architecture(subject.architecture).paper
    sizes = f"{subject.source_vocab:,} source and {subject.target_vocab:,} target entries"
    out.print(plain(f"{subject.name}  {subject.summary}"), style="bold")
    out.print(plain(f"architecture {subject.architecture}: {paper}"))
    out.print(f"{subject.table().total:,} parameters at {sizes}\n")
    if subject.facts is not None:
        from zoo.checkpoint.facts import facts_in_words

        known = Grid("", "", box=None, pad_edge=False, show_header=False)
        for key, line in facts_in_words(subject.facts).items():
            known.add_row(key, plain(line))
        out.print(known, "", sep="\n")
    fields = type(subject.config).model_fields
    grid = Grid("config", "value", "meaning", box=None, pad_edge=False)
    for key, value in subject.config.model_dump(mode="json").items():
        grid.add_row(key, plain(json.dumps(value)), plain(fields[key].description))
    out.print(grid, "", sep="\n")


def _print_parameters(table: Table) -> None:
    """Print every parameter, under the name and the sum of its block."""
    from rich.table import Table as Grid

    rows, sums = _parameter_rows(table), table.blocks()
    if len(table.rows) > LONG_TABLE:  # too long to be laid out in columns
        for row in rows:
            click.echo("\t".join(row))
        return
    grid = Grid("symbol", "shape", "numbers", "parameters", "weight", box=None, pad_edge=False)
    grid.columns[3].justify = "right"
    for row in rows:
        cells = [plain(cell) for cell in row]
        if row[0] in sums:
            cells[0].stylize("bold")
        grid.add_row(*cells)
    grid.add_row("[bold]total[/bold]", "", "", f"[bold]{table.total:,}[/bold]", "")
    console().print(grid)


def _parameter_rows(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every block and every parameter."""
    sums, block = table.blocks(), ""
    for row in table:
        if row.block != block:
            block = row.block
            yield block, "", "", f"{sums[block]:,}", ""
        numbers = " × ".join(f"{size:,}" for size in row.shape)
        part = f"[{row.slice[0]}:{row.slice[1]}]" if row.slice else ""
        yield f"  {row.symbol}", row.formula, numbers, f"{row.count:,}", row.path + part


def _print_blocks(table: Table) -> None:
    """Print the number of parameters of each block."""
    from rich.table import Table as Grid

    grid = Grid("block", "parameters", "share", box=None, pad_edge=False)
    grid.columns[1].justify = "right"
    for block, count in table.blocks().items():
        share = count / table.total if table.total else 0
        grid.add_row(block, f"{count:,}", f"{'█' * round(30 * share)} {share:.1%}")
    grid.add_row("[bold]total[/bold]", f"[bold]{table.total:,}[/bold]")
    console().print(grid)


def _print_architecture(registry: Registry, name: str, as_json: bool) -> None:
    """Print an architecture: its paper, its models, and the fields of its configuration."""
    from rich.table import Table as Grid

    architecture = registry.architecture(name)
    fields = architecture.config_type().model_fields
    models = sorted(m.name for m in registry.models.values() if m.architecture == name)
    if as_json:
        descriptions = {key: field.description for key, field in fields.items()}
        print_json({**asdict(architecture), "models": models, "fields": descriptions})
        return
    out = console()
    out.print(f"[bold]{name}[/bold] ", plain(f"{architecture.summary}\n{architecture.paper}"))
    out.print(f"models: {', '.join(models)}\n")
    grid = Grid("config", "meaning", box=None, pad_edge=False)
    for key, field in fields.items():
        grid.add_row(key, plain(field.description))
    out.print(grid)
