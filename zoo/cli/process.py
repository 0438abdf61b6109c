"""Everything that the command line changes in its own process.

Calls of the library change nothing of the process. A Python program that wants the command line's
speed calls `configure()` itself, before it imports torch.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import ctypes
import errno
import gc
import io
import os
import signal
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import click

from zoo.errors import ConversionWarning, HubWarning, PluginWarning
from zoo.registry.discovery import CHOICE

FITTING = "zoo-fitting"
"""The name of the error handler of codecs that `fit_output` registers."""

SIMILAR = {
    "█": "#", "▓": "=", "▒": "-", "░": ".", "▁": "_", "…": "...", "×": "x", "·": ".", "–": "-",
    "—": "-", "−": "-", "±": "+-", "“": '"', "”": '"', "‘": "'", "’": "'", "→": "->", "←": "<-",
    "•": "*", "─": "-", "━": "-", "│": "|", "┃": "|", "ß": "ss", "æ": "ae", "ø": "o", "⁇": "??",
}  # fmt: skip
"""What stands for a character that the terminal's encoding lacks; others lose their accents."""

# Numbers of malloc.h, part of glibc's binary interface.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4


def configure() -> None:
    """Set up this process: threads, memory, the Hub client's progress bars, streams and Ctrl-C.

    Call it once, before torch and huggingface_hub are imported: both read their environment
    variables then. Variables that are already set stay as they are.
    """
    open_streams()
    end_imports_at_once()
    # By default OpenMP threads spin for long while they wait. That slows a program down many times
    # over when other programs use the same cores; a short spin costs a tenth when none do.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    if not sys.stderr.isatty():
        # The Hub client draws progress bars even when standard error is a file.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    keep_freed_memory()
    # Imports make some 200,000 objects that stay. The collector of cycles would walk through them
    # again and again, and once more at the end: a quarter of the time of a short command.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    fit_output()


def end_imports_at_once() -> None:
    """Make Ctrl-C end the process at once while torch is imported, which would abort otherwise."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def interrupt_by_signals() -> None:
    """Make SIGTERM and SIGHUP interrupt a command as Ctrl-C does, which removes what is temporary.

    A closed terminal sends SIGHUP; `nohup` has it ignored, and it stays so. Of torchrun's
    processes, one that waits for another, dead one would not be interrupted: torchrun ends them.
    """
    if "RANK" in os.environ:
        return
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):  # the latter not on Windows
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_IGN)  # a terminal and its shell may both send SIGHUP
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    if getattr(spec, "_initializing", False):  # as `importlib` marks a module
        os.write(2, b"Interrupted\n")
        os._exit(128 + number)
    raise KeyboardInterrupt(number)  # the exit code will be 128 + number, as shells have it


def open_streams() -> None:
    """Replace standard streams that were closed before the start.

    Input is empty and messages are lost, but output that cannot be printed is an error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            if name == "stdout":
                os.open(os.devnull, os.O_WRONLY)  # no other file takes its number
                sys.stdout = io.TextIOWrapper(_Closed(), encoding="utf-8", write_through=True)
                continue
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for good


class _Closed(io.RawIOBase):
    """Standard output that is closed: whatever is printed raises an error."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        if len(content):
            raise OSError(errno.EBADF, "nothing can be printed: standard output is closed")
        return 0


def fit_output() -> None:
    """Print characters that the terminal's encoding lacks as others that it has."""
    codecs.register_error(FITTING, _fitting)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=FITTING)


def _fitting(error: UnicodeError) -> tuple[str, int]:
    """Return what to print in the place of characters that cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    fitting = ""
    for character in error.object[error.start : error.end]:
        plain = SIMILAR.get(character) or unicodedata.normalize("NFKD", character)
        fitting += "".join(c for c in plain if c.isascii()) or "?"
    return fitting, error.end


def keep_freed_memory() -> bool:
    """Make malloc keep freed memory for later allocations; return whether it could be set.

    A training step allocates and frees the same large tensors again and again. By default glibc
    returns each of them to the operating system, which clears every page before it hands it out
    again: on a virtual machine this takes more than half of a step. With this setting the process
    shrinks only by `return_freed_memory`. Nothing is changed where the C library is not glibc.
    """
    if not _on_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # A single allocation of over a gigabyte is still mapped on its own. Older versions of glibc
    # reject such a threshold, but accept a limit of 0 on mappings.
    unmapped = mallopt(_MMAP_THRESHOLD, 1 << 30) or mallopt(_MMAP_MAX, 0)
    return bool(unmapped and mallopt(_TRIM_THRESHOLD, -1) and mallopt(_TOP_PAD, 64 << 20))


def return_freed_memory() -> bool:
    """Give the system all memory that is free now; return whether any was given.

    Batches of many shapes leave holes between the tensors of the others, which add up to several
    times what one update needs.
    """
    return _on_glibc() and bool(ctypes.CDLL(None).malloc_trim(0))


def _on_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):  # no confstr, or no such name
        return False


def load_only_builtin_plugins() -> None:
    """Load no installed plugins in this process and in those that it starts."""
    os.environ[CHOICE] = ""


@contextlib.contextmanager
def hub_warnings() -> Iterator[None]:
    """Print warnings of hubs, each time, and of plugins, once, as lines on standard error.

    So are those of conversions, and of the Hub's client, such as of a disk that is too small.
    """

    def print_line(
        message: Warning | str, category: type[Warning], filename: str, *rest: Any, **more: Any
    ) -> None:
        own = issubclass(category, HubWarning | PluginWarning | ConversionWarning)
        if own or "huggingface_hub" in filename:
            click.echo(f"Warning: {' '.join(str(message).split())}", err=True)
        else:
            before(message, category, filename, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", HubWarning)
        warnings.simplefilter("once", PluginWarning)
        before = warnings.showwarning
        # Python documents that this function may be replaced.
        warnings.showwarning = print_line
        yield


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows; return how many.

    Each connection of a server is one.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
