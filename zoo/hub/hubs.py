"""Find the hub of an address. What a plugin's hub raises is reported in one line."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType
from typing import cast

from zoo.errors import HubError
from zoo.hub.contract import Hub, Listing, LocalCommit
from zoo.registry.address import Address
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry
from zoo.registry.reporting import Reporting

WEB = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:/.*)?")
"""Pages of repositories on the web."""

RETURNS: dict[str, tuple[type, ...]] = {
    "offline": (bool,),
    "listing": (Listing,),
    "damaged": (list,),
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
    page = WEB.fullmatch(str(address))
    if page is not None and address.scheme not in registry.hubs:
        why = "a checkpoint of the Hub has the address hf://OWNER/NAME"
        raise HubError(f"{str(address)!r} is a page", why, f"Write hf://{page[1]}")
    scheme = registry.hubs.find(address.scheme)
    owner = registry.hubs.owner(address.scheme)
    kind = import_object(scheme.hub, f"hub {scheme.name}://")
    if owner.builtin:
        hub = kind()
    else:
        what = f"hub {scheme.name}:// of {owner}"
        hub = Reporting(kind, what, Hub, RETURNS, error=HubError, passes=(OSError,))
    hub.check(address)
    return cast(Hub, hub)
