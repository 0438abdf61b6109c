"""Decoding speed beside the fastest other project: both sides in turn, round by round, in one run.

    python benchmarks/in_turn.py                    every Transformer beside CTranslate2; 10 minutes
    python benchmarks/in_turn.py --only tiny --only int8 --minutes 2
    python benchmarks/in_turn.py --recurrent        LSTMs and ConvS2S beside fairseq and JoeyNMT

`--only` selects cases by a part of their names, which `--list` prints; a case must match every
`--only`. Both sides decode the same sources in the same batches of 64, each in its own process,
with one thread for each worker. One round of one side follows one of the other until the case's
share of `--minutes` is over. The smallest processor time and wall time of each side count: on a
busy machine, processor time is the one to compare. Rows are stored in `in_turn.jsonl`, by kind of
machine, and the tables are written to `RESULTS-in-turn.md`. The zoo's optional kernels are compiled
first; `--without-kernels` measures without them. CTranslate2 is the one that is
installed here, or else that of `peers.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import decode
import peers
from report import Measurements, Row, kind_of_machine, now, write

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS-in-turn.md"
ROWS = 64
PEERS = {
    "transformer-256": "ctranslate2",
    "transformer-512": "ctranslate2",
    "transformer-tiny": "ctranslate2",
    "lstm-additive": "joeynmt",
    "lstm-dot": "fairseq",
    "convs2s-iwslt": "fairseq",
}
TITLES = {
    **decode.TITLES,
    "transformer-tiny": "Transformer 4+4×128, feed-forward 256, as the released ones",
}
SIDES = ("zoo", "peer")
PRECISIONS = ("float32", "float16", "bf16", "int8")
"""The zoo's. A peer without one of them runs in float32. With `float16` both do, and the weights
are rounded to it, as those of released checkpoints are."""


@dataclass(frozen=True, order=True)
class Case:
    """One comparison; `workers` batches are decoded at once, each with one thread."""

    shape: str
    precision: str
    workers: int
    length: str
    beam: int
    rows: int = ROWS
    kernels: bool = True

    @property
    def name(self) -> str:
        kind = f"beam{self.beam}" + ("" if self.rows > 1 else "/one-by-one")
        return f"{self.shape}/{self.precision}/{self.workers}-workers/{self.length}/{kind}"

    @property
    def sentences(self) -> int:
        return self.rows * self.workers if self.rows > 1 else 8


def key(row: Row) -> tuple[str, Case]:
    names = ("shape", "precision", "workers", "length", "beam", "rows", "kernels")
    return row["machine"], Case(*(row[name] for name in names))


MEASUREMENTS = Measurements(HERE / "in_turn.jsonl", key)


def cases(recurrent: bool, kernels: bool) -> list[Case]:
    """Return the cases of the Transformers, or of all other networks, one process's adjacent."""
    chosen = []
    for shape, peer in PEERS.items():
        if recurrent != (peer == "ctranslate2"):
            for precision in PRECISIONS:
                for workers in (1,) if recurrent else (1, 2):
                    chosen += [
                        Case(shape, precision, workers, length, beam)
                        for length in (("forced",) if recurrent else ("forced", "free"))
                        for beam in (1, 5)
                    ]
                    if workers == 1 and not recurrent:  # a person at a prompt
                        chosen += [Case(shape, precision, 1, "forced", beam, 1) for beam in (1, 5)]
    return [replace(case, kernels=kernels) for case in chosen]


class Side:
    """A process that decodes what it is asked for."""

    def __init__(self, project: str, case: Case) -> None:
        own = project == "zoo" or (
            project == "ctranslate2" and importlib.util.find_spec("ctranslate2") is not None
        )
        python = sys.executable if own else peers.environment(project)
        options = {
            "shape": case.shape,
            "precision": case.precision if project in decode.CONCURRENT else "float32",
            "at-once": case.workers,
            "sources": decode.FOLDER / "sources.json",
            "weights": decode.FOLDER / f"{case.shape}.npz",
        }
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        count = str(case.workers)
        variables = {"OMP_NUM_THREADS": count, "DECODE_THREADS": count, "PYTHONWARNINGS": "ignore"}
        if project == "zoo":
            compiled = Path(peers.KERNELS["ZOO_CACHE"])
            variables["ZOO_CACHE"] = str(compiled if case.kernels else compiled / "none")
        self.started, self.first = time.perf_counter(), 0.0
        program = HERE / "decoders" / f"with_{project}.py"
        self.program = peers.Program([python, program, "--serve", *arguments], variables)
        self.start = self.program.answer()

    def request(self, **wanted: Any) -> Row:
        """Return the answer to a request."""
        return self.program.request(json.dumps(wanted))

    def prepare(self, case: Case) -> None:
        """Prepare a search, and decode one sentence and a batch before anything is measured."""
        self.request(beam=case.beam, length=case.length)
        self.first = self.first or time.perf_counter() - self.started
        self.request(rows=case.rows, sentences=min(case.sentences, 16))

    def close(self) -> None:
        """End the process."""
        self.program.close()


def compare(case: Case, sides: dict[str, Side], seconds: float) -> Row:
    """Decode in turn for about this long, at least once; return the row of a case."""
    for side in sides.values():
        side.prepare(case)
    rounds: dict[str, list[Row]] = {name: [] for name in sides}
    start = time.perf_counter()
    while True:
        for name, side in sides.items():
            rounds[name].append(side.request(rows=case.rows, sentences=case.sentences))
        spent, count = time.perf_counter() - start, len(rounds["zoo"])
        if spent * (count + 1) / count > seconds:
            break
    row: Row = {
        "machine": kind_of_machine(),
        **{n: getattr(case, n) for n in ("shape", "precision", "workers", "length", "beam")},
        "rows": case.rows,
        "kernels": case.kernels,
        "peer": PEERS[case.shape],
        "peer_version": sides["peer"].start["version"],
        "rounds": count,
        "measured": now(),
    }
    for name, side in sides.items():
        for unit in ("seconds", "processor"):
            best = min(answer[unit] for answer in rounds[name])
            row[f"{name}_{unit}"] = round(best / case.sentences, 6)
        outputs = rounds[name][-1]["outputs"]
        row[f"{name}_tokens"] = round(sum(map(len, outputs)) / len(outputs), 1)
        row[f"{name}_first"] = round(side.first, 2)
        row[f"{name}_mb"] = rounds[name][-1]["peak_mb"] - side.start["imported_mb"]
    both = zip(rounds["zoo"][-1]["outputs"], rounds["peer"][-1]["outputs"], strict=True)
    last = -1 if case.length == "forced" else None  # which may or may not be the end token
    row["equal"] = sum(a[:15][:last] == b[:15][:last] for a, b in both) / case.sentences
    return row


def tables(rows: dict[Any, Row]) -> str:
    """Return the tables: for each kind of machine, one for each shape."""
    lines = []
    for kind in dict.fromkeys(row["machine"] for row in rows.values()):
        lines += [f"\n## {kind}"]
        for shape in PEERS:
            group = [r for r in rows.values() if (r["machine"], r["shape"]) == (kind, shape)]
            if group:
                lines += [f"\n### {TITLES[shape]}\n", *table(group)]
    return "\n".join(lines)


def table(rows: list[Row]) -> list[str]:
    """Return the lines of one table, a row for each case."""
    peer = rows[0]["peer"]
    lines = [
        "| precision | workers | search | kernels | processor ms per sentence | "
        f"{peer} | ratio | wall ms per sentence | {peer} | ratio | equal outputs | "
        f"tokens | {peer} | memory, MB | {peer} | first sentence, s | {peer} | rounds | measured |",
        "|---|--:|---|---|" + "--:|" * 14 + "---|",
    ]
    for row in sorted(rows, key=key):
        kind = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        name = f"{kind}, {row['length']}" if row["rows"] > 1 else f"{kind}, one by one"
        cells = [row["precision"], str(row["workers"]), name, "yes" if row["kernels"] else "no"]
        for unit in ("processor", "seconds"):
            own, other = row[f"zoo_{unit}"], row[f"peer_{unit}"]
            cells += [f"{own * 1e3:.2f}", f"{other * 1e3:.2f}", f"**{other / own:.2f}**"]
        cells.append(f"{row['equal']:.0%}" if peer == "ctranslate2" else "—")
        cells += [str(row.get(f"{side}_tokens", "—")) for side in SIDES]
        cells += [f"{row[f'{side}_mb']:,}" for side in SIDES]
        cells += [f"{row[f'{side}_first']:.1f}" for side in SIDES]
        lines.append(f"| {' | '.join([*cells, str(row['rounds']), row['measured']])} |")
    return lines


def main() -> None:
    """Compare, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="part of a case's name")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all cases together")
    parser.add_argument("--recurrent", action="store_true", help="LSTMs and ConvS2S instead")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and exit")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    parser.add_argument("--without-kernels", action="store_true", help="only torch's operators")
    options = parser.parse_args()
    every = cases(options.recurrent, not options.without_kernels)
    chosen = [case for case in every if all(part in case.name for part in options.only)]
    if options.list:
        print(*(case.name for case in chosen), sep="\n")
        return
    if not options.table:
        measure(chosen, time.perf_counter() + 60 * options.minutes)
    text = tables(MEASUREMENTS.read())
    write(RESULTS, "benchmarks/in_turn.py", text)


def measure(chosen: list[Case], end: float) -> None:
    """Measure and store the cases; each gets an equal share of the time that is left."""
    decode.prepare()
    peers.compile_kernels()
    sides: dict[str, Side] = {}
    running: tuple[str, str, int] | None = None
    for number, case in enumerate(chosen):
        if running != (case.shape, case.precision, case.workers):
            for side in sides.values():
                side.close()
            running = case.shape, case.precision, case.workers
            sides = {"zoo": Side("zoo", case), "peer": Side(PEERS[case.shape], case)}
        share = (end - time.perf_counter()) / (len(chosen) - number)
        row = compare(case, sides, share * 0.6)  # the rest is for starts and preparations
        MEASUREMENTS.put(row)
        ratios = [row[f"peer_{u}"] / row[f"zoo_{u}"] for u in ("processor", "seconds")]
        print(f"{case.name}: {ratios[0]:.2f} by processor time, {ratios[1]:.2f} by wall time, "
              f"{row['zoo_processor'] * 1e3:.2f} / {row['peer_processor'] * 1e3:.2f} ms, "
              f"{row['rounds']} rounds", flush=True)  # fmt: skip
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    main()
