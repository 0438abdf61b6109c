"""`zoo plugins`, and how the commands of plugins join the command line."""

from __future__ import annotations

import functools
from typing import Any

import click

from zoo.cli.output import console, json_option, plain, print_json
from zoo.errors import UnknownNameError
from zoo.registry.plugins import BUILTIN, Plugin, Plugins
from zoo.registry.registry import Registry, default_registry


@functools.cache
def commands_of(plugins: Plugins, taken: frozenset[str]) -> dict[str, tuple[Plugin, click.Command]]:
    """Return the commands that plugins add, by name, each with its plugin.

    Every plugin is given a group of its own, so that none can replace another's command, and one
    that raises adds nothing. A name in `taken` or of an earlier plugin is left out and told.
    """
    joined: dict[str, tuple[Plugin, click.Command]] = {}
    for plugin, implementation in plugins.implementations("zoo_commands"):
        group = click.Group("zoo")
        if plugins.ask(plugin, implementation, {"cli": group}) is None:
            continue
        for name, command in group.commands.items():
            if name in taken or name in joined:
                first = BUILTIN if name in taken else str(joined[name][0])
                told = f"command {name!r} of {plugin} left out: {first} has that name"
                plugins.problems.append(told)
            else:
                joined[name] = plugin, command
    return joined


@click.command()
@click.argument("name", required=False)
@click.option("--traceback", is_flag=True, help="Where the problem of each broken plugin arose.")
@json_option
@click.pass_context
def plugins(ctx: click.Context, name: str | None, traceback: bool, as_json: bool) -> None:
    """List the plugins: their packages, what each adds, and what keeps a broken one from working.

    NAME is a plugin or a package. ZOO_PLUGINS=NAME,NAME loads only these beside the built-in ones,
    as `zoo --no-plugins` loads none.
    """
    found = default_registry()
    root = ctx.find_root().command
    commands = commands_of(found.plugins, frozenset(getattr(root, "commands", {})))
    rows = [_row(found, commands, plugin, traceback) for plugin in _all(found.plugins)]
    if name is not None:
        known = {word for row in rows for word in (row["name"], row["package"])}
        if name not in known:
            raise UnknownNameError("plugin", name, known, "See `zoo plugins`")
        rows = [row for row in rows if name in (row["name"], row["package"])]
    problems = [*found.plugins.problems, *found.problems]
    if as_json:
        print_json({"plugins": rows, "problems": problems})
        return
    _print(rows, problems)


def _all(plugins: Plugins) -> list[Plugin]:
    """Return every plugin once, the built-in ones first, a broken one with its first problem."""
    found: dict[tuple[str, str], Plugin] = {}
    for plugin in (*plugins.broken, *plugins.loaded.values(), *plugins.skipped):
        found.setdefault((plugin.name, plugin.distribution), plugin)
    return sorted(found.values(), key=lambda p: (not p.builtin, p.distribution, p.name))


def _row(
    found: Registry,
    commands: dict[str, tuple[Plugin, click.Command]],
    plugin: Plugin,
    traceback: bool,
) -> dict[str, Any]:
    """Return what there is to tell of a plugin, as plain values."""
    loaded = found.plugins.loaded.get(plugin.name)
    own = loaded if loaded is not None and loaded.distribution == plugin.distribution else None
    adds = found.brought_by(plugin)
    if own is not None:
        mine = [name for name, (by, _) in commands.items() if by == own]
        adds |= {"commands": mine} if mine else {}
        adds |= {"hooks": found.plugins.hooks_of(own)}
    status = "broken" if plugin.problem else "loaded" if own else "left out"
    row = {
        "name": plugin.name,
        "package": plugin.distribution,
        "version": plugin.version,
        "api": plugin.api if own or plugin.problem else None,
        "status": status,
        "adds": adds,
        "problem": plugin.problem,
    }
    return {**row, "traceback": plugin.traceback} if traceback else row


def _print(rows: list[dict[str, Any]], problems: list[str]) -> None:
    from rich.table import Table as Grid

    grid = Grid("plugin", "package", "version", "API", "status", "adds",
                box=None, pad_edge=False)  # fmt: skip
    for column in grid.columns[:5]:
        column.no_wrap = True
    for row in rows:
        api = "" if row["api"] is None else row["api"]
        cells = (
            row["name"],
            row["package"],
            row["version"],
            api,
            row["status"],
            _told(row["adds"]),
        )
        grid.add_row(*map(plain, cells))
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


def _told(adds: dict[str, list[str]]) -> str:
    """Return what a plugin adds in a line; a hook stands for itself where it brings no names."""
    named = {"zoo_architectures", "zoo_catalogues", "zoo_datasets", "zoo_commands"}
    parts = []
    for kind, names in adds.items():
        if kind == "hooks":
            parts += [hook for hook in names if hook not in named]
        elif len(names) > 3:
            parts.append(f"{len(names)} {kind}")
        else:
            parts.append(f"{kind if len(names) > 1 else kind[:-1]} {', '.join(names)}")
    return "; ".join(parts)
