"""Packages that only some formats need; each is an extra of the zoo's package."""

from __future__ import annotations

import importlib.util

from zoo.errors import ConversionError


def require(*packages: str, extra: str) -> None:
    """Check that packages are installed, before they are imported.

    Args:
        packages: the names under which they are imported.
        extra: the extra of `seq2seq-zoo` that installs them.

    Raises:
        ConversionError: some are missing; names all of them and the command that installs them.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ConversionError(
            f"{extra} needs more packages",
            f"{' and '.join(missing)} {are} not installed",
            f"pip install 'seq2seq-zoo[{extra}]'",
        )
