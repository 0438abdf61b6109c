"""What a law is: a check that says which law was broken, what was seen, and what causes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from zoo.testing.case import Case

CLOSE = 1e-9
"""How near two float64 answers must be that are one in mathematics."""


class BrokenLawError(AssertionError):
    """A law of the contract does not hold. `seen` says what was seen."""

    def __init__(self, seen: str, law: Law | None = None) -> None:
        self.seen, self.law = seen, law
        if law is not None:
            lines = [f"law {law.name}: {law.says}", f"seen: {seen}", f"usual causes: {law.causes}"]
            seen = "\n".join(lines)
        super().__init__(seen)


@dataclass(frozen=True)
class Law:
    """A law of the contract: called with a case, it raises `BrokenLawError` unless it holds.

    The check raises `BrokenLawError` with what it saw. Whatever else is raised, by the network, is
    a broken law too.
    """

    check: Callable[[Case], None]
    causes: str

    @property
    def name(self) -> str:
        """The law's name."""
        return self.check.__name__

    @property
    def says(self) -> str:
        """What the law says, in a sentence."""
        return str(self.check.__doc__).partition("\n")[0]

    def __call__(self, case: Case) -> None:
        """Raise `BrokenLawError` unless the law holds."""
        __tracebackhide__ = True
        try:
            self.check(case)
        except BrokenLawError as error:
            raise BrokenLawError(error.seen, self) from None
        except Exception as error:
            seen = f"the network raised {type(error).__name__}: {error}"
            raise BrokenLawError(seen, self) from error


def law(*, causes: str) -> Callable[[Callable[[Case], None]], Law]:
    """Make a law of a check: its docstring is what the law says."""
    return lambda check: Law(check, causes)


def same(seen: Tensor, wanted: Tensor, what: str, within: float = CLOSE) -> None:
    """Raise unless the two are of one shape and equal to `within`."""
    if seen.shape != wanted.shape:
        raise BrokenLawError(f"{what}: shape {tuple(seen.shape)}, not {tuple(wanted.shape)}")
    off = float((seen - wanted).abs().max()) if seen.numel() else 0.0
    if not off < within:
        raise BrokenLawError(f"{what}: off by {off:.2g}")
