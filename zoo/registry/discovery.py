"""Find the installed plugins by their entry points, and import each apart from the others."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import re
from dataclasses import replace
from importlib.metadata import EntryPoint

from zoo.errors import FAILURES, PluginError, did_you_mean
from zoo.registry.api import check_api, stated_api
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins

GROUP = "zoo"
"""The group of the entry points."""

CHOICE = "ZOO_PLUGINS"
"""The environment variable that names the plugins to load."""


def installed() -> Plugins:
    """Return the installed plugins that ZOO_PLUGINS allows, discovered on first use."""
    return _discovered(os.environ.get(CHOICE))


def list_plugins() -> list[str]:
    """Return the names of all plugins that loaded."""
    return sorted(installed().loaded)


def discover(choice: str | None = None) -> Plugins:
    """Load the installed entry points of the group `zoo`, the built-in ones first.

    `choice` names plugins or distributions, separated by commas or spaces: only these load beside
    the built-in ones. None loads all.
    """
    plugins = Plugins()
    chosen = None if choice is None else set(map(_normalized, re.findall(r"[^\s,]+", choice)))
    entries = [(_described(entry), entry) for entry in _entries(plugins)]
    known: set[str] = set()
    for plugin, entry in sorted(entries, key=lambda pair: _order(pair[0])):
        names = {_normalized(plugin.name), _normalized(plugin.distribution)}
        known |= names
        if chosen is None or plugin.builtin or names & chosen:
            _load(entry, plugin, plugins)
        else:
            plugins.skipped.append(plugin)
    for name in sorted((chosen or set()) - known):
        guess = did_you_mean(name, known, 1)
        suggestion = f": {guess}" if guess else ""
        plugins.problems.append(f"{CHOICE} names {name!r}, which is not installed{suggestion}")
    return plugins


_discovered = functools.cache(discover)


def _entries(plugins: Plugins) -> list[EntryPoint]:
    """Return the entry points of the group; an unreadable distribution becomes a problem."""
    try:
        return list(importlib.metadata.entry_points(group=GROUP))
    except FAILURES:
        entries: dict[str, list[EntryPoint]] = {}
        for distribution in importlib.metadata.distributions():
            name = "?"
            try:
                name = distribution.name
                entries.setdefault(name, list(distribution.entry_points.select(group=GROUP)))
            except FAILURES as error:
                reason = f"{type(error).__name__}: {error}"
                plugins.problems.append(f"the entry points of {name} cannot be read: {reason}")
        return [entry for of_one in entries.values() for entry in of_one]


def _load(entry: EntryPoint, plugin: Plugin, plugins: Plugins) -> None:
    """Import what an entry point names, and add its hooks."""
    try:
        if not entry.pattern.match(entry.value):
            raise PluginError(f"its entry point {entry.value!r} does not name a module")
        with plugins.running(plugin):
            module = entry.load()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # also what is no Exception, such as a panic of Rust
        _reject_unread(entry, plugin, plugins, error)
    else:
        plugins.add(module, plugin)


def _reject_unread(
    entry: EntryPoint, plugin: Plugin, plugins: Plugins, error: BaseException
) -> None:
    """Count a plugin that cannot be imported as broken: by its API version, if that is why."""
    api = stated_api(entry.value.partition(":")[0])
    if api is not None:
        try:
            plugin = replace(plugin, api=api)
            check_api(api, plugin)
        except PluginError as mismatch:
            mismatch.__cause__ = error
            error = mismatch
    plugins.reject(plugin, error)


def _described(entry: EntryPoint) -> Plugin:
    """Return the metadata of an entry point's distribution; `?` stands for what is missing."""
    name = version = None
    with contextlib.suppress(*FAILURES):
        if entry.dist is not None:
            name, version = entry.dist.name, entry.dist.version
    return Plugin(str(entry.name), name or "?", version or "?", module=entry.value)


def _order(plugin: Plugin) -> tuple[bool, str, str]:
    return not plugin.builtin, _normalized(plugin.distribution), plugin.name


def _normalized(name: str) -> str:
    """Return a name in the form in which package indices compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
