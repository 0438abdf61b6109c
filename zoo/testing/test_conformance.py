"""`pytest --pyargs zoo.testing --zoo-architecture NAME` runs every law on installed plugins."""

from __future__ import annotations

import functools

import pytest

from zoo.registry.registry import default_registry
from zoo.testing.case import Case, case
from zoo.testing.law import Law
from zoo.testing.laws import LAWS
from zoo.testing.outcomes import Outcomes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every law on the named architectures, or on all that are installed."""
    named = metafunc.config.getoption("zoo_architecture", [])
    metafunc.parametrize("architecture", named or sorted(default_registry().architectures))
    metafunc.parametrize("law", LAWS, ids=lambda law: law.name)


@functools.cache
def outcomes_of(architecture: str) -> Outcomes[Case]:
    """Return the outcomes of an architecture's laws, which its tests share."""
    return Outcomes(LAWS, functools.partial(case, architecture))


def test_law(architecture: str, law: Law) -> None:
    """A law of the contract holds for an architecture's example config."""
    outcomes_of(architecture).run(law)
