"""The packages of plugins with which a run began: who resumes it may lack one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoo.data.datasets import find_dataset
from zoo.errors import ConfigError, PluginError, UnknownNameError
from zoo.registry.registry import Registry
from zoo.training.plan import Plan


def packages(registry: Registry) -> dict[str, str]:
    """Return the versions of the packages whose plugins loaded, without the zoo's own."""
    plugins = registry.plugins.loaded.values()
    return {plugin.distribution: plugin.version for plugin in plugins if not plugin.builtin}


def read_plan(registry: Registry, description: Mapping[str, Any]) -> Plan:
    """Return the plan that the description of a run holds.

    Raises:
        PluginError: a name of the plan is unknown, and a package of the run's `packages` is not
            there, or has another version: names it.
        ZooError: as `Plan.parse`, or there is no such data.
    """
    try:
        plan = Plan.parse(registry, description)
        for spec in filter(None, (plan.data, plan.validation)):
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
