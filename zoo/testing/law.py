"""What a law is: a check whose failure names the law, what was observed and the usual causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from torch import Tensor

from zoo.errors import ArgumentError, UnknownNameError, shown
from zoo.nn.contract import NonAutoregressive
from zoo.testing.results import wrong_results
from zoo.testing.settings import kept_settings

if TYPE_CHECKING:
    from zoo.testing.case import Case

TOLERANCE = 1e-9
"""Largest difference between two float64 results that are mathematically equal."""


CaseType = TypeVar("CaseType")


class BrokenLawError(AssertionError):
    """A law of the contract does not hold; `observed` describes what happened instead."""

    def __init__(self, observed: str, law: LawOf[Any] | None = None) -> None:
        self.observed, self.law = observed, law
        message = observed
        if law is not None:
            message = (
                f"law {law.name}: {law.statement}\nobserved: {observed}\nusual causes: {law.causes}"
            )
        super().__init__(message)


@dataclass(frozen=True)
class LawOf(Generic[CaseType]):
    """A law of one kind of case: calling it raises `BrokenLawError` unless it holds.

    `check` raises `BrokenLawError` with what it observed. Any other exception breaks the law too,
    but for an unknown name, such as a misspelled one of the case.
    What breaks one of the laws named in `requires` breaks this one as a consequence: then only the
    other is worth reading.
    """

    check: Callable[[CaseType], None]
    causes: str
    requires: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The law's name."""
        return self.check.__name__

    @property
    def statement(self) -> str:
        """The law in one sentence."""
        return str(self.check.__doc__).partition("\n")[0]

    def __call__(self, case: CaseType) -> None:
        """Raise `BrokenLawError` unless the law holds."""
        __tracebackhide__ = True
        try:
            self.check(case)
        except BrokenLawError as error:
            raise BrokenLawError(error.observed, self) from None
        except UnknownNameError:
            raise
        except Exception as error:
            observed = self.observed(case, error)
            cause = error if str(error) in observed else None  # a consequence of what was observed
            raise BrokenLawError(observed, self) from cause

    def observed(self, case: CaseType, error: Exception) -> str:
        """Return the description of an exception that the check did not expect."""
        return f"it raised {type(error).__name__}: {error}"

    def skipped(self, case: CaseType) -> str | None:
        """Return why the law says nothing about a case, or None."""
        return None


def law_of(
    *, causes: str, requires: str = ""
) -> Callable[[Callable[[CaseType], None]], LawOf[CaseType]]:
    """Make a law of a check; the first line of its docstring states the law.

    `requires` are names of laws, separated by spaces.
    """
    return lambda check: LawOf(check, causes, tuple(requires.split()))


@dataclass(frozen=True)
class Law(LawOf["Case"]):
    """A law of networks.

    `of` are the networks that the law is about: all, those that decode step by step, or those with
    a search of their own.
    """

    of: Literal["all", "steps", "own search"] = "all"

    def skipped(self, case: Case) -> str | None:
        """Return why the law says nothing about this network, or None."""
        if self.of == "steps" and isinstance(case.model, NonAutoregressive):
            return "the network predicts all tokens together, by a search of its own"
        if self.of == "own search" and not isinstance(case.model, NonAutoregressive):
            return "the network has no search of its own"
        return None

    def __call__(self, case: Case) -> None:
        """Raise `BrokenLawError` unless the law holds."""
        __tracebackhide__ = True
        if not hasattr(case, "model"):
            next = 'Give it zoo.testing.case("my-architecture")'
            raise ArgumentError(f"{self.name} is a law of a case, not of {shown(case)}", next=next)
        if not self.skipped(case):
            # What a network changes is one law's to report, and no other's to suffer from.
            with kept_settings():
                super().__call__(case)

    def observed(self, case: Case, error: Exception) -> str:
        """Return what has a wrong type, the cause of many exceptions, or what was raised."""
        return wrong_results(case) or f"the network raised {type(error).__name__}: {error}"


def law(
    *, causes: str, requires: str = "", of: Literal["all", "steps", "own search"] = "all"
) -> Callable[[Callable[[Case], None]], Law]:
    """Make a law of networks of a check; the first line of its docstring states the law.

    `requires` are names of laws, separated by spaces.
    """
    return lambda check: Law(check, causes, tuple(requires.split()), of)


def require_close(
    actual: Tensor, expected: Tensor, what: str, tolerance: float = TOLERANCE
) -> None:
    """Raise unless the two have one shape and no difference above the tolerance.

    Raises:
        BrokenLawError: they differ; the message begins with `what`.
    """
    if actual.shape != expected.shape:
        raise BrokenLawError(f"{what}: shape {tuple(actual.shape)}, not {tuple(expected.shape)}")
    difference = float((actual.double() - expected.double()).abs().max()) if actual.numel() else 0.0
    if not difference < tolerance:
        raise BrokenLawError(f"{what}: off by {difference:.2g}, the threshold is {tolerance:.2g}")
