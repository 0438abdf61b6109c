"""An epoch over Multi30k beside fairseq and JoeyNMT: the same tokens, each with its own batches.

    python benchmarks/epoch.py          about five minutes on two cores; ZOO_DATA names the corpora
    python benchmarks/epoch.py --precision float32

29,000 pairs with BPE vocabularies of 8,000, at most 4,096 tokens per batch on the longer side
(padding included), and the Transformer 3+3×256. The time includes padding, collating and copying.
Each project is timed for half a minute of processor time on the first batches of a random order;
the time of an epoch is extrapolated from the tokens. All keep freed memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import peers
from report import machine, write
from train import RETAIN_FREED_MEMORY

HERE = Path(__file__).parent
PAIRS = HERE.parent / "build" / "benchmarks" / "multi30k.json"
SHAPE, TOKENS = "transformer-256", 4096


def measure(project: str, precision: str, retained: bool, seconds: float) -> dict[str, Any]:
    """Measure one project and return the row."""
    arguments = {
        "shape": SHAPE, "precision": precision, "pairs": PAIRS, "batch-tokens": TOKENS,
        "seconds": seconds,
    }  # fmt: skip
    program = HERE / "trainers" / f"epoch_{project}.py"
    words = [str(word) for name, value in arguments.items() for word in (f"--{name}", value)]
    if project == "zoo":
        (row,) = peers.run([sys.executable, program, *words], peers.KERNELS)
    else:
        variables = RETAIN_FREED_MEMORY if retained else {}
        (row,) = peers.run_peer(project, program, *words, variables=variables)
    return {**row, "memory": "retained" if retained else "default"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each measurement")
    parser.add_argument("--precision", action="append", choices=("float32", "bf16"))
    options = parser.parse_args()
    if not PAIRS.is_file():
        peers.run([sys.executable, HERE / "trainers" / "epoch_zoo.py", "--prepare", PAIRS])
    peers.compile_kernels()
    rows = [
        measure(project, precision, retained, options.seconds)
        for precision in options.precision or ("bf16", "float32")
        for project, retained in (("zoo", True), ("fairseq", True), ("joeynmt", True))
    ]
    lines = [
        f"Measured on {machine()}.\n",
        "| project | version | precision | freed memory | batches | non-padding tokens | tokens/s "
        "| seconds per epoch | relative to zoo | processor seconds | relative to zoo |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        (zoo,) = [r for r in rows if (r["project"], r["precision"]) == ("zoo", row["precision"])]
        lines.append(
            f"| {row['project']} | {row['version']} | {row['precision']} | {row['memory']} "
            f"| {row['batches']} | {row['filled']:.1%} | {row['tokens_per_second']:,} "
            f"| {row['epoch_seconds']} | {row['epoch_seconds'] / zoo['epoch_seconds']:.2f} "
            f"| {row['epoch_processor']} | {row['epoch_processor'] / zoo['epoch_processor']:.2f} |"
        )
    text = "\n".join(lines)
    print(text)
    write(HERE / "RESULTS.md", "benchmarks/epoch.py", text)


if __name__ == "__main__":
    main()
