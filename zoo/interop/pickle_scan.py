"""Look at the pickles of a file of `torch.save` without loading anything.

Their instructions are counted and followed, so that what would run code, take minutes or end the
process is refused before torch reads the file.
"""

from __future__ import annotations

import functools
import itertools
import pickletools
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # Python 2's names, as torch reads them
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from zoo.errors import ConversionError

MOST_PICKLE = 256 * 2**20
"""The most bytes of a pickle without its tensors."""

MOST_INSTRUCTIONS = 5_000_000
"""The most instructions of the pickles of a file: a few for each tensor, word and setting."""

MOST_NESTED = 100
"""The most tuples inside of each other: Python's hash of deeper ones ends the process."""


def strings(path: Path) -> frozenset[str]:
    """Return every string in the pickles of a file, such as the names of tensors.

    Nothing is loaded, so that an importer can look at files of other formats; a file that is no
    pickle has none.
    """
    try:
        status = path.stat()
    except OSError:
        return frozenset()
    return _strings(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1)  # several importers look at one file
def _strings(path: Path, size: int, time: int) -> frozenset[str]:
    try:
        return frozenset(a for _, a in _instructions(path, str(path)) if isinstance(a, str))
    except Exception:  # pickletools and zipfile raise whatever the bytes lead to
        return frozenset()


def _instructions(path: Path, what: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the argument of each instruction of the pickles of a file."""
    counter = itertools.count(1)
    for file in _pickles(path, what):
        for opcode, argument, _ in pickletools.genops(cast("IO[bytes]", _Bounded(file))):
            if next(counter) > MOST_INSTRUCTIONS:
                raise ConversionError(
                    what, f"its pickle has more than {MOST_INSTRUCTIONS:,} instructions"
                )
            yield opcode.name, argument


class _Bounded:
    """A stream that reads no more at once than a pickle may have, whatever length one states."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def read(self, size: int) -> bytes:
        """Read so many bytes, or fewer."""
        return self.file.read(min(size, MOST_PICKLE))

    def readline(self) -> bytes:
        """Read a line, or the beginning of one."""
        return self.file.readline(MOST_PICKLE)


def _pickles(path: Path, what: str) -> Iterator[IO[bytes]]:
    """Yield the pickles of a file as streams."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:  # the format before torch 1.6: five pickles, then tensors
            yield from (file for _ in range(5))
        return
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len({entry.filename for entry in entries}) != len(entries):
            raise ConversionError(what, "a part of it occurs twice")
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ConversionError(what, "its parts are compressed, which torch never does")
        pickles = [entry for entry in entries if entry.filename.endswith(".pkl")]
        if any(entry.file_size > MOST_PICKLE for entry in pickles):
            raise ConversionError(what, f"its pickle is larger than {MOST_PICKLE:,} bytes")
        for entry in pickles:
            with archive.open(entry) as file:
                yield file


def names_in(path: Path, what: str) -> set[str]:
    """Return every name that the pickles of a file refer to, without reading them."""
    names = set()
    nesting = _Nesting()
    for name, argument in _instructions(path, what):
        if nesting.follow(name, argument) > MOST_NESTED:
            raise ConversionError(what, f"its pickle has tuples that are nested over {MOST_NESTED}")
        if name in ("GLOBAL", "INST"):
            module, _, attribute = str(argument).partition(" ")
            pair = NAME_MAPPING.get((module, attribute))
            names.add(".".join(pair or (IMPORT_MAPPING.get(module, module), attribute)))
        elif name in ("STACK_GLOBAL", "OBJ", "EXT1", "EXT2", "EXT4", "MEMOIZE"):
            raise ConversionError(
                what, f"its pickle has the instruction {name}, which torch never writes"
            )
    return names


class _Nesting:
    """Follows how deeply tuples are nested on the stack of a pickle; other values count as flat."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: dict[Any, int] = {}

    def follow(self, name: str, argument: Any) -> int:
        """Follow an instruction; return the depth of the tuple that it makes, or 0."""
        if name == "MARK":
            self.marks.append(len(self.stack))
            return 0
        if name in ("PUT", "BINPUT", "LONG_BINPUT"):
            if self.stack[-1]:
                self.memo[argument] = self.stack[-1]
            return 0
        if name.endswith("GET"):
            self.stack.append(self.memo.get(argument, 0))
            return 0
        takes, gives, to_mark = EFFECTS[name]
        at = self.marks.pop() if to_mark else len(self.stack)
        parts = self.stack[at if to_mark else max(at - takes, 0) :]
        del self.stack[max(at - takes, 0) :]
        depth = 1 + max(parts, default=0) if name.startswith("TUPLE") else 0
        self.stack += [depth] * gives
        return depth


def _effect(opcode: pickletools.OpcodeInfo) -> tuple[int, int, bool]:
    """Return how many values an instruction takes and gives, and if it takes all from a mark on."""
    to_mark = pickletools.markobject in opcode.stack_before
    taken = [o for o in opcode.stack_before if o is not pickletools.stackslice]
    before = taken.index(pickletools.markobject) if to_mark else len(taken)
    return before, len(opcode.stack_after), to_mark


EFFECTS = {opcode.name: _effect(opcode) for opcode in pickletools.opcodes}
"""What each instruction of a pickle does to the stack."""
