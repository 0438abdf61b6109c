"""The blame for what a network raises: it names the plugin that brings the network."""

from __future__ import annotations

import torch

from zoo.errors import PluginError, ZooError
from zoo.registry.open_shelf import BrokenEntryError
from zoo.registry.owners import Plugin
from zoo.registry.registry import default_registry


def plugin_of(kind: type) -> Plugin | None:
    """Return the plugin whose package has a network's class, or None if no architecture's has."""
    registry = default_registry()
    package = kind.__module__.partition(".")[0]
    for name, architecture in registry.architectures.items():
        if str(architecture.network).partition(":")[0].partition(".")[0] == package:
            return registry.architectures.owner(name).plugin
    return None


def broken_network(kind: type, reason: str, next: str = "") -> PluginError:
    """Return the error that a network is broken, with its plugin, the reason, and what to do."""
    plugin = plugin_of(kind)
    of = f" of {plugin}" if plugin else ""
    return BrokenEntryError(
        f"the network {kind.__name__}{of} is broken", reason, next or "Report this to its author"
    )


def blame(network: object, error: BaseException) -> None:
    """Raise an error that names a network's plugin for what it raised.

    Does nothing if the network is no plugin's or a built-in one, if the error is a message for the
    user, or if memory ran out.

    Raises:
        PluginError: otherwise.
    """
    if isinstance(error, ZooError | MemoryError | torch.OutOfMemoryError):
        return
    if "DefaultCPUAllocator" in str(error):
        return
    plugin = plugin_of(type(network))
    if plugin is not None and not plugin.builtin:
        reason = f"it raised {type(error).__name__}: {error}"
        raise broken_network(type(network), reason) from error
