"""The command line: the only room that prints. torch is imported by the commands that compute."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from zoo.cli import (
    attention,
    bench,
    cache,
    card,
    evaluating,
    hub,
    info,
    listing,
    new_plugin,
    plugins,
    registry,
    training,
    translating,
)
from zoo.cli.fetching import hub_warnings
from zoo.errors import ZooError
from zoo.registry.discovery import CHOICE, installed


class Commands(click.Group):
    """The commands in the box and, looked up when they are asked for, those of plugins.

    Errors that a user can put right become one line and exit code 1.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command; what loads is narrowed first, whatever the order."""
        if "--no-plugins" in itertools.takewhile(lambda word: word.startswith("-"), args):
            os.environ[CHOICE] = ""
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command in the box, or a plugin's."""
        return self.commands.get(cmd_name) or self._all().get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._all())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say below the help that plugins are broken, if any is."""
        broken = len({(p.name, p.distribution) for p in installed().broken})
        if broken:
            formatter.write_paragraph()
            formatter.write_text(f"Plugins that are broken: {broken}. See `zoo plugins`.")

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with hub_warnings():
                return super().invoke(ctx)
        except ZooError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from error

    def _all(self) -> Mapping[str, click.Command]:
        return plugins.commands_of(installed(), frozenset(self.commands.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="seq2seq-zoo")
@click.option("--no-plugins", is_flag=True, help="Load only the plugins that come with the zoo.")
def cli(no_plugins: bool) -> None:
    """Name a sequence-to-sequence model, train it, translate with it, load it by name again."""


for command in (
    listing.list_,
    info.info,
    card.card,
    training.train,
    bench.bench,
    translating.translate,
    translating.score,
    hub.pull,
    hub.push,
    hub.convert,
    registry.registry,
    cache.cache,
    plugins.plugins,
    new_plugin.new_plugin,
    evaluating.eval_,
    attention.attention,
):
    cli.add_command(command)


def main() -> None:
    """Run `zoo`."""
    # Threads that spin for long while they wait slow a program down many times over where it shares
    # the processor; a short spin costs a tenth where it does not. Read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    if not sys.stderr.isatty():
        # The Hub client draws bars whoever reads them. Read when it is imported.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        cli()
    except BrokenPipeError:
        # Whoever read our output has had enough.
        sys.stderr.close()
        sys.exit(141)
