"""An epoch over Multi30k beside fairseq and JoeyNMT: the same tokens, each with its own batches.

    python benchmarks/epoch.py                 about three minutes; ZOO_DATA names the corpora
    python benchmarks/epoch.py --threads 1 --precision float32
    python benchmarks/epoch.py --table         only write the tables again

29,000 pairs with BPE vocabularies of 8,000, at most 4,096 tokens per batch on the longer side
(padding included), and the Transformer 3+3×256. The time includes padding, collating and copying.
Each project is timed for half a minute of processor time on the first batches of a random order;
the time of an epoch is extrapolated from the tokens. All keep freed memory. Rows are stored in
`epoch.jsonl`, by kind of machine and number of threads, and the tables are written to
`RESULTS-epoch.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import peers
from report import Measurements, Row, kind_of_machine, now, write
from train import RETAIN_FREED_MEMORY

HERE = Path(__file__).parent
PAIRS = HERE.parent / "build" / "benchmarks" / "multi30k.json"
SHAPE, TOKENS = "transformer-256", 4096
PROJECTS = ("zoo", "fairseq", "joeynmt")
PRECISIONS = ("bf16", "float32")
CORES = os.cpu_count() or 1


def key(row: Row) -> tuple[str, int, str, str]:
    return row["machine"], row["threads"], row["precision"], row["project"]


MEASUREMENTS = Measurements(HERE / "epoch.jsonl", key)


def measure(project: str, precision: str, threads: int, seconds: float) -> Row:
    """Measure one project and return the row."""
    arguments = {
        "shape": SHAPE, "precision": precision, "pairs": PAIRS, "batch-tokens": TOKENS,
        "seconds": seconds,
    }  # fmt: skip
    program = HERE / "trainers" / f"epoch_{project}.py"
    words = [str(word) for name, value in arguments.items() for word in (f"--{name}", value)]
    variables = {"OMP_NUM_THREADS": str(threads)}
    if project == "zoo":
        (row,) = peers.run([sys.executable, program, *words], peers.KERNELS | variables)
    else:
        variables |= RETAIN_FREED_MEMORY
        (row,) = peers.run_peer(project, program, *words, variables=variables)
    measured = now()
    return {"machine": kind_of_machine(), "threads": threads, **row, "measured": measured}


def tables(rows: dict[Any, Row]) -> str:
    """Return a table for each kind of machine and number of threads."""
    lines = []
    for kind, threads in dict.fromkeys((row["machine"], row["threads"]) for row in rows.values()):
        of = "1 thread" if threads == 1 else f"{threads} threads"
        lines += [
            f"\n{kind}; {of}:\n",
            "| precision | project | version | batches | non-padding tokens | tokens/s "
            "| seconds per epoch | relative to zoo | processor seconds | relative to zoo "
            "| measured |",
            "|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|",
        ]
        for precision in PRECISIONS:
            group = [rows.get((kind, threads, precision, project)) for project in PROJECTS]
            lines += [line(row, group[0]) for row in group if row and group[0]]
    return "\n".join(lines)


def line(row: Row, zoo: Row) -> str:
    """Return a project's line of a table."""
    ratios = [row[unit] / zoo[unit] for unit in ("epoch_seconds", "epoch_processor")]
    return (
        f"| {row['precision']} | {row['project']} | {row['version']} | {row['batches']} "
        f"| {row['filled']:.1%} | {row['tokens_per_second']:,} | {row['epoch_seconds']} "
        f"| **{ratios[0]:.2f}** | {row['epoch_processor']} | **{ratios[1]:.2f}** "
        f"| {row['measured']} |"
    )


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each measurement")
    parser.add_argument("--precision", action="append", choices=PRECISIONS)
    parser.add_argument("--threads", type=int, default=CORES, help="of each project")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    options = parser.parse_args()
    if not options.table:
        if not PAIRS.is_file():
            peers.run([sys.executable, HERE / "trainers" / "epoch_zoo.py", "--prepare", PAIRS])
        peers.compile_kernels()
        for precision in options.precision or PRECISIONS:
            for project in PROJECTS:
                row = measure(project, precision, options.threads, options.seconds)
                MEASUREMENTS.put(row)
                print(f"{project}, {precision}: {row['epoch_seconds']} s an epoch", flush=True)
    write(HERE / "RESULTS-epoch.md", "benchmarks/epoch.py", tables(MEASUREMENTS.read()))


if __name__ == "__main__":
    main()
