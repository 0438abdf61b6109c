"""Training speed compared with other projects: repeated updates on one batch, the same for all.

    python benchmarks/train.py                            every shape and project; slow
    python benchmarks/train.py --shape convs2s-iwslt      one shape; the rows of other shapes stay
    python benchmarks/train.py --table                    only write the table again

Measurements run one after another, each in its own process. Peers run in the environments that
`peers.py` builds; the zoo runs in the Python that runs this script. Rows are stored in
`build/benchmarks/train.jsonl`, and the table is written between the markers in `RESULTS.md`.
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
from report import Measurements, Row, machine, write

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
    "lstm-dot": "LSTM with dot-product attention",
    "convs2s-iwslt": "ConvS2S, IWSLT size",
}
PRECISIONS = ("float32", "bf16")
RETAIN_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""The allocator settings of the `zoo` command line, as glibc variables, for the other projects."""


def measure(project: str, shape: str, precision: str, retained: bool, seconds: float) -> Row:
    """Measure one project once and return the row."""
    program = HERE / "trainers" / f"with_{project}.py"
    arguments = ["--shape", shape, "--precision", precision, "--seconds", str(seconds)]
    if project == "zoo":
        (row,) = peers.run([sys.executable, program, *arguments])
    else:
        variables = RETAIN_FREED_MEMORY if retained else {}
        (row,) = peers.run_peer(project, program, *arguments, variables=variables)
    return {**row, "memory_retained": retained or project == "zoo"}


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("shape", "project", "precision", "memory_retained"))


MEASUREMENTS = Measurements(HERE.parent / "build" / "benchmarks" / "train.jsonl", key)


def fastest(rows: Iterable[Row]) -> Row:
    return max(rows, key=lambda row: row["tokens_per_second"])


def check(rows: list[Row]) -> None:
    """Raise unless the networks of a shape have the same size to within 5%."""
    counts = {row["parameters"] for row in rows}
    if max(counts) > 1.05 * min(counts):
        raise SystemExit(f"{rows[0]['shape']}: parameter counts differ: {sorted(counts)}")


def table(rows: list[Row]) -> str:
    """Return one Markdown table per shape."""
    lines = []
    for shape in SIDES:
        of_shape = [row for row in rows if row["shape"] == shape]
        if not of_shape:
            continue
        check(of_shape)
        lines += [
            f"\n### {TITLES[shape]}\n",
            "| project | version | precision | freed memory | parameters | tokens/s "
            "| peak memory |",
            "|---|---|---|---|--:|--:|--:|",
        ]
        order = sorted(of_shape, key=lambda r: (r["project"] != "zoo", *key(r)[1:]))
        for row in order:
            memory = "retained" if row["memory_retained"] else "default"
            lines.append(
                f"| {row['project']} | {row['version']} | {row['precision']} | {memory} "
                f"| {row['parameters']:,} | {row['tokens_per_second']:,} | {row['peak_mb']:,} MB |"
            )
        lines += ["", *ratios(of_shape), *shares(of_shape)]
    return "\n".join(lines)


def shares(rows: list[Row]) -> list[str]:
    """Return lines that compare the zoo's throughput with one large matrix multiplication."""
    lines = []
    for row in rows:
        if "matmul_flops" in row:
            speed = row["operations_per_token"] * row["tokens_per_second"]
            share = speed / row["matmul_flops"]
            lines.append(
                f"- {speed / 1e9:,.0f} GFLOP/s in {row['precision']}, {share:.0%} of a "
                f"multiplication of two large square matrices in the same run"
            )
    return lines


def ratios(rows: list[Row]) -> list[str]:
    """Return lines that compare the zoo with the fastest peer, under several conditions."""
    zoo = {row["precision"]: row for row in rows if row["project"] == "zoo"}
    others = [row for row in rows if row["project"] != "zoo"]
    default = [row for row in others if not row["memory_retained"]]
    if len(zoo) < 2 or not default:
        return []
    best = fastest(zoo.values())
    comparisons = [
        (best, fastest(default), "best precision; peers with the default allocator"),
        (best, fastest(others), "best precision; peers with their best setting"),
    ]
    float32 = [row for row in default if row["precision"] == "float32"]
    comparisons.append(
        (best, fastest(float32), "best precision; peers in float32 with the default allocator")
    )
    for group, name in (
        (default, "peers with the default allocator"),
        (others, "peers with their best setting"),
    ):
        float32 = [row for row in group if row["precision"] == "float32"]
        comparisons.append((zoo["float32"], fastest(float32), f"float32; {name}"))
    lines = []
    for row, peer, name in comparisons:
        ratio = row["tokens_per_second"] / peer["tokens_per_second"]
        lines.append(
            f"- {ratio:.2f} × {peer['project']} ({peer['precision']}"
            f"{', memory retained' if peer['memory_retained'] else ''}): {name}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", action="append", choices=SIDES, help="may be repeated")
    parser.add_argument("--project", action="append", choices=SIDES["transformer-256"])
    parser.add_argument("--seconds", type=float, default=6.0, help="duration of each measurement")
    parser.add_argument("--rounds", type=int, default=1, help="repetitions; the fastest counts")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    for shape in () if options.table else options.shape or SIDES:
        for project in SIDES[shape]:
            if options.project and project not in options.project:
                continue
            for precision in PRECISIONS:
                for retained in (True,) if project == "zoo" else (False, True):
                    attempts = [
                        measure(project, shape, precision, retained, options.seconds)
                        for _ in range(options.rounds)
                    ]
                    row = fastest(attempts)
                    print(json.dumps(row), flush=True)
                    MEASUREMENTS.put(row)
    rows = list(MEASUREMENTS.read().values())
    text = f"Measured on {machine()}, Python {platform.python_version()}.\n{table(rows)}"
    print(text)
    write(RESULTS, "benchmarks/train.py", text)


if __name__ == "__main__":
    main()
