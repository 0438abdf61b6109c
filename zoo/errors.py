"""One tree of errors. Each message says what is wrong, why, and what to do next, in one line."""

from __future__ import annotations

import contextlib
import copyreg
import difflib
import errno
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

NAME_LIMIT = 200
"""The most characters of a name that are compared with others, or shown."""

MESSAGE_LIMIT = 4_000
"""The most characters of each part of a message: some come from files."""

FAILURES = (Exception, SystemExit)
"""What one plugin may raise without blocking the others. KeyboardInterrupt is not among them."""


LONGEST_NUMBER = 1_000
"""The most bits of an integer that is shown: Python refuses to print very long ones."""

OPTION = re.compile(r"(?<![\w-])--[a-z]")
"""An option of the command line in a message."""

IN_PYTHON = 'An option such as `--new-vocabulary both` is an argument here: new_vocabulary="both"'

OTHER_NAMES = {
    "--resume": "`--resume` is the function zoo.resume",
    "--no-": "`--no-split` is split=False",
    "--from": "`--from` is from_",
    "--search": "`--search` is method",
    "--processor": "`--processor` is processors",
}
"""Options that are not called in Python as on the command line."""

BREAKS = re.compile(r"\s*[\x00-\x1f\x7f-\x9f\u2028\u2029]+\s*")
"""Line breaks and other control characters, with the white space around them."""


def _on_one_line(text: str) -> str:
    """Return a part of a message on one line: it may come from a file or another library."""
    line = BREAKS.sub(" ", text[: MESSAGE_LIMIT + 1]).strip()
    line = line.removesuffix(":")  # of an exception without a message, such as `assert` raises
    return line if len(text) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]}…"


def shown(value: object) -> str:
    """Return a value as a message shows it: its `repr`, cut if it is long."""
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        return "an integer of hundreds of digits"
    try:
        text = repr(value)
    except Exception:  # of a type that cannot be printed, or that holds such a number
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= NAME_LIMIT else f"{text[:NAME_LIMIT]}…"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 pair`, `2,000 pairs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class ZooError(Exception):
    """An error that a user can correct.

    `what` is wrong, `why`, and what to do `next`; the message joins the three on one line. It names
    options as the command line does; a note, which Python shows below the message, says what they
    are there.
    """

    quiet: bool | None = None
    """Whether another of several processes that train reports this error; None if not known."""

    def __init__(self, what: str, why: str = "", next: str = "") -> None:
        what, why, next = map(_on_one_line, (what, why, next))
        self.what, self.why, self.next = what, why, next
        message = f"{what}: {why}" if why else what
        stop = "" if message.endswith(("?", ".")) else "."
        super().__init__(f"{message}{stop} {next}" if next else message)
        if OPTION.search(str(self)):
            others = [note for option, note in OTHER_NAMES.items() if option in str(self)]
            self.add_note("; ".join([IN_PYTHON, *others]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process makes this error again, whatever its constructor needs."""
        return copyreg.__newobj__, (type(self), str(self)), vars(self)  # type: ignore[attr-defined]  # not in its stub


class UnknownNameError(ZooError):
    """An unknown name; near names are suggested."""

    def __init__(self, kind: str, name: object, known: Iterable[str], next: str = "") -> None:
        known = sorted(set(known))
        name = shown(name) if isinstance(name, int) else str(name)
        listed = f"known are {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
        why = did_you_mean(name, known) or (listed if known else "none is known")
        super().__init__(f"unknown {kind} {name[:NAME_LIMIT]!r}", why, next)


class ArgumentError(ZooError, TypeError):
    """An argument of a function that is of another type than it reads."""


class ConfigError(ZooError):
    """Invalid configuration or recipe values; all of them are listed at once."""


class DataError(ZooError):
    """Data that is missing, empty, not text, or of unequal length."""


class CheckpointError(ZooError):
    """A checkpoint or run folder that is missing, damaged, or already exists."""


class ConversionError(ZooError):
    """A foreign checkpoint or format that cannot be converted exactly; lists all reasons."""


class LockedError(ZooError):
    """A file that another process is changing."""


class PluginError(ZooError):
    """A plugin that cannot be loaded, or an architecture that no installed plugin provides."""


class MissingPackageError(ZooError):
    """A package that only some commands need, and that is not installed."""


class TrainingError(ZooError):
    """Training that cannot continue."""


class DecodingError(ZooError):
    """A source that the model cannot translate, or search options that contradict each other."""


class CatalogueError(ZooError):
    """A catalogue that cannot be read or written, or an invalid entry of it."""


class HubError(ZooError):
    """A hub that rejects a request, or sends an invalid response."""


class NotOursError(HubError):
    """A repository that is no checkpoint of this zoo, and may be one of another project."""


class UnavailableError(HubError):
    """A temporary failure of a hub; `wait` is the seconds after which it accepts a retry, or 0."""

    def __init__(self, what: str, why: str = "", next: str = "", wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(what, why, next)


def wrong_network(subject: str, error: Exception) -> UnavailableError:
    """Return the error for a client of HTTP that cannot begin; a proxy's address may have a key."""
    return UnavailableError(
        f"no request can be made for {subject}",
        re.sub(r"//[^/@\s]*@", "//…@", f"{error}"),
        "Check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
        wait=math.inf,  # a retry would not help
    )


class AccessError(HubError):
    """A repository that is private or gated, or a token that is missing, wrong or too weak."""


class NotFoundError(HubError):
    """A repository, a revision or a file that does not exist on a hub."""


class IntegrityError(HubError):
    """A file that does not match its digest, or a response that contradicts an earlier one."""


class ConflictError(HubError):
    """A repository that somebody else changed in the meantime."""


class HubWarning(UserWarning):
    """A local copy is used because the hub is not available."""


class ConversionWarning(UserWarning):
    """A setting of an imported checkpoint has no counterpart and is left out."""


class PluginWarning(UserWarning):
    """A broken part of a plugin is left out, or another plugin brings what a checkpoint needs."""


def plain_name(name: str) -> str:
    """Return a name without the differences that people forget: capitals and underscores."""
    return name.lower().replace("_", "-")


def did_you_mean(name: str, known: Iterable[str], most: int = 3, begin: str = "did") -> str:
    """Return the question whether names that look like another are meant: `did you mean beam?`.

    That is the one which differs in capitals and underscores alone; or else those that have the
    name as a part, the shortest first, and then the nearest. It is empty for a long name.
    """
    if len(name) > NAME_LIMIT:
        return ""
    plain, given = {plain_name(k): k for k in known}, plain_name(name)
    parts = sorted((k for k in plain if len(given) > 2 and given in k), key=len)
    near = difflib.get_close_matches(given, plain, n=most, cutoff=0.6)
    matches = [plain[k] for k in dict.fromkeys((*parts, *near))][: 1 if given in plain else most]
    return f"{begin} you mean {' or '.join(matches)}?" if matches else ""


def in_brackets(hint: str) -> str:
    """Return a hint in brackets, after a space; empty for none."""
    return f" ({hint})" if hint else ""


def reason_of(error: OSError | ValueError) -> str:
    """Return why something cannot be written, without what the system's message repeats."""
    if isinstance(error, UnicodeEncodeError):  # of half of a surrogate pair, as Python reads names
        return "it would name a file or a folder whose name is not UTF-8"
    return getattr(error, "strerror", None) or str(error)


@contextlib.contextmanager
def writing(path: object, kind: type[ZooError] = CheckpointError) -> Iterator[None]:
    """Turn what the system says while `path` is written into an error of the given kind.

    Raises:
        ZooError: it cannot be written, for example below a file or with too long a name.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        what = f"{path} cannot be written"
        raise kind(what, reason_of(error), "Choose another place") from error


@contextlib.contextmanager
def naming_full_disk(path: object) -> Iterator[None]:
    """Name what is being written in errors of a full disk, in which the system names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and error.filename is None:
            error.filename = str(path)
        raise


def out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: for Python, torch or a library that is loaded."""
    words = ("DefaultCPUAllocator", "not enough memory", "failed to map segment")
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return known or any(word in str(error) for word in words)


def unexpanded(path: str | os.PathLike[str]) -> str:
    """Return why a path that begins with `~` is none in the home folder; empty for another one."""
    if Path(path).parts[:1] != ("~",) or os.path.isdir("~"):
        return ""
    return "~ is your home folder only where a shell replaces it, not after = or in quotes"
