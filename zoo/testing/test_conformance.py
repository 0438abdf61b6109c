"""`pytest --pyargs zoo.testing --zoo-architecture NAME` runs every law on what is installed."""

from __future__ import annotations

import pytest

from zoo.registry.registry import default_registry
from zoo.testing.case import case
from zoo.testing.law import Law
from zoo.testing.laws import LAWS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try every law on the architectures named, or on all there are."""
    named = metafunc.config.getoption("zoo_architecture", [])
    metafunc.parametrize("architecture", named or sorted(default_registry().architectures))
    metafunc.parametrize("law", LAWS, ids=lambda law: law.name)


def test_law(architecture: str, law: Law) -> None:
    """A law of the contract, on an architecture's example config."""
    law(case(architecture))
