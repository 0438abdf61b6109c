"""The command line: the only room that changes the process for good.

A module per command, or per group of commands; the others are what these use:

    process            everything that is changed in the process
    options            groups, and options of several commands
    search             the options of a search
    output             consoles, JSON, the registry with its warnings
    completion         shell completion of names
    fetching           checkpoints that are pulled before a command reads them
    settings           aliases and saved defaults
    heatmap            attention in a terminal
    maths              formulas in a terminal
    translation_notes  what `zoo translate` says besides translations
    evaluation_notes   what `zoo eval` warns of
    training_display   how `zoo train` shows a run

Commands that compute import torch in their functions.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import platform
import re
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from zoo.cli import (
    attention,
    bench,
    cache,
    card,
    completion,
    data,
    evaluating,
    exporting,
    hub,
    importing,
    info,
    kernels,
    listing,
    new_plugin,
    plugins,
    registry,
    scoring,
    serving,
    training,
    translating,
    watching,
)
from zoo.cli.options import Group
from zoo.cli.process import (
    configure,
    hub_warnings,
    interrupt_by_signals,
    load_only_builtin_plugins,
)
from zoo.cli.settings import read_settings
from zoo.data.readers import has_lone_surrogate
from zoo.errors import UnknownNameError, ZooError, out_of_memory
from zoo.registry.cache_folder import cache_folder
from zoo.registry.discovery import installed
from zoo.registry.shelf import Shelf

TRACEBACK = "ZOO_TRACEBACK"
"""The environment variable with which errors show where they were raised."""


NO_MEMORY = (
    "this machine, or a limit such as that of `ulimit -v`, gives this process no more. Allow more, "
    "or compute less at once, as with a smaller --beam or shorter texts"
)
"""What to do without memory, but for training, which has advice of its own."""

LONG_WORD = re.compile(r"\S{500,}")
"""A word of a message that is cut: a path is shorter, a number of thousands of digits is not."""


def _shortened(message: str) -> str:
    """Return a message whose long words are cut."""
    return LONG_WORD.sub(lambda word: f"{word[0][:200]}…", message)


class Commands(Group):
    """The built-in commands, and those of plugins, which are looked up at first use.

    Errors that a user can correct are printed on one line, with exit code 1.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; `--no-plugins` applies first, in any order."""
        for word in args:
            if has_lone_surrogate(word):
                readable = word[:60].encode("utf-8", "replace").decode()
                raise click.ClickException(
                    f"the argument {readable!r} is not UTF-8: set the terminal to UTF-8, or rename "
                    "the file"
                )
        if "--no-plugins" in itertools.takewhile(lambda word: word.startswith("-"), args):
            load_only_builtin_plugins()
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a built-in command, or a plugin's."""
        return self.commands.get(cmd_name) or self._all().get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._all())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write below the help how many plugins are broken, if any are."""
        broken = len({(p.name, p.distribution) for p in installed().broken})
        if broken:
            formatter.write_paragraph()
            formatter.write_text(f"Broken plugins: {broken}. See `zoo plugins`.")

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            _check_folder()
            ctx.obj = read_settings(self.commands)
            ctx.default_map = ctx.obj.defaults
            with hub_warnings():
                return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = _shortened(error.message)  # declared final
            raise
        except (click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click ends in silence where the program that reads the output has ended
        except KeyboardInterrupt as error:
            with contextlib.suppress(OSError):  # of a terminal that is closed
                click.echo("Interrupted", err=True)
            ctx.exit(128 + next(iter(error.args), signal.SIGINT))
        except Exception as error:
            message = self._message(error, ctx.invoked_subcommand or "")
            if not message or os.environ.get(TRACEBACK):
                raise
            raise click.ClickException(_shortened(message)) from error

    def _message(self, error: Exception, command: str) -> str:
        """Return an error in one line; empty if it is a fault of the zoo itself."""
        if isinstance(error, ZooError):
            unknown = isinstance(error, UnknownNameError) or error.what.startswith(
                "no checkpoint '"
            )
            return f"{error}{_left_out() if unknown else ''}"
        if isinstance(error, OSError):
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}{_advice(error)}"
        if out_of_memory(error):
            return f"out of memory: {NO_MEMORY}"
        if command in self.commands or command not in self._all():
            return _incomplete(error)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return (
            f"command {command!r} of {self._all().owner(command)} is broken: it raised {reason}. "
            f"Report this to its author; {TRACEBACK}=1 shows where"
        )

    def _all(self) -> Shelf[click.Command]:
        return plugins.commands_of(installed(), frozenset(self.commands.items()))


def _incomplete(error: Exception) -> str:
    """Return that a package which the zoo needs is not installed; empty if that is not so."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "zoo").startswith("zoo"):
        return ""
    advice = "Run `pip check`, and install what it names as missing"
    return f"{error}: the installation is incomplete. {advice}"


def _check_folder() -> None:
    """Check that the current folder exists: without it, torch ends the process.

    Raises:
        ClickException: it was removed.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise click.ClickException(
            f"the current folder cannot be read: {error.strerror}. Change to another, as it may "
            "have been removed"
        ) from None


def _left_out() -> str:
    """Return which packages may have an unknown name and are not loaded; empty if all are."""
    packages = dict.fromkeys(plugin.distribution for plugin in installed().skipped)
    because = "not loaded, because of --no-plugins or ZOO_PLUGINS"
    return f" ({because}: {', '.join(packages)})" if packages else ""


def _advice(error: OSError) -> str:
    """Return what to do where too many files are open, or about the zoo's cache; else nothing."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ". Allow more open files with `ulimit -n`"
    if not isinstance(error.filename, str):
        return ""
    file, cache = Path(error.filename), cache_folder()
    above = cache.is_relative_to(file) and not os.path.lexists(cache)  # it cannot be made
    return ". ZOO_CACHE can name another folder" if above or file.is_relative_to(cache) else ""


def show_version(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Print the version of the zoo, then those of Python and of the libraries that matter."""
    if not given or ctx.resilient_parsing:
        return
    click.echo(f"zoo {metadata.version('seq2seq-zoo')}")
    click.echo(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    for package in ("torch", "tokenizers", "safetensors", "huggingface-hub"):
        click.echo(f"{package} {metadata.version(package)}")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
              help="Show the versions of the zoo, Python and the main libraries.")  # fmt: skip
@click.option("--no-plugins", is_flag=True, help="Load only the plugins that come with the zoo.")
def cli(no_plugins: bool) -> None:
    """Train sequence-to-sequence models, translate with them, publish them, and load them by name.

    Commands that print data also accept --json.
    """


for command in (
    listing.list_,
    info.info,
    card.card,
    training.train,
    bench.bench,
    translating.translate,
    translating.join_,
    scoring.score,
    hub.pull,
    hub.push,
    hub.convert,
    importing.import_,
    exporting.export,
    registry.registry,
    cache.cache,
    data.data,
    plugins.plugins,
    new_plugin.new_plugin,
    evaluating.eval_,
    attention.attention,
    serving.serve,
    watching.watch,
    kernels.compile_kernels,
    completion.completion,
):
    cli.add_command(command)


def main() -> None:
    """Set up the process and run `zoo`."""
    configure()
    interrupt_by_signals()
    try:
        cli()
    except OSError as error:  # of `--help`, which no command handles
        click.echo(f"Error: {error.strerror or error}", err=True)
        sys.exit(1)
