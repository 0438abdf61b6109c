"""The loaded plugins: checked one by one, called one by one, so that none blocks another."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pluggy

from zoo.errors import FAILURES, PluginError, did_you_mean, in_brackets
from zoo.registry import hookspecs, text_hookspecs, training_hookspecs
from zoo.registry.api import UNSTATED_API, check_api
from zoo.registry.owners import Plugin

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(eq=False)
class Plugins:
    """The plugins of one process, or of one test.

    `loaded` has them by name; of two packages with one name, the second's is `PACKAGE:NAME`.
    `broken` lists those that failed, each with its reason; `skipped` those that ZOO_PLUGINS
    excludes; `problems` holds further warnings, one line each.
    """

    manager: pluggy.PluginManager = field(default_factory=lambda: _manager())
    loaded: dict[str, Plugin] = field(default_factory=dict)
    broken: list[Plugin] = field(default_factory=list)
    skipped: list[Plugin] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, module: object, plugin: Plugin) -> None:
        """Register the hooks of `module`; if they do not fit, the plugin counts as broken."""
        taken = self.loaded.get(plugin.name)
        key = plugin.name
        if taken is not None and taken.distribution != plugin.distribution:
            key = f"{plugin.distribution}:{plugin.name}"
        try:
            plugin = replace(plugin, api=getattr(module, "ZOO_API", UNSTATED_API))
            check_api(plugin.api, plugin)
            if key in self.loaded:
                raise PluginError(f"{plugin.distribution} brings two plugins {plugin.name!r}")
            shares = self.manager.get_name(module)
            if shares is not None:
                raise PluginError("its module is another's", f"{self.loaded[shares]} has it too")
            _check_hooks(module, self.manager)
            self.manager.register(module, name=key)
            self.loaded[key] = plugin
        except FAILURES as error:
            if self.manager.has_plugin(key) and key not in self.loaded:
                self.manager.unregister(name=key)
            self.reject(plugin, error)

    def reject(self, plugin: Plugin, error: BaseException, hook: str = "") -> None:
        """Count `plugin` as broken because of `error`, which `hook` raised."""
        known = isinstance(error, PluginError)
        try:
            text = str(error)
        except FAILURES as fault:
            text = f"its text raised {type(fault).__name__}"
        reason = " ".join((text if known else f"{type(error).__name__}: {text}").split())
        problem = f"{hook} raised {reason}" if hook else reason
        trace = "".join(traceback.format_exception(error))
        self.broken.append(replace(plugin, problem=problem, traceback=trace))

    @contextlib.contextmanager
    def running(self, plugin: Plugin) -> Iterator[None]:
        """Keep standard output and the working directory for the command while a plugin runs.

        A plugin that changes the directory becomes a problem.
        """
        before = _working_directory()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            if before and _working_directory() != before:
                os.chdir(before)
                self._note(f"{plugin} changes the working directory, which was restored")

    def implementations(self, hook: str) -> list[tuple[Plugin, pluggy.HookImpl]]:
        """Return the plugins that implement `hook`, in the order in which they were added."""
        implementations = getattr(self.manager.hook, hook).get_hookimpls()
        # No plugin comes before another by `tryfirst` or `trylast`: the first keeps a name.
        order = list(self.loaded)
        implementations.sort(key=lambda each: order.index(each.plugin_name))
        return [(self.loaded[each.plugin_name], each) for each in implementations]

    def call_one(
        self,
        plugin: Plugin,
        implementation: pluggy.HookImpl,
        arguments: dict[str, Any],
        returns: bool = False,
    ) -> list[Any] | None:
        """Call one plugin's hook and return its values as a list, or None if it raises.

        If it `returns` values, None in their place becomes a problem: a `return` was forgotten.
        """
        accepted = {name: arguments[name] for name in implementation.argnames}
        try:
            with self.running(plugin):
                values: Any = implementation.function(**accepted)
                # A generator raises only while it is consumed.
                if values is None:
                    if returns:
                        name = implementation.function.__name__
                        needs = "it needs `return` or `yield`, [] for nothing"
                        self._note(f"{name} of {plugin} returned None: {needs}")
                    return []
                return [values] if isinstance(values, str | bytes) else list(values)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # also what is no Exception, such as a panic of Rust
            self.reject(plugin, error, implementation.function.__name__)
            return None

    def _note(self, problem: str) -> None:
        """Add a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def call(self, hook: str, **arguments: Any) -> Iterator[tuple[Plugin, list[Any]]]:
        """Yield every plugin that implements `hook` with the list of values it returned.

        A plugin that raises counts as broken; the others are still called.
        """
        for plugin, implementation in self.implementations(hook):
            values = self.call_one(plugin, implementation, arguments, returns=True)
            if values is not None:
                yield plugin, values

    def hooks_of(self, plugin: Plugin) -> list[str]:
        """Return the names of the hooks that a plugin implements."""
        return [
            hook
            for hook in known_hooks()
            if any(each is plugin for each, _ in self.implementations(hook))
        ]


def _working_directory() -> str:
    """Return the working directory, or an empty string if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


SPECIFICATIONS = (hookspecs, training_hookspecs, text_hookspecs)
"""The modules that specify hooks."""


def known_hooks() -> list[str]:
    """Return the names of all hooks."""
    return [name for module in SPECIFICATIONS for name in vars(module) if name.startswith("zoo_")]


def specification(hook: str) -> Callable[..., Any]:
    """Return the function that specifies a hook."""
    (function,) = (vars(module)[hook] for module in SPECIFICATIONS if hook in vars(module))
    specified: Callable[..., Any] = function
    return specified


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("zoo")
    for module in SPECIFICATIONS:
        manager.add_hookspecs(module)
    return manager


def _check_hooks(module: object, manager: pluggy.PluginManager) -> None:
    """Check the names and the marks of a module's hooks.

    Raises:
        PluginError: a hook is unknown, not marked, or a wrapper; or there is none.
    """
    known = known_hooks()
    marked: dict[str, Any] = {}
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is not None:
            marked[options.get("specname") or name] = {**options, "found_as": name}
    unknown = [n for n in marked if n not in known and not marked[n]["optionalhook"]]
    if unknown:
        guesses = {name: did_you_mean(name, known, 1) for name in unknown}
        listed = ", ".join(f"{name}{in_brackets(guess)}" for name, guess in guesses.items())
        more = "" if all(guesses.values()) else f"; the hooks are {', '.join(known)}"
        raise PluginError(f"no such hook: {listed}{more}")
    unmarked = [n for n in known if n not in marked and callable(getattr(module, n, None))]
    if unmarked:
        raise PluginError(
            f"{', '.join(unmarked)}: not marked as a hook", "", "Put @zoo.hookimpl above it"
        )
    if not marked:
        raise PluginError("it implements no hook", f"the hooks are {', '.join(known)}")
    if any(options["wrapper"] or options["hookwrapper"] for options in marked.values()):
        raise PluginError("it wraps a hook", "a hook returns only what its own plugin brings")
    for name, options in marked.items():
        if name in known:
            _check_signature(name, getattr(module, options["found_as"]))


def _check_signature(name: str, function: Callable[..., Any]) -> None:
    """Raise PluginError unless a function requires the arguments of the hook that it implements."""
    wanted = list(inspect.signature(specification(name)).parameters)
    given = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in VARIADIC
    ]
    if given != wanted:
        raise PluginError(
            f"wrong signature {name}({', '.join(given)})",
            f"the hook is {name}({', '.join(wanted)})",
        )
