"""Size, packages and start times of an earlier version beside the present one.

    python benchmarks/editions.py [--before REVISION] [PIP OPTIONS] > benchmarks/EDITIONS.md

Builds both wheels, the earlier one from the repository's history, and installs them for inference
only into empty environments, each with the versions of its own `constraints.txt`. Then every
command runs in a new process, in turn with the other version, after one run that fills the file
cache and writes the bytecode.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from install import TOP, build, install
from start import timed

FIRST = "e107b63"
"""The last commit of version 0.1.0."""
# Isolated: a tree in the current folder or in PYTHONPATH is not what was installed.
COMMANDS = {
    "import zoo": ["-I", "-c", "import zoo"],
    "zoo --help": ["-I", "-m", "zoo", "--help"],
    "zoo list checkpoints": ["-I", "-m", "zoo", "list", "checkpoints"],
    "zoo info rnnsearch-tiny": ["-I", "-m", "zoo", "info", "rnnsearch-tiny"],
    "zoo translate …": ["-I", "-m", "zoo", "translate", "rnnsearch-tiny.numbers-en-fr", "one"],
}
SIZES = (
    ("packages", "packages", "{:.0f}"),
    ("size without torch", "others", "{:.0f} MB"),
    ("the zoo's wheel", "wheel", "{:.1f} MB"),
)
"""Title, key and form of each row of the first table."""
RUNS = 9


def export(revision: str, folder: Path) -> None:
    """Write the tree of a revision into a folder."""
    folder.mkdir()
    tree = subprocess.run(
        ["git", "-C", str(TOP), "archive", revision], check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=tree.stdout, check=True)


def main() -> None:
    """Install both versions, measure them and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", default=FIRST, help="revision of the earlier version")
    chosen, options = parser.parse_known_args()
    columns, rows, pythons = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for label, revision in (("before", chosen.before), ("now", None)):
            folder = Path(name) / label
            tree = TOP if revision is None else folder / "tree"
            folder.mkdir()
            if revision is not None:
                export(revision, tree)
            wheel = build(tree, folder)
            rows.append(install(folder / "env", wheel, tree / "constraints.txt", options))
            rows[-1]["wheel"] = wheel.stat().st_size / 1e6
            columns.append(f"{label}: {wheel.name.split('-')[1]}")
            pythons.append(str(folder / "env" / "bin" / "python"))
        for words in COMMANDS.values():
            for python in pythons:
                timed(words, python)
        times: dict[str, list[list[tuple[float, float]]]] = {key: [[], []] for key in COMMANDS}
        for _ in range(RUNS):
            for key, words in COMMANDS.items():
                for python, seen in zip(pythons, times[key], strict=True):
                    seen.append(timed(words, python))
    print("# Installation and start, before and now\n")
    print(f"`python benchmarks/editions.py --before {chosen.before}` printed this page: both")
    print("versions installed for inference only, without compiled bytecode and with the versions")
    print("of their own `constraints.txt`.\n")
    print(f"| | {' | '.join(columns)} |\n|---|--:|--:|")
    for title, key, form in SIZES:
        print(f"| {title} | {' | '.join(form.format(row[key]) for row in rows)} |")
    print(f"\nSeconds of {RUNS} new processes, in turn. On a busy machine, the processor time says")
    print("more than the wall time.\n")
    print("| | wall, median: before | now | processor, smallest: before | now |")
    print("|---|--:|--:|--:|--:|")
    for key, both in times.items():
        wall = [f"{statistics.median(run[0] for run in seen):.2f}" for seen in both]
        used = [f"{min(run[1] for run in seen):.2f}" for seen in both]
        print(f"| `{key}` | {' | '.join(wall + used)} |")
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
