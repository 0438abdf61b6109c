"""All laws of one kind as one parametrized test: a law waits for those that it requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from zoo.testing.law import BrokenLawError, CaseType, LawOf


class Outcomes(Generic[CaseType]):
    """Which of some laws hold; each is checked at most once, on a new case that `make` returns."""

    def __init__(self, laws: Sequence[LawOf[CaseType]], make: Callable[[], CaseType]) -> None:
        self.laws = {law.name: law for law in laws}
        self.make = make
        self._broken: dict[str, bool] = {}
        self._without_case: str | None = None  # the law whose test reports that `make` raises

    def waits_for(self, law: LawOf[CaseType]) -> str | None:
        """Return the first law that must hold before this one and does not, or None."""
        for name in law.requires:
            required = self.laws[name]
            root = self.waits_for(required)
            if root is not None:
                return root
            if name not in self._broken:
                self._check(required)
            if self._broken[name]:
                return name
        return None

    def run(self, law: LawOf[CaseType]) -> None:
        """Check a law; skip the test if the law does not apply, or waits for one that fails.

        Raises:
            BrokenLawError: it does not hold.
            Exception: what `make` raises, or an unknown name, once; the other laws are skipped.
        """
        __tracebackhide__ = True
        import pytest

        if self._without_case not in (None, law.name):
            pytest.skip(f"there is nothing to check: see the failure of {self._without_case}")
        try:
            self._run(law)
        except BrokenLawError:
            raise
        except Exception:
            self._without_case = law.name
            raise

    def _run(self, law: LawOf[CaseType]) -> None:
        __tracebackhide__ = True
        import pytest

        made = self.make()
        reason = law.skipped(made)
        if reason is not None:
            pytest.skip(f"does not apply: {reason}")
        name = self.waits_for(law)
        if name is not None:
            pytest.skip(f"waits for law {name}, which does not hold")
        self._broken[law.name] = True
        law(self.make() if law.requires else made)
        self._broken[law.name] = False

    def _check(self, law: LawOf[CaseType]) -> None:
        try:
            law(self.make())
        except BrokenLawError:
            self._broken[law.name] = True
        else:
            self._broken[law.name] = False


def conformance_test(
    laws: Sequence[LawOf[CaseType]], make: Callable[[], CaseType]
) -> Callable[[LawOf[CaseType]], None]:
    """Return a test of every law, each on a new case.

    A law that can only fail because another does is skipped, and names the other.
    """
    import pytest

    outcomes = Outcomes(laws, make)

    @pytest.mark.parametrize("law", laws, ids=lambda law: law.name)
    def test_law(law: LawOf[CaseType]) -> None:
        outcomes.run(law)

    return test_law
