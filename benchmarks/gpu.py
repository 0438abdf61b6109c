"""Training and decoding speed on a GPU beside other projects: all sides of a case in turn.

    python benchmarks/gpu.py --minutes 5
    python benchmarks/gpu.py --only decode/transformer-256 --only train/transformer-256
    python benchmarks/gpu.py --table                only write the tables again

All projects run in the Python that runs this script: install the peers there, beside a torch for
the GPU (`peers/` lists them). A project that is missing, or that fails, is left out with a line
that says so. Cases are measured in the order of `--only`. All processes start at first; then only
one computes at a time, and rounds of one follow rounds of the other until the case's share of
`--minutes` is over. The median of all updates counts, and the fastest round of decoding. Rows are
stored in `gpu.jsonl`, by kind of GPU, and the tables are written to `RESULTS-gpu.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import decode
import peers
import train
from report import Measurements, Row, now, write

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS-gpu.md"
PRECISIONS = ("float32", "bf16")
TRAINED_ROWS = (64, 512)
"""Pairs of 20 tokens in a batch."""
COMPILED = {"transformer-256": ("zoo", "transformers")}
"""Projects that are measured with torch.compile besides."""
DECODED = {
    "transformer-256": ("zoo", "ctranslate2", "transformers", "fairseq"),
    "transformer-512": ("zoo", "ctranslate2", "transformers", "fairseq"),
    "lstm-dot": ("zoo", "fairseq"),
    "convs2s-iwslt": ("zoo", "fairseq"),
}
DECODED_ROWS = {"forced": (64, 512), "free": (512,)}
"""Sentences in a batch, by the kind of output length; two batches of 64 are decoded, or one."""


@dataclass(frozen=True, order=True)
class Case:
    """What one set of processes runs: training or decoding of a shape."""

    what: str
    shape: str

    @property
    def name(self) -> str:
        return f"{self.what}/{self.shape}"

    def sides(self, compiled: bool) -> list[tuple[str, bool]]:
        """Return the projects, and whether each is compiled."""
        if self.what == "decode":
            return [(project, False) for project in DECODED[self.shape]]
        plain = [(project, False) for project in ("zoo", *train.PEERS[self.shape])]
        return plain + [(project, True) for project in COMPILED.get(self.shape, ()) if compiled]


def key(row: Row) -> tuple[Any, ...]:
    names = ("gpu", "what", "shape", "precision", "setting", "project")
    return tuple(row[name] for name in names)


MEASUREMENTS = Measurements(HERE / "gpu.jsonl", key)


def cases() -> list[Case]:
    return [Case("train", shape) for shape in train.PEERS] + [Case("decode", s) for s in DECODED]


class Side:
    """A process on the GPU."""

    def __init__(self, project: str, compiled: bool, case: Case) -> None:
        self.name = f"{project}, compiled" if compiled else project
        folder = "trainers" if case.what == "train" else "decoders"
        given = ["--shape", case.shape, "--precision", "float32", "--device", "cuda"]
        if case.what == "decode":
            sources, weights = decode.FOLDER / "sources.json", decode.FOLDER / f"{case.shape}.npz"
            given += ["--serve", "--sources", str(sources), "--weights", str(weights)]
        elif compiled:
            given.append("--compile")
        variables = {"OMP_NUM_THREADS": "4", "PYTHONWARNINGS": "ignore"}
        program = HERE / folder / f"with_{project}.py"
        self.program = peers.Program([sys.executable, program, *given], variables)

    def answer(self) -> Row | None:
        """Return the next answer; None once the process has ended."""
        try:
            return self.program.answer()
        except peers.PeerError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return None


class Sides:
    """The processes of a case; those that end are left out from then on."""

    def __init__(self, case: Case, compiled: bool) -> None:
        self.case = case
        self.versions: dict[Side, str] = {}
        self.running = [Side(project, compiled, case) for project, compiled in case.sides(compiled)]

    def wait(self) -> None:
        """Wait until all have started."""
        for side, about in self._answers().items():
            self.versions[side] = about["version"]

    def all(self, line: str) -> dict[Side, Row]:
        """Return the answers to a request that all work on at once."""
        for side in self.running:
            side.program.send(line)
        return self._answers()

    def in_turn(self, line: str) -> dict[Side, Row]:
        """Return the answers to a request that one side works on after the other."""
        answers: dict[Side, Row | None] = {}
        for side in self.running:
            side.program.send(line)
            answers[side] = side.answer()
        return self._kept(answers)

    def close(self) -> None:
        """End all."""
        for side in self.versions:
            side.program.close()

    def _answers(self) -> dict[Side, Row]:
        return self._kept({side: side.answer() for side in self.running})

    def _kept(self, answers: dict[Side, Row | None]) -> dict[Side, Row]:
        kept = {side: answer for side, answer in answers.items() if answer is not None}
        self.running = list(kept)
        return kept


def training(sides: Sides, seconds: float) -> Iterator[Row]:
    """Yield a row for each precision, size of batches and project."""
    share = seconds / len(TRAINED_ROWS) / len(PRECISIONS)
    for precision in PRECISIONS:
        for rows in TRAINED_ROWS:
            sides.all(f"5 {rows} {precision}")  # warms up; compiles
            times: dict[Side, list[float]] = {side: [] for side in sides.running}
            answers: dict[Side, Row] = {}
            end, rounds = time.perf_counter() + share, 0
            while sides.running and (rounds < 2 or time.perf_counter() < end):
                answers = sides.in_turn("10")
                for side, answer in answers.items():
                    times[side] += answer["seconds"]
                rounds += 1
            for side, answer in answers.items():
                median = statistics.median(times[side])
                yield {
                    "precision": precision, "setting": f"{rows} pairs", "project": side.name,
                    "version": sides.versions[side], "ms": round(1e3 * median, 2),
                    "per_second": round(answer["tokens"] / median), "peak_mb": answer["peak_mb"],
                    "loss": round(answer["loss"], 3), "rounds": rounds,
                }  # fmt: skip


def decoding(sides: Sides, seconds: float) -> Iterator[Row]:
    """Yield a row for each precision, search, size of batches and project."""
    lengths = ("forced", "free") if sides.case.shape == "transformer-256" else ("forced",)
    searches = [(p, n, b) for p in PRECISIONS for n in lengths for b in (1, 5)]
    share = seconds / len(searches) / 2
    for precision, length, beam in searches:
        sides.all(json.dumps({"beam": beam, "length": length, "precision": precision}))
        for rows in DECODED_ROWS[length]:
            count = max(rows, 128)
            request = json.dumps({"rows": rows, "sentences": count})
            sides.in_turn(request)  # warms up
            best: dict[Side, float] = {}
            answers: dict[Side, Row] = {}
            end, rounds = time.perf_counter() + share, 0
            while sides.running and (rounds < 2 or time.perf_counter() < end):
                answers = sides.in_turn(request)
                for side, answer in answers.items():
                    best[side] = min(answer["seconds"], best.get(side, answer["seconds"]))
                rounds += 1
            outputs = {side.name: answer["outputs"] for side, answer in answers.items()}
            for side in answers:
                yield {
                    "precision": precision, "setting": f"{length}, beam {beam}, {rows} sentences",
                    "project": side.name, "version": sides.versions[side],
                    "per_second": round(count / best[side], 1), "ms": round(1e3 * best[side], 1),
                    "equal": equal(outputs, side.name, length), "rounds": rounds,
                }  # fmt: skip


def equal(outputs: dict[str, list[list[int]]], project: str, length: str) -> float | None:
    """Return the share of outputs that equal the zoo's, but for the last token of forced ones."""
    if "zoo" not in outputs:
        return None
    last = 14 if length == "forced" else None
    both = zip(outputs[project], outputs["zoo"], strict=True)
    return sum(a[:last] == b[:last] for a, b in both) / len(outputs["zoo"])


def tables(rows: list[Row]) -> str:
    lines = []
    for gpu in dict.fromkeys(row["gpu"] for row in rows):
        lines += [f"\n## {gpu}"]
        for what, unit in (("train", "target tokens/s"), ("decode", "sentences/s")):
            for shape in train.PEERS:
                group = [r for r in rows if (r["gpu"], r["what"], r["shape"]) == (gpu, what, shape)]
                if group:
                    verb = "training" if what == "train" else "decoding"
                    lines += [f"\n### {train.TITLES[shape]}, {verb}\n", *table(group, unit)]
    return "\n".join(lines)


def table(rows: list[Row], unit: str) -> list[str]:
    """Return the lines of one table: a row for each setting, a column for each project."""
    projects = list(dict.fromkeys(row["project"] for row in rows))
    lines = [
        f"In {unit}.\n",
        f"| precision | setting | {' | '.join(projects)} | zoo ÷ fastest other | measured |",
        "|---|---|" + "--:|" * (len(projects) + 1) + "---|",
    ]
    for precision, setting in dict.fromkeys((r["precision"], r["setting"]) for r in rows):
        of_row = {
            r["project"]: r for r in rows if (r["precision"], r["setting"]) == (precision, setting)
        }
        measured = max(row["measured"] for row in of_row.values())
        speeds = {project: row["per_second"] for project, row in of_row.items()}
        others = [speed for project, speed in speeds.items() if not project.startswith("zoo")]
        own = [speed for project, speed in speeds.items() if project.startswith("zoo")]
        ratio = f"**{max(own) / max(others):.2f}**" if others and own else "—"
        cells = []
        for project in projects:
            earlier = project in of_row and of_row[project]["measured"] != measured
            mark = "†" if earlier else ""
            cells.append(f"{speeds[project]:,.0f}{mark}" if project in speeds else "—")
        lines.append(f"| {precision} | {setting} | {' | '.join([*cells, ratio])} | {measured} |")
    if any("†" in line for line in lines):
        lines.append("\n† from an earlier run, on a card of the same kind")
    return lines


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="part of a case's name")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all cases together")
    parser.add_argument("--compiled", action="store_true", help="with torch.compile, too")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    options = parser.parse_args()
    named = [case for part in options.only for case in cases() if part in case.name]
    chosen = list(dict.fromkeys(named)) if options.only else cases()
    if not options.table:
        import torch

        common = {"gpu": f"{torch.cuda.get_device_name()}, torch {torch.__version__}"}
        decode.prepare([case.shape for case in chosen if case.what == "decode"])
        end = time.perf_counter() + 60 * options.minutes
        started = [Sides(case, options.compiled) for case in chosen]
        for sides in started:
            sides.wait()
        for number, (case, sides) in enumerate(zip(chosen, started, strict=True)):
            share = (end - time.perf_counter()) / (len(chosen) - number)
            common |= {"what": case.what, "shape": case.shape}
            common["measured"] = now()
            measure = training if case.what == "train" else decoding
            for row in measure(sides, share * 0.5):  # the rest is for starts
                words = row["precision"], row["setting"], row["project"], row["per_second"]
                print(case.name, *words, flush=True)
                MEASUREMENTS.put({**common, **row})
            sides.close()
    write(RESULTS, "benchmarks/gpu.py", tables(list(MEASUREMENTS.read().values())))


if __name__ == "__main__":
    main()
