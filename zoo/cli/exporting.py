"""`zoo export`: a checkpoint becomes a folder of another project's format."""

from __future__ import annotations

from pathlib import Path

import click

from zoo.checkpoint.card_text import size_in_words
from zoo.cli.completion import complete_checkpoint, complete_named
from zoo.cli.fetching import located
from zoo.cli.options import NewPath, json_option
from zoo.cli.output import loaded_registry, print_json, say


@click.command()
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--format", "format_name", required=True, shell_complete=complete_named("exporters"),
              help="The format; see `zoo list exporters`.")  # fmt: skip
@click.option("--out", required=True, type=NewPath(), help="The new folder.")
@click.option("--precision",
              help="The type of the weights, such as float32, bfloat16 or int8; by default "
              "float32.")  # fmt: skip
@json_option
def export(
    checkpoint: str, format_name: str, out: Path, precision: str | None, as_json: bool
) -> None:
    """Write CHECKPOINT as a folder that another project reads.

    The folder is written completely or not at all. What the format cannot express exactly is
    refused, with all reasons.
    """
    from zoo.interop.exporter import export as export_folder

    registry = loaded_registry()
    folder = located(checkpoint, registry)
    export_folder(folder, format_name, out, precision=precision, registry=registry)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    if as_json:
        print_json({"folder": str(out), "format": format_name, "size": size})
    else:
        say(f"{out}: {checkpoint} in format {format_name}, {size_in_words(size)}")
