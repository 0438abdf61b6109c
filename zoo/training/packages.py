"""The packages of plugins with which a run began: who resumes it may lack one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any

from zoo.data.datasets import find_dataset
from zoo.errors import ConfigError, DataError, PluginError, UnknownNameError
from zoo.registry.registry import Registry
from zoo.training.plan import Plan, absolute


def packages(registry: Registry) -> dict[str, str]:
    """Return the versions of the packages whose plugins loaded, without the zoo's own."""
    plugins = registry.plugins.loaded.values()
    return {plugin.distribution: plugin.version for plugin in plugins if not plugin.builtin}


def read_plan(
    registry: Registry,
    description: Mapping[str, Any],
    moved: Mapping[str, str | PathLike[str] | None],
) -> Plan:
    """Return the plan that the description of a run holds.

    `moved` has the present names of its `data` and its `validation`, if there are any.

    Raises:
        DataError: its files are not where they were.
        PluginError: a name of the plan is unknown, and a package of the run's `packages` is not
            there, or has another version: names it.
        ZooError: as `Plan.parse`, or there is no such data.
    """
    named = {key: absolute(registry, fspath(spec)) for key, spec in moved.items() if spec}
    try:
        plan = Plan.parse(registry, {**description, **named})
        for option, spec in (("--data", plan.data), ("--validation", plan.validation)):
            with _advising(option):
                if spec is not None:
                    find_dataset(registry, spec)
    except (ConfigError, PluginError, UnknownNameError) as error:
        began = description.get("packages")
        known = began if isinstance(began, dict) else {}  # runs of earlier versions have none
        installed = packages(registry)
        missing = [name for name in known if name not in installed]
        if not missing:
            changed = [
                f"{name} {version}, and {installed[name]} is installed"
                for name, version in known.items()
                if version != installed[name]
            ]
            if not changed:
                raise
            kind = PluginError if isinstance(error, UnknownNameError) else type(error)
            why = f"{error.why.rstrip('?')}; the run began with {'; '.join(changed)}"
            raise kind(error.what, why, error.next) from error
        listed = ", ".join(f"{name} {known[name]}" for name in missing)
        raise PluginError(
            error.what,
            f"{error.why.rstrip('?')}; the run began with {listed}, which is not installed or did "
            "not load",
            f"Install {' and '.join(missing)} if you trust it",
        ) from error
    return plan


@contextlib.contextmanager
def _advising(option: str) -> Iterator[None]:
    """Say how a run whose files were moved is resumed.

    Raises:
        DataError: they are not there.
    """
    try:
        yield
    except DataError as error:
        next = f"If the files were moved, resume with {option} and the new name"
        raise DataError(error.what, error.why, next) from error
