"""The example package `zoo-networks`, installed in this process while its tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo.registry.discovery import _discovered
from zoo.registry.registry import Registry, default_registry

PACKAGE = Path(__file__).parents[2] / "docs" / "examples" / "zoo-networks"


def install(site: Path) -> list[Path]:
    """Write the metadata of the example package to a folder; return what `sys.path` must have."""
    info = site / "zoo_networks-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-networks\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nnetworks = zoo_networks\n")
    return [site, PACKAGE / "src"]


@pytest.fixture(scope="module", autouse=True)
def networks(tmp_path_factory: pytest.TempPathFactory, imports_checked: None) -> Iterator[Registry]:
    """The registry with the example package; the plugins that are found are reset at the end."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in install(tmp_path_factory.mktemp("networks") / "site"):
            patch.syspath_prepend(str(folder))
        _discovered.cache_clear()
        yield default_registry()
    _discovered.cache_clear()
