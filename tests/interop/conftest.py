"""A folder for the checkpoint of another project."""

from pathlib import Path

import pytest


@pytest.fixture
def model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; its conversions are cached beside it."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    return folder
