"""The translation of a long file in shards, which can be stopped, continued and joined.

A shard of `OUT` is `OUT.3-of-8`. While it is translated, its lines are in `OUT.3-of-8.part`;
`OUT.3-of-8.json` records the input, the settings, and how much of that file is valid. Whatever a
killed process wrote after the last record is cut off when the shard is continued.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from zoo.data.readers import count_lines
from zoo.errors import ConfigError, DataError, LockedError
from zoo.files import flush, held, read_json, replace_file, whole_file

SAVE_SECONDS = 10.0
"""The time between two records of what is done."""


class Shard(NamedTuple):
    """One of `total` shards of a file, numbered from 1."""

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that is written as `3/8`.

        Raises:
            ConfigError: it is not written so, or the number is not from 1 to the count.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        shard = cls(*map(int, match.groups())) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.total:
            raise ConfigError(
                f"{text!r} is no shard", "3/8 is the third of eight, 8/8 the last one"
            )
        return shard

    def lines(self, count: int) -> range:
        """Return the indices of the lines of this shard among `count`."""
        return range(count * (self.number - 1) // self.total, count * self.number // self.total)

    def file(self, out: Path) -> Path:
        """Return the shard's file; the names of all shards sort in their order."""
        number = str(self.number).zfill(len(str(self.total)))
        return out.with_name(f"{out.name}.{number}-of-{self.total}")


class ShardOutput:
    """The output of a shard.

    Attributes:
        lines: the indices of the input's lines that are still to be translated.
    """

    def __init__(self, stream: IO[str], record: Path, run: dict[str, Any], lines: range) -> None:
        self.lines = lines
        self._stream, self._record, self._run = stream, record, run
        self._bytes = os.fstat(stream.fileno()).st_size
        self._saved = time.monotonic()

    def advance(self, text: str) -> None:
        """Write the output of the next line of the input, and count that line as done."""
        self._stream.write(text)
        # If the program is stopped before this line, what was just written is cut off later.
        self.lines, self._bytes = self.lines[1:], self._bytes + len(text.encode())
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Record what is done, once it is on the disk."""
        self._stream.flush()
        flush(Path(self._stream.name))
        done = {"left": len(self.lines), "bytes": self._bytes}
        replace_file(self._record, json.dumps({**self._run, **done}))
        self._saved = time.monotonic()


@contextlib.contextmanager
def open_shard(
    out: Path, shard: Shard, source: Path, settings: Mapping[str, Any]
) -> Iterator[ShardOutput | None]:
    """Begin or continue a shard; it has its name once the block has ended and no line is left.

    Args:
        out: the name of all shards together.
        shard: which shard.
        source: the input, whose lines are divided evenly.
        settings: values for JSON on which the translations depend.

    Yields:
        The shard, or None if it was finished before.

    Raises:
        DataError: it was begun with another input or other settings, or is damaged.
        LockedError: another process translates it.
    """
    file = shard.file(out)
    part, record = _beside(file, ".part"), _beside(file, ".json")
    digest, total = _measured(source)
    run = json.loads(json.dumps({"input": digest, "lines": total, "shard": shard, **settings}))
    lines = shard.lines(total)
    _progress(record, run, len(lines))  # refused before anything is written
    with part.open("a", encoding="utf-8", newline="") as stream, held(part) as free:
        if free is False:
            raise LockedError(f"{file.name} is in use", "another process translates it")
        left, size = _progress(record, run, len(lines))
        written = part.stat().st_size
        if left == written == 0 and file.is_file():
            part.unlink()
            yield None
            return
        if written < size:
            raise _unusable(file, "it is shorter than its record says")
        stream.truncate(size)
        output = ShardOutput(stream, record, run, lines[len(lines) - left :])
        try:
            yield output
        finally:
            output.save()
        if not output.lines:
            part.replace(file)
            flush(file.parent)


def _progress(record: Path, run: dict[str, Any], whole: int) -> tuple[int, int]:
    """Return how many lines are left, and how many bytes of the output are valid."""
    if not record.exists():
        return whole, 0
    before = read_json(record)
    left, size = before.pop("left", None), before.pop("bytes", None)
    changed = [name for name in {**before, **run} if before.get(name) != run.get(name)]
    if changed:
        name = changed[0]
        was, now = (json.dumps(one.get(name), ensure_ascii=False) for one in (before, run))
        raise _unusable(
            record.with_suffix(""), f"it was begun with {name} {was:.80}, now {now:.80}"
        )
    if type(left) is not int or type(size) is not int or not 0 <= left <= whole or size < 0:
        raise _unusable(record.with_suffix(""), "its record is damaged")
    return left, size


def _unusable(file: Path, why: str) -> DataError:
    remedy = f"Delete {file}.json to begin it again, or use another --out"
    return DataError(f"{file} cannot be continued", why, remedy)


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _measured(source: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file's text, unpacked, and its number of lines."""
    hasher = hashlib.sha256()
    count = count_lines(source, hasher.update)
    return hasher.hexdigest(), count


def join(out: Path) -> int:
    """Write all shards of `out` to it, in order, and return their number.

    Raises:
        DataError: there is none, one is missing, unfinished or damaged, or they differ in their
            input, settings or number.
    """
    records = _records(out)
    if not records:
        raise DataError(f"{out} has no shards", "", "Give the --out of `zoo translate --shard`")
    counts = {shard.total for shard in records}
    if len(counts) > 1:
        raise DataError(
            f"{out} has shards of several divisions",
            " and ".join(f"{number}" for number in sorted(counts)),
            "Delete those of one of them, with their records",
        )
    shards = [Shard(number, *counts) for number in range(1, 1 + max(counts))]
    absent = [
        s.number for s in shards if s not in records or not _finished(s.file(out), records[s])
    ]
    if absent:
        listed = ", ".join(map(str, absent[:10])) + (", …" if len(absent) > 10 else "")
        raise DataError(
            f"{len(absent):,} of {len(shards):,} shards of {out} are not finished",
            listed,
            "Give `zoo translate` the same options again, with each number as --shard",
        )
    first = _settings(records[shards[0]])
    for shard in shards:
        if _settings(records[shard]) != first:
            differing = next(k for k, v in _settings(records[shard]).items() if first.get(k) != v)
            raise DataError(f"shards 1 and {shard.number} of {out} differ", f"in their {differing}")
    with whole_file(out) as part, part.open("wb") as joined:
        for shard in shards:
            with shard.file(out).open("rb") as stream:
                shutil.copyfileobj(stream, joined, 1 << 20)
    return len(shards)


def _records(out: Path) -> dict[Shard, dict[str, Any]]:
    """Return the records of the shards of `out`."""
    records = {}
    for record in sorted(out.parent.glob(f"{glob.escape(out.name)}.*-of-*.json")):
        name = re.fullmatch(r"([0-9]{1,6})-of-([0-9]{1,6})", record.name[len(out.name) + 1 : -5])
        shard = Shard(*map(int, name.groups())) if name else Shard(0, 0)
        if 1 <= shard.number <= shard.total and record == _beside(shard.file(out), ".json"):
            records[shard] = read_json(record)
    return records


def _finished(file: Path, record: Mapping[str, Any]) -> bool:
    """Return whether all lines are written and the file is as long as it was then."""
    return record.get("left") == 0 and file.is_file() and file.stat().st_size == record.get("bytes")


def _settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k not in ("shard", "left", "bytes")}
