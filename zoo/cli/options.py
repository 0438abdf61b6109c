"""What several commands share: groups, and options; those of a search are in `zoo.cli.search`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import click

from zoo.cli.completion import (
    complete_checkpoint,
    complete_named,
    complete_recipe,
    complete_setting,
)
from zoo.errors import unexpanded

DAY = 86_400
"""The most seconds that an option takes."""


class Number(click.FloatRange):
    """A number within limits; what is not a number is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class NewPath(click.Path):
    """The path of a file or folder that is going to be written."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(path_type=Path, **limits)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if reason := unexpanded(value):
            self.fail(f"{value} cannot be written: {reason}. Give the whole path", param, ctx)
        return super().convert(value, param, ctx)


class NewFile(NewPath):
    """The path of a file that is going to be written; one that ends with a slash is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if os.fspath(value).endswith(("/", os.sep)):
            self.fail(f"{value} is the name of a folder. Give that of a file", param, ctx)
        return super().convert(value, param, ctx)


class TextCommand(click.Command):
    """A command whose arguments are texts, which may begin as options do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; the error for one that is like no option says what to write."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            message = f"{error.message.rstrip('.')}. Write -- before a text that begins with -"
            raise click.NoSuchOption(error.option_name, message, ctx=ctx) from None


class Group(click.Group):
    """A group of commands, whose help does not cut the first sentence of a command's help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command's help, on several lines if it is long."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=1000)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
device_option = click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, mps (Apple), or auto."
)
limit_option = click.option(
    "--limit", type=click.IntRange(1), help="Read only the first N pairs of each file."
)
precision_option = click.option(
    "--precision", type=click.Choice(["float32", "bf16", "int8"]), default="float32",
    show_default=True,
    help="Precision of matrix products with weights. On a CPU, int8 is the fastest, for "
    "small networks and on some CPUs only with `zoo compile-kernels`; bf16 is faster than float32 "
    "on AMD processors with AVX-512 BF16, and on all with AMX. On a GPU, bf16 is that of the whole "
    "network.",
)  # fmt: skip
engine_option = click.option(
    "--engine", metavar="ENGINE", shell_complete=complete_named("engines"),
    help="Search with this engine, such as ctranslate2 (see `zoo list engines`), instead of the "
    "zoo's decoder; the checkpoint is exported once, into the cache.",
)  # fmt: skip
source_prefix_option = click.option(
    "--source-prefix", default="", metavar="TEXT",
    help="Read this text before each source, such as a task's tag.",
)  # fmt: skip
source_lang_option = click.option(
    "--source-lang", default="", metavar="LANGUAGE",
    help="The language of the texts, by name or code, if CHECKPOINT reads several.",
)  # fmt: skip
target_lang_option = click.option(
    "--target-lang", default="", metavar="LANGUAGE",
    help="The language to translate to, by name or code, if CHECKPOINT writes several.",
)  # fmt: skip
ensemble_option = click.option(
    "--with", "more", multiple=True, metavar="CHECKPOINT", shell_complete=complete_checkpoint,
    help="Add a checkpoint to the ensemble (probabilities are averaged); may be repeated.",
)  # fmt: skip
recipe_option = click.option(
    "--recipe", metavar="NAME|FILE.toml", shell_complete=complete_recipe,
    help="Override the recipes of model and data by this one.",
)  # fmt: skip
settings_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", shell_complete=complete_setting,
    help="Set a value of the configuration or recipe; repeatable.",
)  # fmt: skip
training_precision_option = click.option(
    "--precision", type=click.Choice(["float32", "bf16", "auto"]),
    help="Precision of matrix products; auto times both.",
)  # fmt: skip


def check_contradictions(settings: dict[str, Any], options: dict[str, Any]) -> None:
    """Make sure that no option of the recipe is another value than the setting of its name.

    Raises:
        UsageError: one is.
    """
    for key, value in settings.items():
        option = options.get(name := key.removeprefix("recipe."))
        if option not in (None, value):
            raise click.UsageError(
                f"--{name} is {option}, and --set {key} is {value}: leave out one"
            )
