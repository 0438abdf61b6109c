"""The command line: the only room that prints. torch is imported by the commands that compute."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import click

from zoo.cli import attention, evaluating, listing, training, translating
from zoo.errors import ZooError
from zoo.plugins import installed


class Commands(click.Group):
    """Turns errors that a user can put right into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except ZooError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="seq2seq-zoo")
def cli() -> None:
    """Name a sequence-to-sequence model, train it, translate with it, load it by name again."""


for command in (
    listing.list_,
    listing.info,
    listing.card,
    training.train,
    translating.translate,
    evaluating.eval_,
    attention.attention,
):
    cli.add_command(command)


@functools.cache
def with_plugins() -> click.Group:
    """Return the command line with the commands that plugins add."""
    for _ in installed().call("zoo_commands", cli=cli):
        pass
    return cli


def main() -> None:
    """Run `zoo`."""
    # Threads that spin for long while they wait slow a program down many times over where it shares
    # the processor; a short spin costs a tenth where it does not. Read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with_plugins()()
    except BrokenPipeError:
        # Whoever read our output has had enough.
        sys.stderr.close()
        sys.exit(141)
