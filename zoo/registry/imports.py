"""Import an object by its path, `"package.module:Name"`, as declarations give it.

Also the check for packages that are extras.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import reprlib
from typing import Any

from zoo.errors import MissingPackageError, PluginError, out_of_memory


def fault_of_path(path: object, name: str = "path") -> str:
    """Return why a value is no path of an object, or an empty string; `name` is what it is."""
    if isinstance(path, str) and re.fullmatch("[^:]+:[^:]+", path):
        return ""
    return f"its {name} is {reprlib.repr(path)}, not 'package.module:Name'"


def import_object(path: str, kind: str) -> Any:
    """Import the object at `path`; `kind` names its purpose in the error.

    Raises:
        PluginError: it cannot be imported.
    """
    if fault := fault_of_path(path):
        raise PluginError(f"{kind} is broken", fault, "Report this to its author")
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        if out_of_memory(error):
            raise
        raise PluginError(
            f"{kind} is broken",
            f"{path} gave {type(error).__name__}: {error}",
            "Install its package again, or report this to its author",
        ) from error


def require(*packages: str, extra: str, purpose: str = "") -> None:
    """Check that packages are installed, before they are imported.

    Args:
        packages: the names under which they are imported.
        extra: the extra of `seq2seq-zoo` that installs them.
        purpose: what needs them; by default the extra's name.

    Raises:
        MissingPackageError: some are missing; names all of them and the command that installs them.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise MissingPackageError(
            f"missing packages for {purpose or extra}",
            f"{' and '.join(missing)} {are} not installed",
            f"pip install 'seq2seq-zoo[{extra}]'",
        )
