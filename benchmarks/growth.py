"""Decoding time by prefix length, beam and batch size; plotted in growth.svg.

    python benchmarks/growth.py          about two minutes on two cores

Networks with random weights, sources of 14 tokens, two threads, float32; medians of five runs.
"""

from __future__ import annotations

import argparse
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
from zoo.nn.cached_weights import PackedWeights
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
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "zoo"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(13, 4), layout="constrained")
    for axis, (x_label, y_label, curves) in zip(axes, panels, strict=True):
        for mark, (name, curve) in zip("^sD", curves.items(), strict=True):
            axis.plot(list(curve), list(curve.values()), mark + "-", label=name)
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].set_xscale("log", base=2)
    axes[0].legend()
    figure.savefig(HERE / "growth.svg", metadata={"Date": None})


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    torch.set_num_threads(2)
    models = {name: create(shape) for name, shape in SHAPES.items()}
    with PackedWeights().activate():  # as in a Translator
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
