"""Find the hub of an address. What a plugin's hub raises is reported in one line."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, cast

from zoo.errors import FAILURES, HubError, PluginError, ZooError
from zoo.hub.contract import Hub, Listing, LocalCommit
from zoo.registry.address import Address
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry

RETURNS: dict[str, tuple[type, ...]] = {
    "offline": (bool,),
    "listing": (Listing,),
    "local": (LocalCommit, NoneType),
    "fetch": (Path,),
    "commit": (str,),
    "page": (str,),
}
"""What the methods of a hub return; the others return nothing that is used."""


def hub_of(address: Address, registry: Registry) -> Hub:
    """Return the hub of an address.

    Raises:
        UnknownNameError, PluginError: there is no such hub, or it cannot be imported.
        HubError: the address cannot be one of this hub.
    """
    scheme = registry.hubs.find(address.scheme)
    owner = registry.hubs.owner(address.scheme)
    kind = import_object(scheme.hub, f"hub {scheme.name}://")
    builtin = owner.plugin is None or owner.plugin.builtin
    hub = kind() if builtin else _Reporting(kind, f"hub {scheme.name}:// of {owner}")
    hub.check(address)
    return cast(Hub, hub)


class _Reporting:
    """A plugin's hub, whose foreign exceptions and wrong results are errors of the zoo."""

    def __init__(self, kind: Callable[[], object], what: str) -> None:
        self._what = what
        if not (isinstance(kind, type) and issubclass(kind, Hub)):
            raise PluginError(f"{what} is broken", f"{kind!r} is no subclass of zoo.Hub")
        self._hub = self._call("its class", kind, ())

    def __getattr__(self, name: str) -> Any:
        value = self._call(name, lambda: getattr(self._hub, name), ())
        if not callable(value):
            return value

        def method(*arguments: Any, **given: Any) -> Any:
            return self._call(name, lambda: value(*arguments, **given), RETURNS.get(name, ()))

        return method

    def _call(self, name: str, function: Callable[[], Any], expected: tuple[type, ...]) -> Any:
        try:
            result = function()
        except (ZooError, OSError):
            raise
        except FAILURES as error:
            reason = f"{name} raised {type(error).__name__}: {error}"
            raise HubError(f"{self._what} is broken", reason) from error
        if expected and not isinstance(result, expected):
            names = " or ".join(kind.__name__ for kind in expected)
            reason = f"{name} returned {reprlib.repr(result)}, not {names}"
            raise HubError(f"{self._what} is broken", reason)
        return result
