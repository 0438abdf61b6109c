"""Find the hub of an address."""

from __future__ import annotations

from typing import cast

from zoo.hub.contract import Hub
from zoo.registry.address import Address
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry


def hub_of(address: Address, registry: Registry) -> Hub:
    """Return the hub of an address.

    Raises:
        UnknownNameError, PluginError: there is no such hub, or it cannot be imported.
        HubError: the address cannot be one of this hub.
    """
    scheme = registry.hubs.find(address.scheme)
    hub = cast("type[Hub]", import_object(scheme.hub, f"hub {scheme.name}://"))()
    hub.check(address)
    return hub
