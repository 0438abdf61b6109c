"""Find plugins, load each apart from the others, and remember where everything came from."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from zoo.errors import PluginError, near
from zoo.registry import hookspecs

GROUP = "zoo"
BUILTIN = "seq2seq-zoo"
CHOICE = "ZOO_PLUGINS"

API = 2
"""The version of the plugin API: the hooks, what `zoo` exports, the contract of networks and
configs, and the catalogues' format. A plugin says `ZOO_API = 1`. Within a version things are
added, and nothing is taken away or changes its meaning."""

OLDEST_API = 2
"""The oldest version whose plugins still load; from 2 on, the one before is among them."""

FAILURES = (Exception, SystemExit)
"""What one plugin may raise without harm to the others; Ctrl-C is not the plugin's."""


@dataclass(frozen=True)
class Plugin:
    """One entry point of the group `zoo`; `problem` says in a line why it did not load.

    `module` is what the entry point names, `api` the version of the plugin API that it was written
    for, `traceback` where the problem came from.
    """

    name: str
    distribution: str
    version: str
    problem: str = ""
    module: str = ""
    api: int = 1
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"

    @property
    def builtin(self) -> bool:
        """Whether it comes with the zoo itself."""
        return self.distribution == BUILTIN


@dataclass(eq=False)
class Plugins:
    """The plugins at hand. A broken one is listed with its reason and keeps no other from working.

    An object like any other: tests make their own and `add` modules to it. `skipped` holds those
    that ZOO_PLUGINS leaves out; `problems` what else there is to tell, a line each.
    """

    manager: pluggy.PluginManager = field(default_factory=lambda: _manager())
    loaded: dict[str, Plugin] = field(default_factory=dict)
    broken: list[Plugin] = field(default_factory=list)
    skipped: list[Plugin] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, module: object, plugin: Plugin) -> None:
        """Register `module`'s hooks; one whose hooks do not fit counts as broken."""
        try:
            # One that does not say was written for the first version.
            api = getattr(module, "ZOO_API", 1)
            plugin = replace(plugin, api=api)
            _fits(api, plugin)
            self._check(module, plugin)
            self.manager.register(module, name=plugin.name)
            self.loaded[plugin.name] = plugin
        except FAILURES as error:
            if self.manager.has_plugin(plugin.name) and plugin.name not in self.loaded:
                self.manager.unregister(name=plugin.name)
            self.reject(plugin, error)

    def reject(self, plugin: Plugin, error: BaseException, hook: str = "") -> None:
        """Count `plugin` as broken because of `error`, which `hook` raised."""
        known = isinstance(error, PluginError)
        reason = " ".join((str(error) if known else f"{type(error).__name__}: {error}").split())
        told = "".join(traceback.format_exception(error))
        problem = f"{hook} raised {reason}" if hook else reason
        self.broken.append(replace(plugin, problem=problem, traceback=told))

    def implementations(self, hook: str) -> list[tuple[Plugin, pluggy.HookImpl]]:
        """Return the plugins that implement `hook`, in the order in which they were added."""
        found = getattr(self.manager.hook, hook).get_hookimpls()
        return [(self.loaded[each.plugin_name], each) for each in found]

    def ask(
        self, plugin: Plugin, implementation: pluggy.HookImpl, arguments: dict[str, Any]
    ) -> list[Any] | None:
        """Return what one plugin's hook gives, as a list, or None if it raises."""
        given = {name: arguments[name] for name in implementation.argnames}
        try:
            answer: Any = implementation.function(**given)
            # A generator raises only when it is read.
            return list(answer) if answer is not None else []
        except FAILURES as error:
            self.reject(plugin, error, implementation.function.__name__)
            return None

    def call(self, hook: str, **arguments: Any) -> Iterator[tuple[Plugin, Any]]:
        """Yield every plugin that implements `hook` with the list of what it returned.

        A plugin that raises is counted as broken and the others go on.
        """
        for plugin, implementation in self.implementations(hook):
            answer = self.ask(plugin, implementation, arguments)
            if answer is not None:
                yield plugin, answer

    def hooks_of(self, plugin: Plugin) -> list[str]:
        """Return the hooks that a plugin implements."""
        return [hook for hook in known_hooks() if any(p is plugin for p, _ in
                self.implementations(hook))]  # fmt: skip

    def _check(self, module: object, plugin: Plugin) -> None:
        """Raise unless the module's hooks are hooks, are marked as such, and the name is free."""
        if plugin.name in self.loaded:
            raise PluginError(
                f"the plugin name {plugin.name!r} is taken",
                f"{self.loaded[plugin.name]} has it",
                "Uninstall one of the two packages",
            )
        known, marked = known_hooks(), {}
        for name in dir(module):
            options = self.manager.parse_hookimpl_opts(module, name)
            if options is not None:
                marked[options.get("specname") or name] = options
        strange = [n for n in marked if n not in known and not marked[n]["optionalhook"]]
        if strange:
            told = [f"{n} (did you mean {near(n, known, 1)[0]}?)" if near(n, known) else n
                    for n in strange]  # fmt: skip
            more = f"; the hooks are {', '.join(known)}" * any(not near(n, known) for n in strange)
            raise PluginError(f"no such hook: {', '.join(told)}{more}")
        silent = [n for n in known if n not in marked and callable(getattr(module, n, None))]
        if silent:
            raise PluginError(f"{', '.join(silent)}: not marked as a hook", "", "Put @zoo.hookimpl"
                              " above it")  # fmt: skip
        if not marked:
            raise PluginError("it implements no hook", f"the hooks are {', '.join(known)}")
        if any(options["wrapper"] or options["hookwrapper"] for options in marked.values()):
            raise PluginError("it wraps a hook", "each plugin answers for itself alone")


def known_hooks() -> list[str]:
    """Return the names of all hooks."""
    return [name for name in vars(hookspecs) if name.startswith("zoo_")]


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("zoo")
    manager.add_hookspecs(hookspecs)
    return manager


def _fits(api: object, plugin: Plugin) -> None:
    """Raise unless `api` is a version of the plugin API that this zoo speaks."""
    if type(api) is not int:
        raise PluginError(f"ZOO_API is {api!r}", "it is a whole number")
    if not OLDEST_API <= api <= API:
        spoken = f"{OLDEST_API} to {API}" if OLDEST_API < API else f"{API}"
        raise PluginError(
            f"it was written for version {api} of the plugin API",
            f"this zoo speaks {spoken}",
            f"Install a newer {BUILTIN if api > API else plugin.distribution}",
        )


def discover(choice: str | None = None) -> Plugins:
    """Load the installed entry points of the group `zoo`, the built-in ones first.

    `choice` names plugins or distributions, separated by commas: only those load beside the
    built-in ones. None is all.
    """
    plugins = Plugins()
    chosen = None if choice is None else set(map(_plain, re.findall(r"[^\s,]+", choice)))
    entries = _entries(plugins)
    described = {id(entry): _described(entry) for entry in entries}
    known = set()
    order = sorted(entries, key=lambda entry: _order(described[id(entry)]))
    for entry in order:
        plugin = described[id(entry)]
        own = {_plain(plugin.name), _plain(plugin.distribution)}
        known |= own
        if chosen is None or plugin.builtin or own & chosen:
            _load(entry, plugin, plugins)
        else:
            plugins.skipped.append(plugin)
    for name in sorted((chosen or set()) - known):
        guess = near(name, known, 1)
        meant = f": did you mean {guess[0]}?" if guess else ""
        plugins.problems.append(f"{CHOICE} names {name!r}, which is not installed{meant}")
    return plugins


def _entries(plugins: Plugins) -> list[EntryPoint]:
    """Return the entry points of the group; a distribution that cannot be read is told."""
    try:
        return list(importlib.metadata.entry_points(group=GROUP))
    except FAILURES:
        found: dict[str, list[EntryPoint]] = {}
        for distribution in importlib.metadata.distributions():
            name = "?"
            try:
                name = distribution.name
                found.setdefault(name, list(distribution.entry_points.select(group=GROUP)))
            except FAILURES as error:
                reason = f"{type(error).__name__}: {error}"
                plugins.problems.append(f"the entry points of {name} cannot be read: {reason}")
        return [entry for entries in found.values() for entry in entries]


def _load(entry: EntryPoint, plugin: Plugin, plugins: Plugins) -> None:
    """Import what an entry point names, and add its hooks."""
    try:
        if not entry.pattern.match(entry.value):
            raise PluginError(f"its entry point {entry.value!r} is no module's name")
        # Standard output is for what the command was asked for.
        with contextlib.redirect_stdout(sys.stderr):
            module = entry.load()
    except FAILURES as error:
        _reject_unread(entry, plugin, plugins, error)
    else:
        plugins.add(module, plugin)


def _reject_unread(
    entry: EntryPoint, plugin: Plugin, plugins: Plugins, error: BaseException
) -> None:
    """Count a plugin that cannot be imported as broken; for its API version, if that is why."""
    stated = _stated_api(entry.value.partition(":")[0])
    try:
        plugin = replace(plugin, api=stated)
        _fits(stated, plugin)
    except PluginError as unfit:
        unfit.__cause__ = error
        error = unfit
    plugins.reject(plugin, error)


def _stated_api(module: str) -> int:
    """Return the `ZOO_API` in the text of a module that cannot be imported; 1 without one."""
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(module)
        text = spec.loader.get_source(module)  # type: ignore[union-attr]  # else suppressed
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "ZOO_API":
                return int(ast.literal_eval(statement.value))
    return 1


def _described(entry: EntryPoint) -> Plugin:
    """Return what the metadata say of an entry point, `?` for what they do not."""
    name = version = None
    with contextlib.suppress(*FAILURES):
        if entry.dist is not None:
            name, version = entry.dist.name, entry.dist.version
    return Plugin(str(entry.name), name or "?", version or "?", module=entry.value)


def _order(plugin: Plugin) -> tuple[bool, str, str]:
    return not plugin.builtin, _plain(plugin.distribution), plugin.name


def _plain(name: str) -> str:
    """Return a name as package indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> Plugins:
    """Return the installed plugins that ZOO_PLUGINS leaves, discovered on first use."""
    return _discovered(os.environ.get(CHOICE))


@functools.cache
def _discovered(choice: str | None) -> Plugins:
    return discover(choice)


def list_plugins() -> list[str]:
    """Return the names of all plugins that loaded."""
    return sorted(installed().loaded)
