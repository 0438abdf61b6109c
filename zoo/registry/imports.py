"""Import an object by its path, `"package.module:Name"`, as declarations give it."""

from __future__ import annotations

import importlib
from typing import Any

from zoo.errors import PluginError


def import_object(path: str, kind: str) -> Any:
    """Import the object at `path`; `kind` names its purpose in the error.

    Raises:
        PluginError: it cannot be imported.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{kind} is broken",
            f"{path} gave {type(error).__name__}: {error}",
            "Install its package again, or report this to its author",
        ) from error
