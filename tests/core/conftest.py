"""Fixtures of these tests: the compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import Once
from zoo.cli import cli
from zoo.nn import kernels as module


@pytest.fixture(scope="session")
def library(once: Once) -> Path:
    """The compiled kernels, in a cache of their own."""

    def compile_kernels(cache: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ZOO_CACHE", str(cache))
            result = CliRunner().invoke(cli, ["compile-kernels"])
            assert not result.exit_code, result.output

    (file,) = (once("compiled", compile_kernels) / "kernels").glob("*.so")
    return file


@pytest.fixture
def compiled(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ZOO_CACHE", str(library.parents[1]))
    find = module.kernels  # a test may replace it
    find.cache_clear()
    yield
    find.cache_clear()
