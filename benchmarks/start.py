"""How long the zoo takes to start: `import zoo`, one translation, one update of a training run.

    python benchmarks/start.py > benchmarks/START.md     about two minutes

Each command runs in a new process, in turn with the others, after one run that fills the file
cache. On a busy machine, the processor time says more than the wall time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

OUT = "OUT"
"""Stands for a new folder in a command."""

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import zoo": ["-c", "import zoo"],
    "zoo --help": ["-m", "zoo", "--help"],
    "zoo list checkpoints": ["-m", "zoo", "list", "checkpoints"],
    "zoo translate, numbers": ["-m", "zoo", "translate", "rnnsearch-tiny.numbers-en-fr", "one"],
    "zoo translate, captions": ["-m", "zoo", "translate", "transformer-tiny.multi30k-en-de", "A."],
    "zoo train, 1,000 pairs, one update": [
        "-m", "zoo", "train", "transformer-tiny", "--data", "numbers-en-fr", "--limit", "1000",
        "--steps", "1", "--out", OUT,
    ],
}  # fmt: skip


def timed(arguments: list[str], python: str = sys.executable) -> tuple[float, float]:
    """Return the wall and processor seconds of a Python process."""
    with tempfile.TemporaryDirectory() as folder:
        words = [os.path.join(folder, "out") if word == OUT else word for word in arguments]
        before, start = os.times(), time.perf_counter()
        run = subprocess.run([python, *words], check=False, capture_output=True)
        wall, after = time.perf_counter() - start, os.times()
    if run.returncode:
        sys.exit(run.stderr.decode())
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
