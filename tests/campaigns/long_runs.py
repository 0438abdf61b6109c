"""Translate many lines, and watch memory, open files and threads: they must not grow.

    python -m tests.campaigns.long_runs --lines 1000000 --write tests/campaigns/long_runs.md

It also measures which share of the processor's time is spent outside the network, and outside the
search: reading, splitting into tokens, batching, joining and writing. The process is set up as
`zoo translate` sets up its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import zoo
from zoo.cli.process import configure
from zoo.decoding.search import search
from zoo.translation import text_search

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
GROWTH = 1.1
"""How much more memory the last tenth of a run may use than its second tenth."""


class Clock:
    """Adds up the processor time of calls, in all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose calls are timed."""

        def call(*arguments: Any, **options: Any) -> Any:
            before = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.thread_time() - before

        return call


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


def translate(
    count: int, seed: int, checkpoint: Path, **options: Any
) -> tuple[list[Usage], float, float]:
    """Translate `count` lines of a file to a file, with search options.

    Returns:
        What was used after each tenth, and the shares of the time outside the network and outside
        the search, in percent.
    """
    network, searching = Clock(), Clock()
    translator = zoo.load(checkpoint, device="cpu")
    for name in ("encode", "init_state", "step"):
        setattr(translator.model, name, network.timed(getattr(translator.model, name)))
    encode = searching.timed(translator._search._encode)
    translator._search._encode = encode  # type: ignore[method-assign]
    setattr(text_search, "search", searching.timed(search))  # noqa: B010  # mypy: not exported
    used = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        with source.open("w") as file:
            file.writelines(f"{line}\n" for line in lines(count, seed))
        before = time.process_time()
        with source.open() as texts, Path(folder, "target").open("w") as target:
            stream = translator.stream((line.rstrip("\n") for line in texts), **options)
            for number, translation in enumerate(stream, 1):
                target.write(f"{translation.text}\n")
                if number % max(count // 10, 1) == 0:
                    used.append(Usage.now())
                    print(f"\r{number:,} lines, {used[-1].memory:.0f} MB", end="", file=sys.stderr)
        whole = time.process_time() - before
    print(file=sys.stderr)
    outside = [100 * (1 - clock.seconds / whole) for clock in (network, searching)]
    return used, outside[0], outside[1]


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
    parser.add_argument("--checkpoint", type=Path, default=RELEASED)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--recommended",
        action="store_true",
        help="search as the checkpoint recommends, instead of greedily for at most 12 tokens",
    )
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    configure()
    began = time.monotonic()
    options = {} if given.recommended else {"beam": 1, "max_length": 12}
    used, *outside = translate(given.lines, given.seed, given.checkpoint, **options)
    check(used)
    rows = [
        f"| {(i + 1) * given.lines // 10:,} | {u.memory:.0f} | {u.files} | {u.threads} |"
        for i, u in enumerate(used)
    ]
    text = (
        f"Printed by `python -m tests.campaigns.long_runs --lines {given.lines} --seed "
        f"{given.seed}`:\nPython {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} shared cores, {(time.monotonic() - began) / 60:.1f} minutes.\n\n"
        f"Of the processor's time, {outside[0]:.1f}% was spent outside the network and "
        f"{outside[1]:.1f}% outside the search, with {given.checkpoint.name}.\n\n"
        "| lines | memory (MB) | open files | threads |\n| --- | --- | --- | --- |\n"
        + "\n".join(rows)
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Long runs\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
