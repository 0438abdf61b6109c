"""Give changed files to every reader of untrusted bytes, each in a process with limits.

    python -m tests.campaigns.fuzz --inputs 1000000 --seed 1 --write tests/campaigns/fuzz.md

An input is a valid file with random changes, drawn from the seed, the reader and its number. A
reader must return or raise one of the project's errors on one line, within `SECONDS` and `MEMORY`
beyond its start, without changing files outside of its folder, starting programs or connecting. An
input that does not is kept in --keep. `--first N` goes on after N inputs of each reader.

A process that has read the valid files is forked for every `STEP` inputs. Slow readers get fewer.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.campaigns.changes import changed
from tests.campaigns.readers import TOP, Reader, readers
from zoo.errors import ZooError

SECONDS, MEMORY = 5, 1_000_000_000
STEP = 1000
"""Inputs of one process."""

HANGS = 2 * SECONDS + 60
"""Seconds, with those of other programs, after which a process with one input is ended."""

TRACED = 300
"""Inputs of each reader at most whose lines are counted."""

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""A folder of files in memory, if the system has one."""

FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
"""Audit events of programs that are started, and of connections."""

CHANGING = ("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
            "os.truncate", "shutil.rmtree")  # fmt: skip
"""Audit events of changes to the files that they name."""


def watch(allowed: Path, events: list[str]) -> None:
    """Record, from now on, what a reader must not do: this cannot be undone in a process."""
    inside = (str(allowed), os.devnull)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            paths = arguments[:1] if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else ()
        elif event in CHANGING:
            paths = arguments[1:2] if event == "os.symlink" else arguments[:2]
        else:
            paths = ()
            if event in FORBIDDEN:
                events.append(event)
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                name = os.path.abspath(os.fsdecode(path))
                if not name.startswith(inside):
                    events.append(f"{event}, to write, {name}")

    sys.addaudithook(hook)


def outcome_of(reader: Reader, file: Path, events: list[str]) -> str:
    """Read one file; return `read`, `refused`, or what was wrong."""
    before = len(events)
    began = time.process_time()  # other programs may share the cores
    try:
        reader.read(file)
        outcome = "read"
    except ZooError as error:
        message = str(error)
        outcome = "refused"
        if "\n" in message or len(message) > 13_000:
            outcome = "a message that is not one short line"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {str(error)[:80]}"
    if len(events) > before:
        return f"{events[-1][:100]}"
    return outcome if time.process_time() - began < SECONDS else f"over {SECONDS} s"


def run_step(reader: Reader, first: int, count: int, seed: int, keep: Path) -> Counter[str]:
    """Read `count` inputs in a process of its own; return how often each outcome was."""
    outcomes: Counter[str] = Counter()
    last = first + count
    while first < last:
        lines, status = _forked(lambda send, n=first: _read(reader, range(n, last), seed, send))  # type: ignore[misc]  # bound in the loop
        if len(lines) < last - first:  # this input ended the process
            hangs = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            lines.append("hangs" if hangs else f"the process ended with status {status}")
        for number, outcome in enumerate(lines, first):
            if outcome not in ("read", "refused"):
                _keep(reader, number, seed, keep)
        outcomes.update(lines)
        first += len(lines)
    return outcomes


def _forked(call: Callable[[Callable[[str], object]], None]) -> tuple[list[str], int]:
    """Call a function in a forked process with limits, in an empty folder; return what it sends."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        folder, sent = Path(name, "folder"), Path(name, "sent")
        folder.mkdir()
        sent.touch()
        child = os.fork()
        if child == 0:
            try:
                os.chdir(folder)
                tempfile.tempdir = str(folder)
                handle = os.open(sent, os.O_WRONLY)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics are printed
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                limit = pages * resource.getpagesize() + MEMORY
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                call(lambda line: os.write(handle, f"{line}\n".encode("utf-8", "replace")))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return sent.read_bytes().decode("utf-8", "replace").split("\n")[:-1], status


def _read(reader: Reader, numbers: range, seed: int, send: Callable[[str], object]) -> None:
    """Read inputs in the working folder under the limits; send each outcome."""
    events: list[str] = []
    watch(Path.cwd(), events)
    file = Path.cwd() / "input"
    for number in numbers:
        signal.setitimer(signal.ITIMER_REAL, HANGS)  # its signal ends the process
        file.write_bytes(input_of(reader, number, seed))
        send(" ".join(outcome_of(reader, file, events).split()))


def _keep(reader: Reader, number: int, seed: int, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    name = f"{re.sub('[^a-zA-Z0-9.]+', '-', reader.name)}.{seed}.{number}"
    (keep / name).write_bytes(input_of(reader, number, seed))


def input_of(reader: Reader, number: int, seed: int) -> bytes:
    """Return the input of this number."""
    draw = random.Random(f"{seed} {reader.name} {number}")
    return changed(draw.choice(reader.valid), draw)


def coverage(reader: Reader, seed: int, count: int) -> str:
    """Return which share of the lines of a reader's modules `count` inputs execute.

    The second number is the share of the lines of those functions that they enter.
    """
    files = {str(TOP / "zoo" / f"{module.replace('.', '/')}.py") for module in reader.modules}
    executed: set[tuple[str, int]] = set()
    entered: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        if event == "line":
            executed.add((code.co_filename, frame.f_lineno))
        elif event == "call":
            entered.add((code.co_filename, code.co_firstlineno))
        return trace

    def run(send: Callable[[str], object]) -> None:
        file = Path.cwd() / "input"
        sys.settrace(trace)
        for number in range(count):
            signal.setitimer(signal.ITIMER_REAL, HANGS)
            file.write_bytes(input_of(reader, number, seed))
            outcome_of(reader, file, [])
        sys.settrace(None)
        functions = {f: dict(_functions(Path(f))) for f in files}
        every = {(f, line) for f in files for lines in functions[f].values() for line in lines}
        of_entered = {(f, line) for f, first in entered for line in functions[f].get(first, ())}
        send(" / ".join(
            f"{100 * len(executed & lines) // max(len(lines), 1)}%" for lines in (every, of_entered)
        ))  # fmt: skip

    lines, _ = _forked(run)
    return lines[0] if lines else "the process ended"


def _functions(file: Path) -> Iterator[tuple[int, set[int]]]:
    """Yield the first line of each function of a module, and its lines."""
    pending = [compile(file.read_text(encoding="utf-8"), str(file), "exec")]
    while pending:
        code = pending.pop()
        if code.co_name != "<module>":
            yield code.co_firstlineno, {line for _, _, line in code.co_lines() if line}
        pending += [constant for constant in code.co_consts if hasattr(constant, "co_code")]


def campaign(inputs: int, seed: int, first: int, keep: Path, chosen: str) -> Iterator[list[str]]:
    """Share the inputs between the readers; yield a row for each, and one for all."""
    every = [reader for reader in readers() if re.search(chosen, reader.name)]
    total, whole = Counter[str](), time.monotonic()
    for reader in every:
        began, outcomes = time.monotonic(), Counter[str]()
        share = max(round(inputs * reader.share / sum(r.share for r in every)), 1)
        traced = min(TRACED, share // 10 + 1)
        warm_up(reader)
        for start in range(first, first + share, STEP):
            outcomes += run_step(reader, start, min(STEP, first + share - start), seed, keep)
            print(f"\r{reader.name}: {outcomes.total():,} ", end="", file=sys.stderr)
        total += outcomes
        yield _row(reader.name, outcomes, coverage(reader, seed, traced), began)
    print(file=sys.stderr)
    yield _row("all", total, "", whole)


def warm_up(reader: Reader) -> None:
    """Read the valid files, so that forked processes need not import and load again."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        for valid in reader.valid:
            (Path(name) / "input").write_bytes(valid)
            reader.read(Path(name) / "input")
    gc.freeze()


def _row(name: str, outcomes: Counter[str], covered: str, began: float) -> list[str]:
    wrong = "; ".join(f"{n} × {k}" for k, n in outcomes.items() if k not in ("read", "refused"))
    counts = [f"{n:,}" for n in (outcomes.total(), outcomes["read"], outcomes["refused"])]
    return [name, *counts, wrong or "none", covered, f"{time.monotonic() - began:.0f} s"]


def main() -> None:
    """Run the campaign and print its table; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="go on after this many of each")
    parser.add_argument("--reader", default="", help="only readers with this expression")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--write", type=Path, help="written again after each reader")
    given = parser.parse_args()
    options = f"--inputs {given.inputs} --seed {given.seed} --first {given.first}"
    options += f" --reader '{given.reader}'" if given.reader else ""
    rows = [["reader", "inputs", "read", "refused", "wrong", "lines executed", "time"], ["---"] * 7]
    for row in campaign(given.inputs, given.seed, given.first, given.keep, given.reader):
        rows.append(row)
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        text = (
            f"Printed by `python -m tests.campaigns.fuzz {options}`:\nPython "
            f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} shared cores. "
            f"Limits of an input: {SECONDS} s of the processor, {MEMORY:,} bytes.\n"
            f"Lines executed: by {TRACED} inputs of each reader or a tenth, of the lines of its "
            f"modules,\nand of the functions that were entered.\n\n{table}\n"
        )
        if given.write:
            given.write.write_text(f"# Fuzzing\n\n{text}", encoding="utf-8")
    print(text)
    sys.exit(any(row[4] != "none" for row in rows[2:]))


if __name__ == "__main__":
    main()
