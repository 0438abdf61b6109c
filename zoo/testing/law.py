"""What a law is: a check that says which law was broken, what was seen, and what causes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from zoo.testing.case import Case

Law = Callable[["Case"], None]

CLOSE = 1e-9
"""How near two float64 answers must be that are one in mathematics."""


class BrokenLawError(AssertionError):
    """A law of the contract does not hold. `seen` says what was seen, `law` the law's name."""

    def __init__(self, seen: str, law: str = "", says: str = "", causes: str = "") -> None:
        self.seen, self.law, self.causes = seen, law, causes
        lines = [f"law {law}: {says}", f"seen: {seen}", f"usual causes: {causes}"]
        super().__init__("\n".join(lines) if law else seen)


def law(*, causes: str) -> Callable[[Law], Law]:
    """Make a law of a check: its docstring is what the law says.

    The check raises `BrokenLawError` with what it saw. Whatever else is raised, by the network, is
    a broken law too.
    """

    def made(check: Law) -> Law:
        name, says = check.__name__, str(check.__doc__).partition("\n")[0]

        @functools.wraps(check)
        def checked(case: Case) -> None:
            __tracebackhide__ = True
            try:
                check(case)
            except BrokenLawError as error:
                raise BrokenLawError(error.seen, name, says, causes) from None
            except Exception as error:
                seen = f"the network raised {type(error).__name__}: {error}"
                raise BrokenLawError(seen, name, says, causes) from error

        return checked

    return made


def same(seen: Tensor, wanted: Tensor, what: str, within: float = CLOSE) -> None:
    """Raise unless the two are of one shape and equal to `within`."""
    if seen.shape != wanted.shape:
        raise BrokenLawError(f"{what}: shape {tuple(seen.shape)}, not {tuple(wanted.shape)}")
    off = float((seen - wanted).abs().max()) if seen.numel() else 0.0
    if not off < within:
        raise BrokenLawError(f"{what}: off by {off:.2g}")
