"""Interrupt every command that writes: SIGKILL, a full disk, lost power, and other processes.

    python -m tests.campaigns.interruptions --kills 1000 --seed 1 --write interruptions.md

- Kills: each command runs in a process that receives SIGKILL after a random time. What it writes is
  then absent, the old or the new; the next run succeeds, and nothing temporary is left.
- Full disk: each command runs under a limit of every file's size, which grows until it succeeds.
- Lost power: whatever is renamed into place must be on disk (fsync) before, and its folder after.
- Concurrency: many processes change one file at once; no update is lost.

Training has a campaign of its own: `kill.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.campaigns.writers import (
    REMOVABLE,
    SCORE,
    WRITERS,
    Writer,
    copy,
    listed,
    removing,
    zoo,
)
from zoo import files
from zoo.files import locked, replace_file
from zoo.registry import catalogue


def environment(folder: Path) -> AbstractContextManager[object]:
    """Use a catalogue of this folder."""
    return patch.dict(os.environ, ZOO_REGISTRY=str(folder / "registry.toml"))


def forked(call: Callable[[], object]) -> int:
    """Run a function in a forked process; return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        call()
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def litter(folder: Path) -> list[str]:
    """Return the temporary files and folders that are left."""
    return [str(f) for f in folder.rglob(".*") if f.suffix in (".part", ".old")]


def kills(writer: Writer, times: int, draw: random.Random) -> list[str]:
    """Kill a command `times` times; return the row of the table."""
    with tempfile.TemporaryDirectory() as name, environment(Path(name)):
        folder = Path(name)
        writer.prepare(folder)
        began = time.monotonic()
        _, status = os.waitpid(forked(lambda: writer.write(folder)), 0)
        whole = time.monotonic() - began
        assert status == 0, f"{writer.name} failed"
        assert writer.whole(folder)
        killed = left = new = 0
        while killed < times:
            for file in folder.iterdir():
                if not file.name.startswith("."):
                    removing(file.name)(folder)
            writer.prepare(folder)
            child = forked(lambda: writer.write(folder))
            time.sleep(draw.uniform(0, whole * 1.1))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            new += writer.whole(folder)
            left += bool(litter(folder))
            if draw.random() < 0.2 or killed == times:  # the next run mends
                writer.renew(folder)
                _, status = os.waitpid(forked(lambda: writer.write(folder)), 0)
                assert status == 0, f"{writer.name} does not run after a kill"
                assert writer.whole(folder)
                assert not litter(folder), litter(folder)
        return [writer.name, str(killed), str(new), str(left), "none"]


def full_disk(writer: Writer) -> list[str]:
    """Run a command under growing limits of a file's size; return the row of the table."""
    limits = [0, 1, 100, 1000, 5000, 20_000, 100_000, 1_000_000, 100_000_000]
    failed = 0
    for limit in limits:
        with tempfile.TemporaryDirectory() as name, environment(Path(name)):
            folder = Path(name)
            writer.prepare(folder)

            def limited(limit: int = limit, folder: Path = folder) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                writer.write(folder)

            _, status = os.waitpid(forked(limited), 0)
            assert not os.WIFSIGNALED(status)
            assert writer.whole(folder) or status, f"{writer.name} claims to have written"
            assert not litter(folder), litter(folder)
            failed += status != 0
    return [writer.name, str(len(limits)), str(failed), "none"]


class Disk:
    """Follows what is on disk: contents that were flushed, and names whose folder was."""

    def __init__(self) -> None:
        self.flushed: dict[int, tuple[int, int]] = {}
        self.pending: set[Path] = set()
        self.faults: list[str] = []
        self.renames = 0

    def fsync(self, handle: int) -> None:
        """Record a flushed file or folder."""
        status = os.fstat(handle)
        self.flushed[status.st_ino] = (status.st_size, status.st_mtime_ns)
        self.pending -= {p for p in self.pending if p.exists() and p.stat().st_ino == status.st_ino}

    def renamed(self, source: Path, target: Path) -> None:
        """Check a rename before it happens."""
        self.renames += 1
        for file in [source, *source.rglob("*")]:
            status = file.stat()
            state = (status.st_size, status.st_mtime_ns)
            if file.is_file() and self.flushed.get(status.st_ino) != state:
                self.faults.append(f"{file.name} is renamed before it is on disk")
        self.pending.add(target.parent)


def lost_power(writer: Writer) -> list[str]:
    """Run a command on a disk that keeps only what was flushed; return the row of the table."""
    disk = Disk()
    fsync, rename, exchange = os.fsync, os.rename, files.exchange_names
    replace = os.replace
    watched = (str(Path(tempfile.gettempdir()).resolve()),)

    def follow(call: Callable[..., Any]) -> Callable[..., Any]:
        def renamed(source: Any, target: Any, *more: Any) -> Any:
            if str(source).startswith(watched) and ".part" in str(source):
                disk.renamed(Path(source), Path(target))
            return call(source, target, *more)

        return renamed

    def exchanged(one: Path, other: Path) -> bool:
        disk.renamed(other, one)
        return exchange(one, other)

    def flushed(fd: Any) -> None:
        fsync(fd)
        disk.fsync(fd)

    with tempfile.TemporaryDirectory() as name, environment(Path(name)):
        folder = Path(name)
        writer.prepare(folder)
        os.fsync, os.rename, os.replace = flushed, follow(rename), follow(replace)
        files.exchange_names = exchanged
        try:
            writer.write(folder)
        finally:
            os.fsync, os.rename, os.replace = fsync, rename, replace
            files.exchange_names = exchange
        assert writer.whole(folder)
    faults = [*disk.faults, *(f"{p.name} is not flushed after a rename" for p in disk.pending)]
    assert not faults, faults
    assert disk.renames, f"{writer.name} renames nothing"
    return [writer.name, str(disk.renames), "none"]


def _add_name(folder: Path, number: int) -> None:
    zoo("registry", "add", f"name{number}", folder / "checkpoint")


def _add_score(folder: Path, number: int) -> None:
    (folder / f"score{number}.json").write_text(json.dumps({**SCORE, "data": f"data{number}"}))
    zoo("card", folder / "checkpoint", "--write", "--scores", folder / f"score{number}.json")


def _add_line(folder: Path, number: int) -> None:
    with locked(folder / "lines"):
        before = (folder / "lines").read_text() if (folder / "lines").exists() else ""
        replace_file(folder / "lines", f"{before}{number}\n")


class Change(NamedTuple):
    """What many processes do at once, each with its number."""

    name: str
    change: Callable[[Path, int], None]
    kept: Callable[[Path], Iterable[str]]
    """Returns what the changes have left, one text for each."""
    prepare: Callable[[Path], None] = copy


def _scores(folder: Path) -> list[str]:
    scores = json.loads((folder / "checkpoint" / "scores.json").read_text())["scores"]
    return [score["data"] for score in scores if score["data"].startswith("data")]


CHANGES = {change.name: change for change in (
    Change("zoo registry add", _add_name,
           lambda f: catalogue.read(f / "registry.toml").checkpoints),
    Change("zoo registry remove", lambda f, n: zoo("registry", "remove", f"old{n + 1}"),
           lambda f: REMOVABLE - {*catalogue.read(f / "registry.toml").checkpoints}, listed),
    Change("zoo card --write --scores", _add_score, _scores),
    Change("a file under a lock", _add_line, lambda f: (f / "lines").read_text().splitlines()),
)}  # fmt: skip

SAME = [
    writer for writer in WRITERS
    if writer.name in ("zoo translate --out", "zoo pull", "zoo data get")
]  # fmt: skip
"""Commands that many processes may run with the same result."""


def concurrency(name: str, processes: int) -> list[str]:
    """Change one file by many processes at once; return the row of the table."""
    change = CHANGES[name]
    with tempfile.TemporaryDirectory() as temporary, environment(Path(temporary)):
        folder = Path(temporary)
        change.prepare(folder)
        _at_once(lambda n: change.change(folder, n), processes)
        kept = len({*change.kept(folder)})
        assert kept == processes, f"{name}: {kept} of {processes} updates remain"
        assert not litter(folder), litter(folder)
    return [name, str(processes), "none"]


def _at_once(call: Callable[[int], None], processes: int) -> None:
    children = [forked(lambda n=n: call(n)) for n in range(processes)]  # type: ignore[misc]  # bound in the loop
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * processes, codes


def same_at_once(writer: Writer, processes: int) -> list[str]:
    """Run one command by many processes at once; return the row of the table."""
    with tempfile.TemporaryDirectory() as temporary, environment(Path(temporary)):
        folder = Path(temporary)
        writer.prepare(folder)
        _at_once(lambda _: writer.write(folder), processes)
        assert writer.whole(folder)
        assert not litter(folder), litter(folder)
    return [writer.name, str(processes), "none"]


def table(*rows: list[str]) -> str:
    """Return a Markdown table; the first row is its head."""
    return "\n".join(
        "| " + " | ".join(r) + " |" for r in [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    )


def main() -> None:
    """Run the campaign and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=1000, help="of all commands together")
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="written again after each row")
    given = parser.parse_args()
    began, draw = time.monotonic(), random.Random(given.seed)
    share, processes = max(given.kills // len(WRITERS), 1), given.processes
    options = f"--kills {given.kills} --processes {processes} --seed {given.seed}"
    parts: list[tuple[list[str], Iterator[list[str]]]] = [
        (["command", "kills (-9)", "complete after a run", "left over, then swept", "damaged"],
         (kills(writer, share, draw) for writer in WRITERS)),
        (["command", "limits of a file's size", "errors", "damaged or left over"],
         (full_disk(writer) for writer in WRITERS)),
        (["command", "renames", "not on disk in time"],
         (lost_power(writer) for writer in WRITERS)),
        (["shared file", "processes", "lost updates"],
         (concurrency(name, processes) for name in CHANGES)),
        (["the same command", "processes", "failed"],
         (same_at_once(writer, processes) for writer in SAME)),
    ]  # fmt: skip
    tables: list[str] = []
    for head, results in parts:
        rows = [head]
        for row in results:
            rows.append(row)
            text = (
                f"Printed by `python -m tests.campaigns.interruptions {options}`:\n"
                f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
                f"{os.cpu_count()} shared cores, {(time.monotonic() - began) / 60:.1f} minutes.\n\n"
                + "\n\n".join([*tables, table(*rows)])
            )
            if given.write:
                given.write.write_text(f"# Interruptions\n\n{text}\n", encoding="utf-8")
        tables.append(table(*rows))
    print(text)


if __name__ == "__main__":
    main()
