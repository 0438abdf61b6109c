"""All laws of networks as one parametrized test, for a plugin's own test file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.testing.case import Case, case
from zoo.testing.law import LawOf
from zoo.testing.laws import LAWS
from zoo.testing.outcomes import conformance_test


def conformance(architecture: str, **values: Any) -> Callable[[LawOf[Case]], None]:
    """Return a test of every law, for an architecture that an installed plugin provides.

    `values` override its example config, to test a variant. A law that can only fail because
    another does is skipped, and names the other.
    """
    return conformance_test(LAWS, lambda: case(architecture, **values))
