"""All laws as one parametrized test, for a plugin's own test file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.testing.case import Case, case
from zoo.testing.law import BrokenLawError, Law
from zoo.testing.laws import LAWS

BY_NAME = {law.name: law for law in LAWS}


class Outcomes:
    """Which laws hold on one architecture; each is checked at most once, on a new case."""

    def __init__(self, make: Callable[[], Case]) -> None:
        self.make = make
        self._broken: dict[str, bool] = {}

    def waits_for(self, law: Law) -> str | None:
        """Return the first law that must hold before this one and does not, or None."""
        for name in law.requires:
            required = BY_NAME[name]
            root = self.waits_for(required)
            if root is not None:
                return root
            if name not in self._broken:
                self._check(required)
            if self._broken[name]:
                return name
        return None

    def run(self, law: Law) -> None:
        """Check a law; skip the test if the law does not apply, or waits for one that fails.

        Raises:
            BrokenLawError: it does not hold.
        """
        __tracebackhide__ = True
        import pytest

        reason = law.skipped(self.make()) if law.of != "all" else None
        if reason is not None:
            pytest.skip(f"does not apply: {reason}")
        name = self.waits_for(law)
        if name is not None:
            pytest.skip(f"waits for law {name}, which does not hold")
        self._broken[law.name] = True
        law(self.make())
        self._broken[law.name] = False

    def _check(self, law: Law) -> None:
        try:
            law(self.make())
        except BrokenLawError:
            self._broken[law.name] = True
        else:
            self._broken[law.name] = False


def conformance(architecture: str, **values: Any) -> Callable[[Law], None]:
    """Return a test of every law, for an architecture that an installed plugin provides.

    `values` override its example config, to test a variant. A law that can only fail because
    another does is skipped, and names the other.
    """
    import pytest

    outcomes = Outcomes(lambda: case(architecture, **values))

    @pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
    def test_law(law: Law) -> None:
        outcomes.run(law)

    return test_law
