"""Fixtures of these tests: the compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoo.cli import cli
from zoo.nn import kernels as module


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the compiled kernels, made once."""
    cache = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(cache))
        result = CliRunner().invoke(cli, ["compile-kernels"])
        assert not result.exit_code, result.output
    (file,) = (cache / "kernels").glob("*.so")
    return file


@pytest.fixture
def compiled(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ZOO_CACHE", str(library.parents[1]))
    find = module.kernels  # a test may replace it
    find.cache_clear()
    yield
    find.cache_clear()
