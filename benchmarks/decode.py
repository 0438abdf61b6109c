"""Decoding speed beside other projects': the same sources in the same batches for all.

    python benchmarks/decode.py                                 everything; takes hours
    python benchmarks/decode.py --only transformer-256          one shape, …
    python benchmarks/decode.py --only zoo/float32 --only beam5 … one side, one search, …
    python benchmarks/decode.py --table                         the table of what was measured last

`--only` chooses cases by parts of their names, which `--list` prints; given often, all must fit.
Each case is a process of its own, one after another, in the environment that `peers.py` makes for
the project; this project's own is the Python that runs this. Rows are kept in `decode.jsonl` beside
this, the newest of each case, and the table is written between the marks in `RESULTS-decode.md`.

The sources are Multi30k's thousand test sentences of 2016 in 8,000 pieces (`ZOO_DATA`; drawn ones
without it). The Transformers' weights are drawn, and the same in every project.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import peers
from report import CachedWeights, Row, machine, write

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "benchmarks"
FOLDER = BUILD / "decode"
RESULTS = HERE / "RESULTS-decode.md"
PRECISIONS = ("float32", "int8")
"""Of those that have both; float32 alone of the others."""
BOTH_WAYS = ("zoo", "ctranslate2")
"""Who can decode two batches at once with a thread each; all decode batch after batch with two."""
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
    "lstm-dot": "LSTM with attention by a product, equal sizes",
    "convs2s-iwslt": "ConvS2S, IWSLT size",
}
BEAMS = (1, 5)
CALM = 0.03
"""Where other programs had more of the processor than this, the table says so."""


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


KEPT = CachedWeights(HERE / "decode.jsonl", Case.of)


def cases() -> list[Case]:
    """Return every case: outputs of free length where all have the same weights, and so outputs."""
    return [
        Case(shape, length, beam, project, precision, at_once)
        for shape, projects in SIDES.items()
        for length in (("forced", "free") if shape.startswith("transformer") else ("forced",))
        for beam in BEAMS
        for project in projects
        for precision in PRECISIONS[: 2 if project in BOTH_WAYS else 1]
        for at_once in range(1, 3 if project in BOTH_WAYS else 2)
    ]


def measure(case: Case, repeats: int, seconds: float) -> Row:
    """Run one case; return its row."""
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
        (row,) = peers.run([sys.executable, program, *arguments], variables)
    else:
        (row,) = peers.ask(case.project, program, *arguments, variables=variables)
    return {**row, "alike": alike(case), "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}


def prepare() -> None:
    """Make the sources and weights, if they are not there."""
    if not (FOLDER / "sources.json").is_file():
        program = HERE / "decoders" / "with_zoo.py"
        peers.run([sys.executable, program, "--prepare", FOLDER])


def alike(case: Case) -> float | None:
    """Return the share of outputs that are this project's in float32; None where there are none."""
    ours = Case(case.shape, case.length, case.beam, "zoo", "float32")
    if not case.shape.startswith("transformer"):  # weights are each project's own
        return None
    if not (case.outputs.is_file() and ours.outputs.is_file()):
        return None
    both = [json.loads(x.outputs.read_text(encoding="utf-8")) for x in (case, ours)]
    if case.length == "forced":  # the last place may or may not hold an end token
        both = [[output[:15] for output in outputs] for outputs in both]
    if len(both[0]) != len(both[1]):
        return None
    return sum(a == b for a, b in zip(*both, strict=True)) / len(both[0])


def table(rows: dict[Case, Row]) -> str:
    """Return a table for each shape and length, as Markdown."""
    lines = []
    for shape in SIDES:
        for length in ("forced", "free"):
            mine = {c: r for c, r in rows.items() if (c.shape, c.length) == (shape, length)}
            if mine:
                kind = "16 tokens each" if length == "forced" else "free, 32 tokens at most"
                lines += [f"\n### {TITLES[shape]}; outputs {kind}\n", *section(mine)]
    return "\n".join(lines)


def section(rows: dict[Case, Row]) -> list[str]:
    """Return one table's lines: a project and precision each, greedy and beam beside each other."""
    shape = next(iter(rows)).shape
    heads = [f"{'greedy' if beam == 1 else f'beam {beam}'}, sentences/s | × ours" for beam in BEAMS]
    lines = [
        f"| project | version | precision | batches at once | parameters | {' | '.join(heads)} "
        "| tokens | outputs as ours | peak memory | measured |",
        "|---|---|---|--:|--:" + "|--:|--:" * len(BEAMS) + "|--:|--:|--:|---|",
    ]
    order = SIDES[shape]
    sides = sorted({(order.index(c.project), c.project, c.precision, c.at_once) for c in rows})
    for _, *side in sides:
        found = {c.beam: r for c, r in rows.items() if [c.project, c.precision, c.at_once] == side}
        any_row = next(iter(found.values()))
        project, precision, at_once = map(str, side)
        cells = [project, any_row["version"], precision, at_once, f"{any_row['parameters']:,}"]
        for beam in BEAMS:
            row, ours = found.get(beam), _ours(rows, beam)
            speed = row["sentences_per_second"] if row else None
            disturbed = "" if not row or row.get("others", 1.0) < CALM else " (disturbed)"
            cells.append(f"{speed:,}{disturbed}" if speed else "—")
            cells.append(f"{speed / ours:.2f}" if speed and ours else "—")
        cells.append(_both(found, lambda r: f"{r['tokens']:.1f}"))
        cells.append(_both(found, lambda r: _share(r["alike"])))
        cells.append(_both(found, lambda r: f"{r['peak_mb']:,}") + " MB")
        cells.append(max(r["measured"] for r in found.values()))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _ours(rows: dict[Case, Row], beam: int) -> float | None:
    found = [
        r["sentences_per_second"]
        for c, r in rows.items()
        if (c.project, c.precision, c.at_once, c.beam) == ("zoo", "float32", 1, beam)
    ]
    return found[0] if found else None


def _both(found: dict[int, Row], show: Any) -> str:
    """Return what greedy search and beam search have to show, once if it is the same."""
    shown = [show(found[beam]) if beam in found else "—" for beam in BEAMS]
    return shown[0] if len(set(shown)) == 1 else " / ".join(shown)


def _share(share: float | None) -> str:
    return "—" if share is None else f"{share:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="part of a case's name")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    parser.add_argument("--seconds", type=float, default=150.0, help="of a case, at most")
    parser.add_argument(
        "--missing", action="store_true", help="of what is not measured undisturbed"
    )
    parser.add_argument("--list", action="store_true", help="print the cases' names alone")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args()
    chosen = [case for case in cases() if all(part in case.name for part in given.only)]
    if given.missing:
        known = KEPT.read()
        chosen = [c for c in chosen if c not in known or known[c].get("others", 1.0) >= CALM]
    if given.list:
        print(*(case.name for case in chosen), sep="\n")
        return
    if not given.table:
        prepare()
        for case in chosen:
            try:
                row = measure(case, given.repeats, given.seconds)
            except peers.PeerError as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                continue
            print(json.dumps(row), flush=True)
            KEPT.keep(row)
    rows = KEPT.read()
    if rows:
        text = f"Measured with two threads on {machine()}.\n{table(rows)}"
        print(text)
        write(RESULTS, "benchmarks/decode.py", text)


if __name__ == "__main__":
    main()
