"""Translate many lines, and watch memory, open files and threads: they must not grow.

python tests/campaigns/long_runs.py --lines 1000000 --write tests/campaigns/long_runs.md
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import zoo

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
GROWTH = 1.1
"""How much more memory the last tenth of a run may use than its second tenth."""


class Usage(NamedTuple):
    """What a process uses at one moment; memory in megabytes."""

    memory: float
    files: int
    threads: int

    @classmethod
    def now(cls) -> Usage:
        """Return what this process uses."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return cls(megabytes, len(os.listdir("/proc/self/fd")), threading.active_count())


def lines(count: int, seed: int) -> Iterator[str]:
    """Yield random short sentences."""
    draw = random.Random(seed)
    words = "a man woman dog in the red blue shirt is running on street two people".split()  # noqa: SIM905
    for _ in range(count):
        yield " ".join(draw.choices(words, k=draw.randint(1, 12)))


def translate(count: int, seed: int) -> list[Usage]:
    """Translate `count` lines; return what was used after each tenth."""
    translator = zoo.load(RELEASED, device="cpu")
    used = []
    for number, _ in enumerate(translator.stream(lines(count, seed), beam=1, max_length=12), 1):
        if number % max(count // 10, 1) == 0:
            used.append(Usage.now())
            print(f"\r{number:,} lines, {used[-1].memory:.0f} MB", end="", file=sys.stderr)
    print(file=sys.stderr)
    return used


def check(used: list[Usage]) -> None:
    """Make sure that nothing grew after the second measurement.

    Raises:
        SystemExit: something did.
    """
    second, last = used[1], used[-1]
    if last.memory > second.memory * GROWTH or last.files > second.files:
        raise SystemExit(f"grew from {second} to {last}")
    if last.threads > second.threads:
        raise SystemExit(f"grew from {second} to {last}")


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    began = time.monotonic()
    used = translate(given.lines, given.seed)
    check(used)
    rows = [
        f"| {(i + 1) * given.lines // 10:,} | {u.memory:.0f} | {u.files} | {u.threads} |"
        for i, u in enumerate(used)
    ]
    text = (
        f"Printed by `python tests/campaigns/long_runs.py --lines {given.lines} --seed "
        f"{given.seed}`:\nPython {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} shared cores, {(time.monotonic() - began) / 60:.1f} minutes.\n\n"
        "| lines | memory (MB) | open files | threads |\n| --- | --- | --- | --- |\n"
        + "\n".join(rows)
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Long runs\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
