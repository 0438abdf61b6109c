"""What every importer must do with a folder that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.errors import ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry


def require_refused(folder: Path, message: str, format: str | None = None) -> None:
    """Raise unless an import is refused in one line with this message, and writes nothing."""
    out = folder.with_name("out")
    with pytest.raises(ZooError, match=message) as caught:
        import_checkpoint(folder, out, default_registry(), format)
    assert "\n" not in str(caught.value)
    assert not out.exists()
