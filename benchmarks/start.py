"""How long the zoo takes to start: `import zoo`, `zoo --help`, one translation in a new process.

    python benchmarks/start.py > benchmarks/START.md     about a minute

Each command runs in a new process, in turn with the others, after one run that fills the file
cache. On a busy machine, the processor time says more than the wall time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import zoo": ["-c", "import zoo"],
    "zoo --help": ["-m", "zoo", "--help"],
    "zoo list checkpoints": ["-m", "zoo", "list", "checkpoints"],
    "zoo translate, numbers": ["-m", "zoo", "translate", "rnnsearch-tiny.numbers-en-fr", "one"],
    "zoo translate, captions": ["-m", "zoo", "translate", "transformer-tiny.multi30k-en-de", "A."],
}


def timed(arguments: list[str], python: str = sys.executable) -> tuple[float, float]:
    """Return the wall and processor seconds of a Python process."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([python, *arguments], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def main() -> None:
    """Time every command and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="runs of each command")
    runs = parser.parse_args().runs
    for arguments in COMMANDS.values():
        timed(arguments)
    times = [{name: timed(words) for name, words in COMMANDS.items()} for _ in range(runs)]
    print("# How long the zoo takes to start\n\n`python benchmarks/start.py` printed this page.")
    print(f"Each command ran in {runs} new processes. On a busy machine, the processor time says")
    print("more than the wall time.\n")
    print("| | wall, s: smallest | median | processor, s: smallest | median |")
    print("|---|--:|--:|--:|--:|")
    for name in COMMANDS:
        cells = []
        for kind in (0, 1):
            values = [run[name][kind] for run in times]
            cells += [f"{min(values):.2f}", f"{statistics.median(values):.2f}"]
        print(f"| `{name}` | {' | '.join(cells)} |")
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
