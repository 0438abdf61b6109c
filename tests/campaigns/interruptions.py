"""Interrupt every command that writes: SIGKILL, a full disk, lost power, and other processes.

    python tests/campaigns/interruptions.py --kills 1000 --seed 1 --write interruptions.md

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
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

from click.testing import CliRunner

from zoo import files
from zoo.checkpoint.checkpoint import convert
from zoo.checkpoint.format import describe
from zoo.cli import cli
from zoo.files import locked, replace_file, whole_folder
from zoo.registry import catalogue
from zoo.registry.registry import _registry_of

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
SCORE = {"data": "a", "split": "test", "bleu": 1.5, "bleu_signature": "s"}


class Writer(NamedTuple):
    """A command that writes, what must be there before it, and how what it wrote is checked."""

    name: str
    prepare: Callable[[Path], None]
    write: Callable[[Path], None]
    whole: Callable[[Path], bool]
    """Returns whether the folder has what the command writes; raises if that is damaged."""


def zoo(*arguments: object) -> None:
    """Run `zoo` in this process.

    Raises:
        OSError: it failed.
    """
    _registry_of.cache_clear()
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exit_code:
        raise OSError(done.output.strip() or repr(done.exception))


def _copy(folder: Path) -> None:
    shutil.copytree(RELEASED, folder / "checkpoint", dirs_exist_ok=True)


def _converted(folder: Path) -> bool:
    if not (folder / "half").exists():
        return False
    describe(folder / "half")
    return True


def _added(folder: Path) -> bool:
    file = folder / "registry.toml"
    contents = catalogue.read(file) if file.exists() else catalogue.Contents()
    assert not contents.problems, contents.problems
    return "mine" in contents.checkpoints


def _pushed(folder: Path) -> bool:
    if not (folder / "hub" / "refs" / "main").exists():
        return False
    from zoo.hub.push import push

    return not push(folder / "checkpoint", f"file://{folder}/hub", dry_run=True).changes


def _scored(folder: Path) -> bool:
    scores = json.loads((folder / "checkpoint" / "scores.json").read_text())["scores"]
    assert (folder / "checkpoint" / "README.md").read_text().count("<!-- end -->") == 1
    return any(score.get("data") == "a" for score in scores)


def _score(folder: Path) -> None:
    (folder / "score.json").write_text(json.dumps(SCORE))
    zoo("card", folder / "checkpoint", "--write", "--scores", folder / "score.json")


def _replaced(folder: Path) -> bool:
    old, new = (folder / "out" / name for name in ("old", "new"))
    assert old.exists() != new.exists(), "the folder is neither the old nor the new one"
    return new.exists()


def _old_folder(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    (folder / "out" / "old").touch()


def _replace(folder: Path) -> None:
    with whole_folder(folder / "out", replace=True) as part:
        (part / "more").write_bytes(b"a" * 100_000)
        (part / "new").touch()


WRITERS = (
    Writer("zoo convert", _copy,
           lambda f: convert(f / "checkpoint", f / "half", "float16"), _converted),
    Writer("zoo registry add", _copy,
           lambda f: zoo("registry", "add", "mine", f / "checkpoint", "--replace"), _added),
    Writer("zoo push file://", _copy,
           lambda f: zoo("push", f / "checkpoint", f"file://{f}/hub"), _pushed),
    Writer("zoo card --write --scores", _copy, _score, _scored),
    Writer("replacing a folder", _old_folder, _replace, _replaced),
)  # fmt: skip


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
                    shutil.rmtree(file) if file.is_dir() else file.unlink()
            writer.prepare(folder)
            child = forked(lambda: writer.write(folder))
            time.sleep(draw.uniform(0, whole * 1.1))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            new += writer.whole(folder)
            left += bool(litter(folder))
            if draw.random() < 0.2 or killed == times:  # the next run mends
                if writer.name == "zoo convert":
                    shutil.rmtree(folder / "half", ignore_errors=True)
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


CHANGES: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], int]]] = {
    "zoo registry add": (
        _add_name, lambda f: len(catalogue.read(f / "registry.toml").checkpoints)),
    "zoo card --write --scores": (
        _add_score,
        lambda f: sum(score["data"].startswith("data") for score in json.loads(
            (f / "checkpoint" / "scores.json").read_text())["scores"])),
    "a file under a lock": (_add_line, lambda f: len((f / "lines").read_text().splitlines())),
}  # fmt: skip


def concurrency(name: str, processes: int) -> list[str]:
    """Change one file by many processes at once; return the row of the table."""
    change, count = CHANGES[name]
    with tempfile.TemporaryDirectory() as temporary, environment(Path(temporary)):
        folder = Path(temporary)
        _copy(folder)
        children = [forked(lambda n=n: change(folder, n)) for n in range(processes)]  # type: ignore[misc]  # bound in the loop
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0] * processes, codes
        assert count(folder) == processes, f"{name}: {count(folder)} of {processes} updates remain"
        assert not litter(folder), litter(folder)
    return [name, str(processes), "none"]


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
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    began, draw = time.monotonic(), random.Random(given.seed)
    share = max(given.kills // len(WRITERS), 1)
    parts = [
        table(["command", "kills (-9)", "complete after a run", "left over, then swept", "damaged"],
              *(kills(writer, share, draw) for writer in WRITERS)),
        table(["command", "limits of a file's size", "errors", "damaged or left over"],
              *(full_disk(writer) for writer in WRITERS)),
        table(["command", "renames", "not on disk in time"],
              *(lost_power(writer) for writer in WRITERS)),
        table(["shared file", "processes", "lost updates"],
              *(concurrency(name, given.processes) for name in CHANGES)),
    ]  # fmt: skip
    options = f"--kills {given.kills} --processes {given.processes} --seed {given.seed}"
    text = (
        f"Printed by `python tests/campaigns/interruptions.py {options}`:\n"
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} shared cores, {(time.monotonic() - began) / 60:.1f} minutes.\n\n"
        + "\n\n".join(parts)
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Interruptions\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
