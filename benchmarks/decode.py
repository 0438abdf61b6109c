"""Decoding speed compared with other projects: the same sources in the same batches for all.

    python benchmarks/decode.py                                 every case; takes hours
    python benchmarks/decode.py --only transformer-256          one shape, …
    python benchmarks/decode.py --only zoo/float32 --only beam5 … one project, one beam, …
    python benchmarks/decode.py --table                         only write the table again

`--only` selects cases by a part of their names, which `--list` prints; a case must match every
`--only`. Cases run one after another, each in its own process. Peers run in the environments that
`peers.py` builds; the zoo runs in the Python that runs this script. The newest row of each case is
stored in `decode.jsonl`, and the table is written between the markers in `RESULTS-decode.md`.

The sources are the 1,000 sentences of Multi30k's Test 2016, with a BPE vocabulary of 8,000 (from
`ZOO_DATA`; random sources without it). The Transformers have random weights, the same in every
project.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from decoders.common import SHAPES
from report import Measurements, Row, machine, now, write

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "benchmarks"
FOLDER = BUILD / "decode"
RESULTS = HERE / "RESULTS-decode.md"
PRECISIONS = ("float32", "int8")
"""Measured for the zoo and CTranslate2; other projects only in float32."""
CONCURRENT = ("zoo", "ctranslate2")
"""Projects that can also decode two batches at once with one thread each."""
SIDES = {
    "transformer-256": ("zoo", "ctranslate2", "transformers", "fairseq"),
    "transformer-512": ("zoo", "ctranslate2", "transformers", "fairseq"),
    "lstm-additive": ("zoo", "joeynmt"),
    "lstm-dot": ("zoo", "fairseq"),
    "convs2s-iwslt": ("zoo", "fairseq"),
}
TITLES = {
    "transformer-256": "Transformer 3+3×256, feed-forward 1024, the same weights",
    "transformer-512": "Transformer 6+6×512, feed-forward 2048, the same weights",
    "lstm-additive": "LSTM with additive attention, equal sizes",
    "lstm-dot": "LSTM with dot-product attention, equal sizes",
    "convs2s-iwslt": "ConvS2S, IWSLT size",
}
KINDS = {"forced": "16 tokens each", "free": "free, 32 tokens at most"}
BEAMS = (1, 5)
CALM = 0.03
"""The table marks a run in which other processes used a larger share of the processor."""


@dataclass(frozen=True, order=True)
class Case:
    """One measurement."""

    shape: str
    length: str
    beam: int
    project: str
    precision: str
    at_once: int = 1

    @property
    def name(self) -> str:
        most = f"/{self.at_once}-at-once" if self.at_once > 1 else ""
        return f"{self.shape}/{self.length}/beam{self.beam}/{self.project}/{self.precision}{most}"

    @property
    def outputs(self) -> Path:
        return FOLDER / f"{self.name.replace('/', '.')}.json"

    @classmethod
    def of(cls, row: Row) -> Case:
        names = ("shape", "length", "beam", "project", "precision")
        return cls(*(row[part] for part in names), row.get("at_once", 1))


MEASUREMENTS = Measurements(HERE / "decode.jsonl", Case.of)


def cases() -> list[Case]:
    """Return every case; free output lengths only where all projects have the same weights."""
    return [
        Case(shape, length, beam, project, precision, at_once)
        for shape, projects in SIDES.items()
        for length in (("forced", "free") if shape.startswith("transformer") else ("forced",))
        for beam in BEAMS
        for project in projects
        for precision in PRECISIONS[: 2 if project in CONCURRENT else 1]
        for at_once in range(1, 3 if project in CONCURRENT else 2)
    ]


def measure(case: Case, repeats: int, seconds: float) -> Row:
    """Measure one case and return its row."""
    program = HERE / "decoders" / f"with_{case.project}.py"
    options = {
        "shape": case.shape,
        "precision": case.precision,
        "beam": case.beam,
        "length": case.length,
        "at-once": case.at_once,
        "sources": FOLDER / "sources.json",
        "weights": FOLDER / f"{case.shape}.npz",
        "outputs": case.outputs,
        "repeats": repeats,
        "seconds": seconds,
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    variables = {"OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    if case.project == "zoo":
        (row,) = peers.run([sys.executable, program, *arguments], variables | peers.KERNELS)
    else:
        (row,) = peers.run_peer(case.project, program, *arguments, variables=variables)
    return {
        **row,
        "same_outputs": same_outputs(case),
        "measured": now(),
    }


def prepare(shapes: Iterable[str] = SHAPES) -> None:
    """Write the sources and weights of shapes unless they exist."""
    files = ["sources.json", *(f"{shape}.npz" for shape in shapes)]
    if not all((FOLDER / file).is_file() for file in files):
        program = HERE / "decoders" / "with_zoo.py"
        peers.run([sys.executable, program, "--prepare", FOLDER, *shapes])


def same_outputs(case: Case) -> float | None:
    """Return the share of outputs equal to the zoo's in float32, or None without any to compare."""
    reference = Case(case.shape, case.length, case.beam, "zoo", "float32")
    if not case.shape.startswith("transformer"):  # each project draws its own weights
        return None
    if not (case.outputs.is_file() and reference.outputs.is_file()):
        return None
    both = [json.loads(x.outputs.read_text(encoding="utf-8")) for x in (case, reference)]
    if case.length == "forced":  # the last token may or may not be the end token
        both = [[output[:15] for output in outputs] for outputs in both]
    if len(both[0]) != len(both[1]):
        return None
    return sum(a == b for a, b in zip(*both, strict=True)) / len(both[0])


def table(rows: dict[Case, Row]) -> str:
    """Return a table of ratios, and one table per shape and output length."""
    lines = ["\n### The zoo compared with the fastest other project\n", *ratios(rows)]
    for shape in SIDES:
        for length in ("forced", "free"):
            group = {c: r for c, r in rows.items() if (c.shape, c.length) == (shape, length)}
            if group:
                lines += [f"\n### {TITLES[shape]}; outputs {KINDS[length]}\n", *section(group)]
    return "\n".join(lines)


def ratios(rows: dict[Case, Row]) -> list[str]:
    """Return the lines of a table: the zoo's speed over that of the fastest other project."""
    lines = [
        "| network | outputs | precision | batches at once | greedy | beam 5 |",
        "|---|---|---|---|--:|--:|",
    ]
    for shape, length in dict.fromkeys((case.shape, case.length) for case in cases()):
        for precision in PRECISIONS:
            for at_once, words in (((1,), "1"), ((1, 2), "1 or 2, the faster for each")):
                cells = []
                for beam in BEAMS:
                    group = {
                        c: r["sentences_per_second"]
                        for c, r in rows.items()
                        if (c.shape, c.length, c.beam) == (shape, length, beam)
                        and c.at_once in at_once
                    }
                    own = [
                        s
                        for c, s in group.items()
                        if (c.project, c.precision) == ("zoo", precision)
                    ]
                    others = {c: s for c, s in group.items() if c.project != "zoo"}
                    # Of the projects that are compared, only CTranslate2 has int8.
                    same = [s for c, s in others.items() if c.precision == precision]
                    theirs = same or list(others.values())
                    cells.append(f"{max(own) / max(theirs):.2f}" if own and theirs else "—")
                lines.append(
                    f"| {shape} | {KINDS[length]} | {precision} | {words} | {' | '.join(cells)} |"
                )
    return lines


def section(rows: dict[Case, Row]) -> list[str]:
    """Return the lines of one table: a row per project, precision and concurrency."""
    shape = next(iter(rows)).shape
    heads = [
        f"{'greedy' if beam == 1 else f'beam {beam}'}, sentences/s | relative" for beam in BEAMS
    ]
    lines = [
        f"| project | version | precision | batches at once | parameters | {' | '.join(heads)} "
        "| tokens | same outputs | peak memory | measured |",
        "|---|---|---|--:|--:" + "|--:|--:" * len(BEAMS) + "|--:|--:|--:|---|",
    ]
    order = SIDES[shape]
    sides = sorted({(order.index(c.project), c.project, c.precision, c.at_once) for c in rows})
    for _, *side in sides:
        by_beam = {
            c.beam: r for c, r in rows.items() if [c.project, c.precision, c.at_once] == side
        }
        any_row = next(iter(by_beam.values()))
        project, precision, at_once = map(str, side)
        cells = [project, any_row["version"], precision, at_once, f"{any_row['parameters']:,}"]
        for beam in BEAMS:
            row, reference = by_beam.get(beam), _reference(rows, beam)
            speed = row["sentences_per_second"] if row else None
            disturbed = "" if not row or row.get("other_processes", 1.0) < CALM else " (disturbed)"
            cells.append(f"{speed:,}{disturbed}" if speed else "—")
            cells.append(f"{speed / reference:.2f}" if speed and reference else "—")
        cells.append(_both(by_beam, lambda r: f"{r['tokens']:.1f}"))
        cells.append(_both(by_beam, lambda r: _share(r["same_outputs"])))
        cells.append(_both(by_beam, lambda r: f"{r['peak_mb']:,}") + " MB")
        cells.append(max(r["measured"] for r in by_beam.values()))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _reference(rows: dict[Case, Row], beam: int) -> float | None:
    """Return the zoo's speed in float32, one batch at a time."""
    speeds = [
        r["sentences_per_second"]
        for c, r in rows.items()
        if (c.project, c.precision, c.at_once, c.beam) == ("zoo", "float32", 1, beam)
    ]
    return speeds[0] if speeds else None


def _both(by_beam: dict[int, Row], show: Any) -> str:
    """Return a value of greedy and of beam search, written once if both are equal."""
    shown = [show(by_beam[beam]) if beam in by_beam else "—" for beam in BEAMS]
    return shown[0] if len(set(shown)) == 1 else " / ".join(shown)


def _share(share: float | None) -> str:
    return "—" if share is None else f"{share:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="part of a case's name")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    parser.add_argument("--seconds", type=float, default=150.0, help="longest duration of a case")
    parser.add_argument(
        "--missing", action="store_true", help="only cases without an undisturbed measurement"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and exit")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    chosen = [case for case in cases() if all(part in case.name for part in options.only)]
    if options.missing:
        known = MEASUREMENTS.read()
        chosen = [
            c for c in chosen if c not in known or known[c].get("other_processes", 1.0) >= CALM
        ]
    if options.list:
        print(*(case.name for case in chosen), sep="\n")
        return
    if not options.table:
        prepare()
        peers.compile_kernels()
        for case in chosen:
            try:
                row = measure(case, options.repeats, options.seconds)
            except peers.PeerError as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                continue
            print(json.dumps(row), flush=True)
            MEASUREMENTS.put(row)
    rows = MEASUREMENTS.read()
    if rows:
        text = f"Measured with two threads on {machine()}.\n{table(rows)}"
        print(text)
        write(RESULTS, "benchmarks/decode.py", text)


if __name__ == "__main__":
    main()
