"""The version of the plugin API, and which versions this zoo loads."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
from importlib.machinery import PathFinder
from typing import Any

from zoo.errors import PluginError
from zoo.registry.owners import DISTRIBUTION, Plugin

API = 2
"""The version of the plugin API: the hooks, the names that `zoo` and `zoo.nn` export, the contract
of networks and configs, and the catalogue format. A plugin states `ZOO_API = 2`. Within a version
names are added; none is removed or changes its meaning."""

OLDEST_API = 2
"""The oldest version that still loads. From version 3 on it will be the one before `API`."""

UNSTATED_API = 1
"""The version of a plugin without `ZOO_API`."""

CHANGES = f"docs/api-{API}.md"
"""The page that lists what changed since the version before."""


def check_api(api: object, plugin: Plugin) -> None:
    """Check that this zoo supports the API version of a plugin.

    Raises:
        PluginError: it does not; the message states what to change or to install.
    """
    if type(api) is not int:
        raise PluginError(f"ZOO_API is {api!r}", "it must be an integer", f"Write ZOO_API = {API}")
    if OLDEST_API <= api <= API:
        return
    what = f"it was written for version {api} of the plugin API"
    what += " or states no ZOO_API" if api == UNSTATED_API else ""
    why = f"this zoo loads version {OLDEST_API} {f'to {API} ' if OLDEST_API < API else ''}".strip()
    if api > API:
        raise PluginError(what, why, f"Install a newer {DISTRIBUTION}")
    raise PluginError(
        what,
        why,
        f"Install a newer {plugin.distribution}; its author changes what {CHANGES} lists "
        f"(`zoo plugins --api-changes` prints it) and writes ZOO_API = {API}",
    )


def stated_api(module: str) -> int | None:
    """Return the `ZOO_API` in the source text of a module that cannot be imported.

    None means that the source cannot be read, or that the number is not stated plainly; a module
    that states nothing has `UNSTATED_API`. Nothing is imported: not even the packages around it.
    """
    with contextlib.suppress(Exception):
        first, *others = itertools.accumulate(module.split("."), "{}.{}".format)
        spec: Any = importlib.util.find_spec(first)
        for name in others:
            spec = PathFinder.find_spec(name, spec.submodule_search_locations)
        text = spec.loader.get_source(module)
        for statement in ast.parse(text).body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            assigned = (
                statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            )
            if ast.unparse(assigned[0]) == "ZOO_API":
                return int(ast.literal_eval(statement.value))
        return None if "ZOO_API" in text else UNSTATED_API
    return None
