"""What a plugin names by where it is, as `"package.module:Name"`, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from zoo.errors import PluginError


def import_object(where: str, what: str) -> Any:
    """Return what stands at `where`, `what` being what it is for.

    Raises:
        PluginError: it cannot be imported.
    """
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise PluginError(
            f"{what} is broken",
            f"{where} gave {type(error).__name__}: {error}",
            "Install its package again, or report this to its author",
        ) from error
