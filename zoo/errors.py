"""One tree of errors. Each says what is wrong, why, and what to do next, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ZooError(Exception):
    """Anything a user can put right.

    `what` is wrong, `why` it is, and what to do `next`; the message joins the three.
    """

    def __init__(self, what: str, why: str = "", next: str = "") -> None:
        self.what, self.why, self.next = what, why, next
        message = f"{what}: {why}" if why else what
        stop = "" if message.endswith(("?", ".")) else "."
        super().__init__(f"{message}{stop} {next}" if next else message)


class UnknownNameError(ZooError):
    """A name that nothing answers to; near names are suggested."""

    def __init__(self, kind: str, name: str, known: Iterable[str], next: str = "") -> None:
        known = sorted(set(known))
        self.suggestions = near(name, known)
        if self.suggestions:
            why = f"did you mean {' or '.join(self.suggestions)}?"
        elif known:
            why = f"known are {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
        else:
            why = "none is known"
        super().__init__(f"unknown {kind} {name!r}", why, next)


class ConfigError(ZooError):
    """Configuration or recipe values that do not fit; all of them at once."""


class DataError(ZooError):
    """Data that is missing, unequal, empty or not text."""


class CheckpointError(ZooError):
    """A checkpoint or run folder that is missing, in the way, or not whole."""


class PluginError(ZooError):
    """A plugin that could not be loaded, or an architecture that no installed plugin brings."""


class TrainingError(ZooError):
    """Training that cannot go on."""


class DecodingError(ZooError):
    """A source that the model cannot take, or search options that contradict each other."""


class CatalogueError(ZooError):
    """A catalogue that cannot be read or written, or an entry of it that does not hold."""


class HubError(ZooError):
    """A hub that refuses, or does not give what it should."""


class UnavailableError(HubError):
    """A hub that does not answer now; `wait` is for how many seconds it asks, where it says so."""

    def __init__(self, what: str, why: str = "", next: str = "", wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(what, why, next)


class AccessError(HubError):
    """A repository that is private or gated, or a token that is missing, wrong or too weak."""


class NotFoundError(HubError):
    """A repository, a revision or a file that a hub does not have."""


class IntegrityError(HubError):
    """Bytes that are not the ones that were promised."""


class ConflictError(HubError):
    """A repository that somebody else has changed in the meantime."""


class HubWarning(UserWarning):
    """A hub that could not be asked, so that what is cached was used as it is."""


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the names in `known` that look like `name`, nearest first."""
    lowered = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=0.6)
    return [lowered[k] for k in found]
