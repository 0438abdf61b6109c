"""The reasons why a conversion is refused, collected so that one error lists all of them."""

from __future__ import annotations

from zoo.errors import ConversionError

LONGEST = 500
"""The most characters of a reason that an error shows."""

LISTED = 20
"""The most reasons that an error lists; of more, it gives the number."""


class Reasons:
    """A list of reasons.

    Args:
        what: the beginning of the error, such as `FOLDER cannot be imported`.
        next: the advice at its end.
    """

    def __init__(self, what: str, next: str = "") -> None:
        self.what, self.next = what, next
        self.all: list[str] = []

    def add(self, reason: str) -> None:
        """Add a reason."""
        self.all.append(reason if len(reason) <= LONGEST else f"{reason[:LONGEST]}…")

    def check(self, holds: bool, reason: str) -> None:
        """Add a reason unless `holds`."""
        if not holds:
            self.add(reason)

    def raise_if_any(self) -> None:
        """Raise if there are reasons.

        Raises:
            ConversionError: it lists the first 20 reasons and how many more there are.
        """
        if self.all:
            more = f" and {len(self.all) - LISTED} more" if len(self.all) > LISTED else ""
            raise ConversionError(self.what, "; ".join(self.all[:LISTED]) + more, self.next)
