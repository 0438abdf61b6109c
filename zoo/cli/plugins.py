"""`zoo plugins`, and how the commands of plugins join the command line."""

from __future__ import annotations

import functools
import re
from typing import Any

import click

from zoo.cli.completion import complete_plugin
from zoo.cli.options import json_option
from zoo.cli.output import console, plain, print_json
from zoo.errors import FAILURES, UnknownNameError, shown
from zoo.registry.api import CHANGES
from zoo.registry.builtin import top
from zoo.registry.owners import Owner, Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry, default_registry
from zoo.registry.shelf import Shelf

NARROW = 72
"""The columns of a terminal that the table of plugins needs: with fewer, its words are wrapped."""


@functools.cache
def commands_of(
    plugins: Plugins, builtin: frozenset[tuple[str, click.Command]]
) -> Shelf[click.Command]:
    """Return all commands: the `builtin` ones by name, and those that plugins add.

    Every plugin adds its commands to a group that is made for it, so that none can replace
    another's, and a plugin that raises adds nothing.
    """
    shelf: Shelf[click.Command] = Shelf("command")
    for name, command in builtin:
        shelf.add(name, command)
    for plugin, implementation in plugins.implementations("zoo_commands"):
        group = click.Group("zoo")
        if plugins.call_one(plugin, implementation, {"cli": group}) is not None:
            for name, command in group.commands.items():
                if fault := _fault_of_command(name, command):
                    shelf.problems.append(f"command {shown(name)} of {plugin} is ignored: {fault}")
                else:
                    shelf.add(name, command, Owner(plugin))
    return shelf


def _fault_of_command(name: object, command: object) -> str:
    """Return why a plugin's command cannot join the others, or an empty string."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.:-]*", name):
        return "its name needs letters, digits and hyphens"
    if not isinstance(command, click.Command):
        return f"{shown(command)} is no click.Command"
    try:
        command.get_short_help_str()
    except FAILURES as error:
        return f"its help gave {type(error).__name__}: {error}"
    return ""


SINGULAR = {"searches": "search"}
"""Kinds whose plural is not formed with an s alone."""


@click.command()
@click.argument("name", required=False, shell_complete=complete_plugin)
@click.option("--traceback", is_flag=True, help="Show where each broken plugin failed.")
@click.option("--api-changes", is_flag=True,
              help="Print what a plugin for the previous plugin API has to change.")  # fmt: skip
@json_option
@click.pass_context
def plugins(
    ctx: click.Context, name: str | None, traceback: bool, api_changes: bool, as_json: bool
) -> None:
    """List the plugins: their packages, what each adds, and why a broken one failed.

    NAME is a plugin or a package. ZOO_PLUGINS=NAME,NAME loads only these besides the built-in ones;
    `zoo --no-plugins` loads only the built-in ones.
    """
    if api_changes:
        if name is not None or traceback or as_json:
            raise click.UsageError("--api-changes is about all plugins, and is Markdown: leave out "
                                   "NAME, --traceback and --json")  # fmt: skip
        click.echo((top() / CHANGES).read_text(encoding="utf-8").rstrip())
        return
    registry = default_registry()
    root = ctx.find_root().command
    commands = commands_of(registry.plugins, frozenset(getattr(root, "commands", {}).items()))
    rows = [_row(registry, commands, plugin, traceback) for plugin in _all(registry.plugins)]
    if name is not None:
        known = {word for row in rows for word in (row["name"], row["package"])}
        if name not in known:
            raise UnknownNameError("plugin", name, known, "See `zoo plugins`")
        rows = [row for row in rows if name in (row["name"], row["package"])]
    from zoo.registry.catalogue_check import catalogue_problems

    problems = [
        *registry.plugins.problems, *registry.problems, *commands.problems,
        *catalogue_problems(registry),
    ]  # fmt: skip
    if as_json:
        print_json({"plugins": rows, "problems": problems})
        return
    _print(rows, problems, {*registry.hooks, "zoo_commands"})


def _all(plugins: Plugins) -> list[Plugin]:
    """Return every plugin once, the built-in ones first, a broken one with its first problem."""
    unique: dict[tuple[str, str], Plugin] = {}
    for plugin in (*plugins.broken, *plugins.loaded.values(), *plugins.skipped):
        unique.setdefault((plugin.name, plugin.distribution), plugin)
    return sorted(unique.values(), key=lambda p: (not p.builtin, p.distribution, p.name))


def _row(
    registry: Registry, commands: Shelf[click.Command], plugin: Plugin, traceback: bool
) -> dict[str, Any]:
    """Return everything about a plugin as plain values."""
    wanted = (plugin.name, plugin.distribution)
    every = registry.plugins.loaded.values()
    loaded = next((each for each in every if (each.name, each.distribution) == wanted), None)
    adds: dict[str, list[str]] = {}
    if loaded is not None:
        adds = registry.brought_by(loaded)
        names = commands.brought_by(loaded)
        adds |= {commands.plural: names} if names else {}
        adds |= {"hooks": registry.plugins.hooks_of(loaded)}
    status = "broken" if plugin.problem else "loaded" if loaded else "skipped"
    row = {
        "name": plugin.name,
        "package": plugin.distribution,
        "version": plugin.version,
        "api": plugin.api if loaded or plugin.problem else None,
        "status": status,
        "adds": adds,
        "problem": plugin.problem,
    }
    return {**row, "traceback": plugin.traceback} if traceback else row


def _print(rows: list[dict[str, Any]], problems: list[str], named: set[str]) -> None:
    from rich.table import Table as Grid

    grid = Grid("plugin", "package", "version", "API", "status", "adds",
                box=None, pad_edge=False)  # fmt: skip
    for row in rows:
        api = "" if row["api"] is None else row["api"]
        cells = (row["name"], row["package"], row["version"], api, row["status"])
        grid.add_row(*map(plain, (*cells, _summary(row["adds"], named))))
    for column in grid.columns[:5]:
        column.no_wrap = console().width >= NARROW
    console().print(grid)
    for row in rows:
        if row["problem"]:
            click.echo(f"\n{row['name']} ({row['package']} {row['version']}): {row['problem']}")
        if row.get("traceback"):
            click.echo(f"\n{row['traceback'].rstrip()}")
    if any(row["problem"] and "traceback" not in row for row in rows):
        click.echo("\nFor more: zoo plugins --traceback")
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)


def _summary(adds: dict[str, list[str]], named: set[str]) -> str:
    """Return what a plugin adds in one line: names by kind, and hooks other than the `named`."""
    parts = []
    for kind, names in adds.items():
        if kind == "hooks":
            parts += [hook for hook in names if hook not in named]
        elif len(names) > 3:
            parts.append(f"{len(names)} {kind}")
        else:
            one = SINGULAR.get(kind, kind.removesuffix("s"))
            parts.append(f"{kind if len(names) > 1 else one} {', '.join(names)}")
    return "; ".join(parts)
