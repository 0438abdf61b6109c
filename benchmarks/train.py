"""Training speed beside other projects: repeated updates on one batch, the same for all, in turn.

    python benchmarks/train.py                            every shape and precision; 10 minutes
    python benchmarks/train.py --shape convs2s-iwslt --precision float32 --minutes 1
    python benchmarks/train.py --default-allocator        peers also as they come
    python benchmarks/train.py --table                    only write the table again

All sides of a case run at once, each in its own process, and one round of a few updates of one side
follows one of the other until the case's share of `--minutes` is over. The median of all updates
counts, in processor and wall time: on a busy machine, processor time is the one to compare. Peers
run in the environments that `peers.py` builds, with the zoo's allocator settings; the zoo runs in
the Python that runs this script. Rows are stored in `train.jsonl`, by kind of machine, and the
tables are written to `RESULTS-train.md`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import peers
from report import Measurements, Row, kind_of_machine, now, write

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS-train.md"
PEERS = {
    "transformer-512": ("fairseq", "joeynmt", "transformers"),
    "convs2s-iwslt": ("fairseq",),
    "transformer-256": ("fairseq", "joeynmt", "transformers"),
    "lstm-dot": ("fairseq",),
    "lstm-additive": ("joeynmt",),
}
TITLES = {
    "transformer-512": "Transformer 6+6×512",
    "convs2s-iwslt": "ConvS2S, IWSLT size",
    "transformer-256": "Transformer 3+3×256",
    "lstm-dot": "LSTM with dot-product attention",
    "lstm-additive": "LSTM with additive attention",
}
PRECISIONS = ("float32", "bf16")
RETAIN_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""The allocator settings of the `zoo` command line, as glibc variables, for the other projects."""

WARM_UP = 3
"""Updates before the first one that counts: until then, the allocator asks for memory."""


class Side:
    """A process that makes updates on request."""

    def __init__(
        self, project: str, shape: str, precision: str, threads: int, retained: bool
    ) -> None:
        python = sys.executable if project == "zoo" else peers.environment(project)
        program = HERE / "trainers" / f"with_{project}.py"
        variables = {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        if project == "zoo":
            variables |= peers.KERNELS
        elif retained:
            variables |= RETAIN_FREED_MEMORY
        command = [python, program, "--shape", shape, "--precision", precision]
        self.program = peers.Program(command, variables)
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self.row: Row = {"memory_retained": retained, **self.program.answer()}

    def update(self, count: int) -> None:
        """Make updates and note their times."""
        answer = self.program.request(str(count))
        self.seconds += answer["seconds"]
        self.processor += answer["processor"]
        self.row |= {"loss": round(answer["loss"], 3), "peak_mb": answer["peak_mb"]}

    def close(self) -> Row:
        """End the process and return its row."""
        self.program.close()
        self.row |= self.program.answer()
        for name in ("seconds", "processor"):
            self.row[name] = round(statistics.median(getattr(self, name)[WARM_UP:]), 5)
        return {**self.row, "updates": len(self.seconds) - WARM_UP}


def measure(
    shape: str, precision: str, threads: int, default: bool, seconds: float, updates: int
) -> list[Row]:
    """Measure one case in turn for about this long and return a row for each side."""
    start = time.perf_counter()
    wanted = [("zoo", True), *((peer, True) for peer in PEERS[shape])]
    wanted += [(peer, False) for peer in PEERS[shape] if default]
    sides = [Side(name, shape, precision, threads, retained) for name, retained in wanted]
    for side in sides:
        side.update(WARM_UP)
    rounds = 0
    while rounds < 2 or time.perf_counter() - start < seconds:
        for side in sides if rounds % 2 else reversed(sides):
            side.update(updates)
        rounds += 1
    common = {
        "machine": kind_of_machine(), "shape": shape, "precision": precision, "threads": threads,
        "measured": now(), "rounds": rounds,
    }  # fmt: skip
    rows = [{**common, **side.close()} for side in sides]
    check(rows)
    return rows


def key(row: Row) -> tuple[Any, ...]:
    names = ("machine", "shape", "threads", "precision", "project", "memory_retained")
    return tuple(row[name] for name in names)


MEASUREMENTS = Measurements(HERE / "train.jsonl", key)


def check(rows: list[Row]) -> None:
    """Raise unless the networks of a shape have the same size to within 5%."""
    counts = {row["parameters"] for row in rows}
    if max(counts) > 1.05 * min(counts):
        raise SystemExit(f"{rows[0]['shape']}: parameter counts differ: {sorted(counts)}")


def fastest(rows: list[Row], unit: str = "processor") -> Row:
    return min(rows, key=lambda row: row[unit])


def tables(measured: Mapping[Any, Row]) -> str:
    """Return the tables: for each kind of machine, one for each shape and number of threads."""
    lines = []
    for kind in dict.fromkeys(row["machine"] for row in measured.values()):
        lines += [f"\n## {kind}"]
        of_machine = [row for row in measured.values() if row["machine"] == kind]
        for shape in PEERS:
            for threads in sorted({row["threads"] for row in of_machine}):
                rows = [r for r in of_machine if (r["shape"], r["threads"]) == (shape, threads)]
                if rows:
                    count = f"{threads} thread{'s' if threads > 1 else ''}"
                    lines += [f"\n### {TITLES[shape]}, {count}\n", *table(rows)]
    return "\n".join(lines)


def table(rows: list[Row]) -> list[str]:
    """Return the lines of one table, then the ratios and the share of the products' speed."""
    lines = [
        "| project | version | precision | freed memory | parameters | processor ms per update "
        "| target tokens per processor second | zoo's speed relative to it | wall ms per update "
        "| relative | peak memory | updates | measured |",
        "|---|---|---|---|" + "--:|" * 8 + "---|",
    ]
    own = {row["precision"]: row for row in rows if row["project"] == "zoo"}
    for row in sorted(rows, key=lambda r: (r["precision"], r["project"] != "zoo", *key(r)[4:])):
        zoo = own[row["precision"]]
        lines.append(
            f"| {row['project']} | {row['version']} | {row['precision']} "
            f"| {'retained' if row['memory_retained'] else 'default'} | {row['parameters']:,} "
            f"| {row['processor'] * 1e3:,.0f} | {row['tokens'] / row['processor']:,.0f} "
            f"| {row['processor'] / zoo['processor']:.2f} | {row['seconds'] * 1e3:,.0f} "
            f"| {row['seconds'] / zoo['seconds']:.2f} | {row['peak_mb']:,} MB | {row['updates']} "
            f"| {row['measured']} |"
        )
    return [*lines, "", *ratios(rows), *shares(rows)]


def ratios(rows: list[Row]) -> list[str]:
    """Return lines that compare with the fastest peer, in each precision and in the best ones."""
    lines = []
    precisions = [(name,) for name in PRECISIONS if any(r["precision"] == name for r in rows)]
    for chosen in dict.fromkeys([*precisions, PRECISIONS]):
        group = [row for row in rows if row["precision"] in chosen]
        zoo = fastest([row for row in group if row["project"] == "zoo"])
        peer = fastest([row for row in group if row["project"] != "zoo"])
        name = chosen[0] if len(chosen) == 1 else "each side in its best precision"
        lines.append(
            f"- **{peer['processor'] / zoo['processor']:.2f}** × {peer['project']} "
            f"({zoo['precision']} beside {peer['precision']}), by wall time "
            f"{peer['seconds'] / zoo['seconds']:.2f}: {name}"
        )
    return lines


def shares(rows: list[Row]) -> list[str]:
    """Return lines that compare the zoo's throughput with one large matrix multiplication."""
    lines = []
    for row in rows:
        if "matmul_flops" in row:
            speed = row["operations_per_token"] * row["tokens"] / row["processor"]
            lines.append(
                f"- {speed / 1e9:,.0f} GFLOP per processor second in {row['precision']}, "
                f"{speed / row['matmul_flops']:.0%} of a multiplication of two large square "
                f"matrices in the same process"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", action="append", choices=PEERS, help="may be repeated")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="may be repeated")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all cases together")
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--updates", type=int, default=2, help="of one side in a round")
    parser.add_argument("--default-allocator", action="store_true", help="peers also as they come")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    cases = [
        (shape, precision)
        for shape in options.shape or PEERS
        for precision in options.precision or PRECISIONS
    ]
    if not options.table:
        peers.compile_kernels()
    end = time.perf_counter() + 60 * options.minutes
    for number, (shape, precision) in enumerate(() if options.table else cases):
        share = (end - time.perf_counter()) / (len(cases) - number)
        rows = measure(
            shape, precision, options.threads, options.default_allocator, share, options.updates
        )
        for row in rows:
            MEASUREMENTS.put(row)
        print(f"{shape}, {precision}: {rows[0]['rounds']} rounds", *ratios(rows)[:1], flush=True)
    text = tables(MEASUREMENTS.read())
    write(RESULTS, "benchmarks/train.py", text)


if __name__ == "__main__":
    main()
