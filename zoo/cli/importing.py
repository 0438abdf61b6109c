"""`zoo import`: another project's checkpoint becomes a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

import click

from zoo.cli.completion import complete_named
from zoo.cli.options import NewPath
from zoo.cli.output import loaded_registry, say


@click.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=NewPath(), help="The new folder.")
@click.option("--format", "format_name", shell_complete=complete_named("importers"),
              help="The format, if it is not recognized; see `zoo list importers`.")  # fmt: skip
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
              help="An option of the format; may be repeated.")  # fmt: skip
def import_(source: Path, out: Path, format_name: str | None, options: tuple[str, ...]) -> None:
    """Convert SOURCE, a file or folder of another project, to a checkpoint.

    The format is recognized from the files. What cannot be expressed exactly is refused, with all
    reasons. Pickles are read as tensors and plain values only, and no code in the files runs.
    """
    from zoo.interop.conversion import import_checkpoint

    values = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise click.BadParameter(f"{option!r} is not NAME=VALUE", param_hint="--option")
        values[name] = value
    imported = import_checkpoint(source, out, loaded_registry(), format_name, values)
    say(f"{out} is imported from {source}, format {imported}")
