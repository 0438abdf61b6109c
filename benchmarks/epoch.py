"""A pass over Multi30k beside fairseq's: each project cuts the same tokens into its own batches.

    python benchmarks/epoch.py          about five minutes on two cores; ZOO_DATA names the corpora

29,000 pairs in 8,000 learnt pieces a side, at most 4,096 tokens a batch on its larger side, padding
included; the Transformer of 3 and 3 layers of 256. Padding, collating and copying count. Each side
is timed on its first batches of an order drawn, for half a minute; a pass follows from the tokens.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import peers
from report import machine, write
from train import KEEP_MEMORY

HERE = Path(__file__).parent
PAIRS = HERE.parent / "build" / "benchmarks" / "multi30k.json"
SHAPE, TOKENS = "transformer-256", 4096


def measure(project: str, precision: str, kept: bool, seconds: float) -> dict[str, Any]:
    """Run one side; return its row."""
    options = {
        "shape": SHAPE, "precision": precision, "pairs": PAIRS, "batch-tokens": TOKENS,
        "seconds": seconds,
    }  # fmt: skip
    program = HERE / "trainers" / f"epoch_{project}.py"
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    if project == "zoo":
        (row,) = peers.run([sys.executable, program, *words])
    else:
        variables = KEEP_MEMORY if kept else {}
        (row,) = peers.ask(project, program, *words, variables=variables)
    return {**row, "memory": "kept" if kept else "as it comes"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    given = parser.parse_args()
    if not PAIRS.is_file():
        peers.run([sys.executable, HERE / "trainers" / "epoch_zoo.py", "--prepare", PAIRS])
    rows = [
        measure(project, precision, kept, given.seconds)
        for precision in ("bf16", "float32")
        for project, kept in (("zoo", True), ("fairseq", False), ("fairseq", True))
    ]
    lines = [
        f"Measured on {machine()}.\n",
        "| project | version | precision | memory | batches | filled | tokens/s | s an epoch "
        "| × ours |",
        "|---|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        (ours,) = [r for r in rows if (r["project"], r["precision"]) == ("zoo", row["precision"])]
        lines.append(
            f"| {row['project']} | {row['version']} | {row['precision']} | {row['memory']} "
            f"| {row['batches']} | {row['filled']:.1%} | {row['tokens_per_second']:,} "
            f"| {row['epoch_seconds']} | {row['epoch_seconds'] / ours['epoch_seconds']:.2f} |"
        )
    text = "\n".join(lines)
    print(text)
    write(HERE / "RESULTS.md", "benchmarks/epoch.py", text)


if __name__ == "__main__":
    main()
