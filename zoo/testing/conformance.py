"""All laws as one parametrized test, for a plugin's own test file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.testing.case import case
from zoo.testing.law import Law
from zoo.testing.laws import LAWS


def conformance(architecture: str, **values: Any) -> Callable[[Law], None]:
    """Return a test of every law, for an architecture that an installed plugin provides.

    `values` override its example config, to test a variant.
    """
    import pytest

    @pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
    def test_law(law: Law) -> None:
        law(case(architecture, **values))

    return test_law
