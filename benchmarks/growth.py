"""Decoding time by prefix length, beam and batch size; plotted in growth.svg.

    python benchmarks/growth.py          about two minutes on two cores

Networks with random weights, sources of 14 tokens, two threads, float32; medians of five runs.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from zoo.cli.process import configure

configure()  # as in the zoo's command line, before torch is imported

import torch
from report import machine, write

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "decoders"))

from with_zoo import create

from zoo.checkpoint.markdown import markdown_table
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.nn.cached_weights import float32_weights
from zoo.nn.contract import BEGIN, Seq2Seq

SHAPES = {
    "Transformer 3+3×256": "transformer-256",
    "RNNSearch 512": "lstm-additive",
    "ConvS2S, IWSLT size": "convs2s-iwslt",
}
SOURCE, STEPS, TARGET, ROWS, REPEATS = 14, 64, 16, 64, 5
PREFIXES = (1, 8, 16, 32, 48, 64)
BEAMS = (1, 2, 3, 5, 10)
BATCHES = (1, 4, 16, 64, 128)

Curve = dict[int, float]


def median(run: Callable[[], object]) -> float:
    """Return the median duration of a call in seconds."""
    seconds = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - before)
    return sorted(seconds)[REPEATS // 2]


def sources(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randint(4, 8000, (rows, SOURCE))
    return source, torch.ones_like(source, dtype=torch.bool)


@torch.inference_mode()
def by_prefix(model: Seq2Seq) -> Curve:
    """Return the milliseconds of a step for 64 sentences, by prefix length."""
    seconds: list[list[float]] = [[] for _ in range(STEPS)]
    memory = model.encode(*sources(ROWS)).memory
    for _ in range(REPEATS):
        state = model.init_state(memory)
        token = torch.full((ROWS,), BEGIN)
        for position in range(STEPS):
            before = time.perf_counter()
            logits, state, _ = model.step(token, state, memory)
            seconds[position].append(time.perf_counter() - before)
            token = logits.argmax(1)
    # The median over four neighboring steps, because a step that enlarges a cache is slower.
    milliseconds = {}
    for position in PREFIXES:
        times = sorted(t for each in seconds[max(position - 4, 0) : position] for t in each)
        milliseconds[position] = 1000 * times[len(times) // 2]
    return milliseconds


@torch.inference_mode()
def per_sentence(model: Seq2Seq, rows: int, beam: int) -> float:
    """Return the milliseconds per sentence of 16 output tokens, encoding included."""
    source, mask = sources(rows)
    options = Search(beam=beam, min_length=TARGET, max_length=TARGET)
    run = lambda: search(Task(model, model.encode(source, mask).memory, mask), options)  # noqa: E731
    run()
    return 1000 * median(run) / rows


def draw(panels: list[tuple[str, str, dict[str, Curve]]]) -> None:
    """Plot the panels; the takeaways state what the curves show, and are computed from them."""
    sys.path.insert(0, str(HERE.parent))
    from docs.charts import Panel, line_charts

    def ratio(curves: dict[str, Curve], scale: float = 1) -> str:
        """Return the smallest and largest quotient of a curve's last and first values."""
        values = [list(curve.values()) for curve in curves.values()]
        ratios = [scale * each[-1] / each[0] for each in values]
        low, high = f"{min(ratios):.1f}", f"{max(ratios):.1f}"
        return low if low == high else f"{low} to {high}"

    takeaways = [
        f"A step after {PREFIXES[-1]} tokens takes {ratio(panels[0][2])} times the first",
        f"A beam of {BEAMS[-1]} takes {ratio(panels[1][2])} times greedy search",
        f"In batches of {BATCHES[-1]}, a sentence takes {ratio(panels[2][2], 100)}% of the time",
    ]
    charts = []
    for takeaway, (x_label, y_label, curves) in zip(takeaways, panels, strict=True):
        xs = list(next(iter(curves.values())))
        scale = math.log2 if xs == list(BATCHES) else float
        named = {name.split()[0].rstrip(","): list(c.values()) for name, c in curves.items()}
        charts.append(
            Panel(takeaway, x_label, y_label, [scale(x) for x in xs], [str(x) for x in xs], named)
        )
    text = line_charts("Decoding time by prefix, beam and batch size", charts)
    (HERE / "growth.svg").write_text(text, encoding="utf-8")


def stored() -> list[tuple[str, str, dict[str, Curve]]]:
    """Return the panels of the tables in RESULTS-decode.md."""
    text = (HERE / "RESULTS-decode.md").read_text(encoding="utf-8")
    text = text.partition("<!-- benchmarks/growth.py -->")[2]
    panels = []
    for head, table in re.findall(r"^(ms per .*):\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        y_label, _, x_label = head.rpartition(", by ")
        first, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")]
                           for line in table.splitlines())  # fmt: skip
        panels.append((x_label, y_label, {
            name: {int(x): float(y) for x, y in zip(first[1:], values, strict=True)}
            for name, *values in rows
        }))  # fmt: skip
    return panels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="only draw the stored results")
    if parser.parse_args().draw:
        draw(stored())
        return
    torch.set_num_threads(2)
    models = {name: create(shape) for name, shape in SHAPES.items()}
    with float32_weights().activate(fixed=True):  # as in a Translator
        panels = measure(models)
    tables = []
    for x_label, y_label, curves in panels:
        xs = list(next(iter(curves.values())))
        rows = [[name, *(f"{y:.2f}" for y in curve.values())] for name, curve in curves.items()]
        tables.append(f"{y_label}, by {x_label}:\n\n{markdown_table(['', *map(str, xs)], rows)}")
    text = f"Measured with two threads on {machine()}.\n\n" + "\n\n".join(tables)
    print(text)
    write(HERE / "RESULTS-decode.md", "benchmarks/growth.py", text)
    draw(panels)


def measure(models: dict[str, Seq2Seq]) -> list[tuple[str, str, dict[str, Curve]]]:
    """Return the panels of the figure: x label, y label and curves."""
    return [
        ("prefix length in tokens", f"ms per step of {ROWS} sentences",
         {name: by_prefix(model) for name, model in models.items()}),
        ("beam", f"ms per sentence, batches of {ROWS}",
         {name: {k: per_sentence(model, ROWS, k) for k in BEAMS}
          for name, model in models.items()}),
        ("sentences per batch", "ms per sentence, greedy",
         {name: {n: per_sentence(model, n, 1) for n in BATCHES}
          for name, model in models.items()}),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
