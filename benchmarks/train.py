"""Training speed beside other projects': one update after another on one batch, the same for all.

    python benchmarks/train.py                            every shape and project; takes a while
    python benchmarks/train.py --shape convs2s-iwslt      one shape, others' rows kept as they are
    python benchmarks/train.py --table                    the table of what was measured last

Each measurement is a process of its own, one after another, in the environment that `peers.py`
makes for the project; this project's own is the Python that runs this. Rows are kept in
`build/benchmarks/train.jsonl`, and the table is written between the marks in `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import peers
from report import CachedWeights, Row, machine, write

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
SIDES = {
    "transformer-256": ("zoo", "fairseq", "joeynmt", "transformers"),
    "transformer-512": ("zoo", "fairseq", "joeynmt", "transformers"),
    "lstm-additive": ("zoo", "joeynmt"),
    "lstm-dot": ("zoo", "fairseq"),
    "convs2s-iwslt": ("zoo", "fairseq"),
}
TITLES = {
    "transformer-256": "Transformer 3+3×256",
    "transformer-512": "Transformer 6+6×512",
    "lstm-additive": "LSTM with additive attention",
    "lstm-dot": "LSTM with attention by a product",
    "convs2s-iwslt": "ConvS2S, IWSLT size",
}
PRECISIONS = ("float32", "bf16")
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""What `zoo.memory` does, as glibc's variables, for projects that do not do it themselves."""


def measure(project: str, shape: str, precision: str, kept: bool, seconds: float) -> Row:
    """Run one project's side once; return its row."""
    program = HERE / "trainers" / f"with_{project}.py"
    arguments = ["--shape", shape, "--precision", precision, "--seconds", str(seconds)]
    if project == "zoo":
        (row,) = peers.run([sys.executable, program, *arguments])
    else:
        variables = KEEP_MEMORY if kept else {}
        (row,) = peers.ask(project, program, *arguments, variables=variables)
    return {**row, "memory_kept": kept or project == "zoo"}


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("shape", "project", "precision", "memory_kept"))


KEPT = CachedWeights(HERE.parent / "build" / "benchmarks" / "train.jsonl", key)


def fastest(rows: Iterable[Row]) -> Row:
    return max(rows, key=lambda row: row["tokens_per_second"])


def check(rows: list[Row]) -> None:
    """Make sure that a shape's sides train networks of one size, to a twentieth."""
    counts = {row["parameters"] for row in rows}
    if max(counts) > 1.05 * min(counts):
        raise SystemExit(f"{rows[0]['shape']}: parameter counts differ: {sorted(counts)}")


def table(rows: list[Row]) -> str:
    """Return the table of a shape after another, as Markdown."""
    lines = []
    for shape in SIDES:
        mine = [row for row in rows if row["shape"] == shape]
        if not mine:
            continue
        check(mine)
        lines += [
            f"\n### {TITLES[shape]}\n",
            "| project | version | precision | memory | parameters | tokens/s | peak memory |",
            "|---|---|---|---|--:|--:|--:|",
        ]
        order = sorted(mine, key=lambda r: (r["project"] != "zoo", *key(r)[1:]))
        for row in order:
            memory = "kept" if row["memory_kept"] else "as it comes"
            lines.append(
                f"| {row['project']} | {row['version']} | {row['precision']} | {memory} "
                f"| {row['parameters']:,} | {row['tokens_per_second']:,} | {row['peak_mb']:,} MB |"
            )
        lines += ["", *ratios(mine), *shares(mine)]
    return "\n".join(lines)


def shares(rows: list[Row]) -> list[str]:
    """Return lines that compare this project's products with one large product in the same run."""
    lines = []
    for row in rows:
        if "product" in row:
            speed = row["operations_per_token"] * row["tokens_per_second"]
            lines.append(
                f"- {speed / 1e9:,.0f} GFLOP/s in {row['precision']}, {speed / row['product']:.0%} "
                f"of what a product of two square matrices reached in the same run"
            )
    return lines


def ratios(rows: list[Row]) -> list[str]:
    """Return lines that compare this project with the fastest peer, in each way."""
    ours = {row["precision"]: row for row in rows if row["project"] == "zoo"}
    others = [row for row in rows if row["project"] != "zoo"]
    plain = [row for row in others if not row["memory_kept"]]
    if len(ours) < 2 or not plain:
        return []
    best = fastest(ours.values())
    comparisons = [
        (best, fastest(plain), "best precision, peers as they come"),
        (best, fastest(others), "best precision, peers at their best in any setting"),
    ]
    wide = [row for row in plain if row["precision"] == "float32"]
    comparisons.append((best, fastest(wide), "best precision, peers' float32 as they come"))
    for memory, name in ((plain, "peers as they come"), (others, "peers at their best")):
        alike = [row for row in memory if row["precision"] == "float32"]
        comparisons.append((ours["float32"], fastest(alike), f"float32, {name}"))
    lines = []
    for mine, peer, name in comparisons:
        ratio = mine["tokens_per_second"] / peer["tokens_per_second"]
        lines.append(
            f"- {ratio:.2f} × {peer['project']} ({peer['precision']}"
            f"{', memory kept' if peer['memory_kept'] else ''}): {name}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", action="append", choices=SIDES, help="may be repeated")
    parser.add_argument("--project", action="append", choices=SIDES["transformer-256"])
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many is kept")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args()
    for shape in () if given.table else given.shape or SIDES:
        for project in SIDES[shape]:
            if given.project and project not in given.project:
                continue
            for precision in PRECISIONS:
                for kept in (True,) if project == "zoo" else (False, True):
                    tries = [
                        measure(project, shape, precision, kept, given.seconds)
                        for _ in range(given.rounds)
                    ]
                    row = fastest(tries)
                    print(json.dumps(row), flush=True)
                    KEPT.keep(row)
    rows = list(KEPT.read().values())
    text = f"Measured on {machine()}, Python {platform.python_version()}.\n{table(rows)}"
    print(text)
    write(RESULTS, "benchmarks/train.py", text)


if __name__ == "__main__":
    main()
