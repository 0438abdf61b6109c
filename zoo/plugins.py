"""Find plugins, load each apart from the others, and remember where everything came from."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pluggy

from zoo import hookspecs

GROUP = "zoo"
BUILTIN = "seq2seq-zoo"


@dataclass(frozen=True)
class Plugin:
    """One entry point of the group `zoo`; `problem` says in a line why it did not load."""

    name: str
    distribution: str
    version: str
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"


@dataclass
class Plugins:
    """The plugins at hand. A broken one is listed with its reason and keeps no other from working.

    An object like any other: tests make their own and `add` modules to it.
    """

    manager: pluggy.PluginManager = field(default_factory=lambda: _manager())
    loaded: dict[str, Plugin] = field(default_factory=dict)
    broken: list[Plugin] = field(default_factory=list)

    def add(self, module: object, plugin: Plugin) -> None:
        """Register `module`'s hooks; one whose hooks do not fit counts as broken."""
        try:
            self.manager.register(module, name=plugin.name)
            self.loaded[plugin.name] = plugin
        except Exception as error:
            if self.manager.has_plugin(plugin.name) and plugin.name not in self.loaded:
                self.manager.unregister(name=plugin.name)
            self.reject(plugin, error)

    def reject(self, plugin: Plugin, error: BaseException) -> None:
        """Count `plugin` as broken because of `error`."""
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        self.broken.append(Plugin(plugin.name, plugin.distribution, plugin.version, reason))

    def call(self, hook: str, **arguments: Any) -> Iterator[tuple[Plugin, Any]]:
        """Yield every plugin that implements `hook` with what it returned.

        A plugin that raises is counted as broken and the others go on.
        """
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            plugin = self.loaded[implementation.plugin_name]
            given = {name: arguments[name] for name in implementation.argnames}
            try:
                answer = implementation.function(**given)
                # A generator raises only when it is read.
                yield plugin, list(answer) if answer is not None else []
            except Exception as error:
                self.reject(plugin, error)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("zoo")
    manager.add_hookspecs(hookspecs)
    return manager


def discover() -> Plugins:
    """Load every installed entry point of the group `zoo`, the built-in ones first."""
    plugins = Plugins()
    entries = importlib.metadata.entry_points(group=GROUP)
    # Reading a distribution's metadata is slow: once for each.
    described = {
        entry.dist: (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
        for entry in {entry.dist: entry for entry in entries}.values()
    }
    found = {(*described[entry.dist], entry.name): entry for entry in entries}
    for key in sorted(found, key=lambda key: (key[0] != BUILTIN, key)):
        entry = found[key]
        distribution, version, name = key
        plugin = Plugin(name, distribution, version)
        try:
            module = entry.load()
        except (Exception, SystemExit) as error:
            plugins.reject(plugin, error)
        else:
            plugins.add(module, plugin)
    return plugins


@functools.cache
def installed() -> Plugins:
    """Return the installed plugins, discovered on first use."""
    return discover()
