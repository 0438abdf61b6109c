"""Give changed files to every reader of untrusted bytes, each in a process with limits.

    python -m tests.campaigns.fuzz --inputs 1000000 --seed 1 --write tests/campaigns/fuzz.md

An input is a valid file with random changes, drawn from the seed, the reader and its number. A
reader must return or raise one of the project's errors on one line, within `SECONDS` and `MEMORY`
beyond its start, without writing files outside of its folder, starting programs or connecting. An
input that does not is kept in --keep. `--first N` goes on after N inputs of each reader.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.campaigns.readers import TOP, Reader, readers
from zoo.errors import ZooError

SECONDS, MEMORY = 5, 1_000_000_000
STEP = 200
"""Inputs of one process."""

WORDS = [
    b"null", b"true", b"-1", b"0", b"1e999", b"9" * 30, b"NaN", b'""', b"[]", b"{}", b"[" * 50,
    b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\t", b'"type":"Sequence"', b"..", b"/",
    b"&a *a", b"<<:", b"!!python/object/apply:os.system [ls]", b"(a+)+$", b"65536", b"4294967296",
    "ﷺ".encode(), b'{"Regex":"x*"}', b"file:///", b"@", b"://",
]  # fmt: skip
"""What is inserted, beside random bytes."""

END = 1500
"""Bytes at the beginning and at the end of a file that get half of the changes."""

FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
"""Audit events of programs that are started, and of connections."""


def changed(valid: bytes, draw: random.Random) -> bytes:
    """Return a file with one to eight random changes."""
    content = bytearray(valid)
    ends = draw.random() < 0.5  # structure is at the ends of a file, much of the rest is numbers
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(content) + 1)
        if ends and len(content) > 2 * END:
            at = at % END if draw.random() < 0.5 else len(content) - at % END
        end = min(len(content), at + draw.choice((0, 1, 4, 30)))
        kind = draw.randrange(6)
        if kind == 0:
            content[at:end] = draw.choice(WORDS)
        elif kind == 1:
            content[at:end] = draw.randbytes(draw.choice((1, 2, 8)))
        elif kind == 2:
            content[at:end] = b""
        elif kind == 3 and end > at:
            content[at:end] = content[at:end] * draw.choice((2, 3, 100))
        elif kind == 4:
            other = draw.randrange(len(content) + 1)
            content[at:end] = content[other : other + draw.choice((1, 10, 100))]
        elif content:
            content[at % len(content)] ^= 1 << draw.randrange(8)
    return bytes(content)


def watch(allowed: Path, events: list[str]) -> None:
    """Record, from now on, what a reader must not do: this cannot be undone in a process."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            events.append(event)
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            path = os.path.abspath(os.fsdecode(arguments[0]))
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull
            if writes and not path.startswith(str(allowed)):
                events.append(f"writes {path}")

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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _child(reader, folder, range(first, first + count), seed, send)
            finally:
                os._exit(0)
        os.close(send)
        outcomes: Counter[str] = Counter()
        done, buffer = 0, b""
        deadline = time.monotonic() + SECONDS * 2 + 60
        while True:
            ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(receive, 65_536) if ready else b""
            if not part:
                break
            buffer += part
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                outcome = line.decode("utf-8", "replace")
                outcomes[outcome] += 1
                if outcome not in ("read", "refused"):
                    _keep(reader, first + done, seed, keep)
                done += 1
            deadline = time.monotonic() + SECONDS * 2 + 60
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receive)
        if done < count:  # this input ended the process, or it hangs
            outcomes["the process ended, or hangs"] += 1
            _keep(reader, first + done, seed, keep)
            if done + 1 < count:
                outcomes += run_step(reader, first + done + 1, count - done - 1, seed, keep)
        return outcomes


def _keep(reader: Reader, number: int, seed: int, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    name = f"{re.sub('[^a-zA-Z0-9.]+', '-', reader.name)}.{seed}.{number}"
    (keep / name).write_bytes(input_of(reader, number, seed))


def input_of(reader: Reader, number: int, seed: int) -> bytes:
    """Return the input of this number."""
    draw = random.Random(f"{seed} {reader.name} {number}")
    return changed(draw.choice(reader.valid), draw)


def _child(reader: Reader, folder: Path, numbers: range, seed: int, send: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics are printed
    events: list[str] = []
    watch(folder, events)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    file = folder / "input"
    for number in numbers:
        file.write_bytes(input_of(reader, number, seed))
        outcome = " ".join(outcome_of(reader, file, events).split())
        os.write(send, f"{outcome}\n".encode("utf-8", "replace"))


def coverage(reader: Reader, seed: int, count: int) -> str:
    """Return which share of the lines of a reader's modules `count` inputs execute."""
    files = {str(TOP / "zoo" / f"{module.replace('.', '/')}.py") for module in reader.modules}
    executed: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            executed.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "input"
        sys.settrace(trace)
        try:
            for number in range(count):
                file.write_bytes(input_of(reader, number, seed))
                outcome_of(reader, file, [])
        finally:
            sys.settrace(None)
    lines = {(f, line) for f in files for line in _lines(Path(f))}
    return f"{100 * len(executed & lines) // max(len(lines), 1)}%"


def _lines(file: Path) -> Iterator[int]:
    """Yield the lines of all functions of a module."""
    pending = [compile(file.read_text(encoding="utf-8"), str(file), "exec")]
    while pending:
        code = pending.pop()
        inner = [c for c in code.co_consts if hasattr(c, "co_code")]
        if code.co_name != "<module>":
            yield from (line for _, _, line in code.co_lines() if line)
        pending += inner


def campaign(inputs: int, seed: int, first: int, keep: Path, chosen: str) -> list[list[str]]:
    """Share the inputs between the readers; return a row for each."""
    every = [reader for reader in readers() if chosen in ("", reader.name)]
    rows = []
    for reader in every:
        began, outcomes = time.monotonic(), Counter[str]()
        share = max(round(inputs * reader.share / sum(r.share for r in every)), 1)
        for start in range(first, first + share, STEP):
            outcomes += run_step(reader, start, min(STEP, first + share - start), seed, keep)
            print(f"\r{reader.name}: {sum(outcomes.values()):,} ", end="", file=sys.stderr)
        wrong = {k: n for k, n in outcomes.items() if k not in ("read", "refused")}
        rows.append([
            reader.name, f"{share:,}", f"{outcomes['read']:,}", f"{outcomes['refused']:,}",
            "; ".join(f"{n} × {k}" for k, n in wrong.items()) or "none",
            coverage(reader, seed, min(share, 100)), f"{time.monotonic() - began:.0f} s",
        ])  # fmt: skip
    print(file=sys.stderr)
    return rows


def main() -> None:
    """Run the campaign and print its table; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="go on after this many of each")
    parser.add_argument("--reader", default="", help="only this reader")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    rows = campaign(given.inputs, given.seed, given.first, given.keep, given.reader)
    head = ["reader", "inputs", "read", "refused", "wrong", "lines of the reader executed", "time"]
    table = "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])
    options = f"--inputs {given.inputs} --seed {given.seed} --first {given.first}"
    text = (
        f"Printed by `python -m tests.campaigns.fuzz {options}`:\nPython "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} shared cores. Limits "
        f"of an input: {SECONDS} s of the processor, {MEMORY:,} bytes.\nCoverage is that of the "
        f"first 100 inputs of each reader.\n\n{table}\n"
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Fuzzing\n\n{text}", encoding="utf-8")
    sys.exit(any(row[4] != "none" for row in rows))


if __name__ == "__main__":
    main()
