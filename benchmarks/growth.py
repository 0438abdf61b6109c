"""How the cost of decoding grows: with the prefix, the beam and the batch; drawn in growth.svg.

    python benchmarks/growth.py          about two minutes on two cores

Networks with drawn weights, sources of 14 tokens, two threads, float32; the median of some tries.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as `zoo` itself has it, for every command

import torch
from report import machine, write

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "decoders"))

from with_zoo import create

from zoo.checkpoint.markdown import markdown_table
from zoo.cli.process import keep_freed_memory
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
SOURCE, STEPS, TARGET, ROWS, TRIES = 14, 64, 16, 64, 5
PREFIXES = (1, 8, 16, 32, 48, 64)
BEAMS = (1, 2, 3, 5, 10)
BATCHES = (1, 4, 16, 64, 128)

Curve = dict[int, float]


def median(run: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    taken = []
    for _ in range(TRIES):
        before = time.perf_counter()
        run()
        taken.append(time.perf_counter() - before)
    return sorted(taken)[TRIES // 2]


def sources(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randint(4, 8000, (rows, SOURCE))
    return source, torch.ones_like(source, dtype=torch.bool)


@torch.inference_mode()
def by_prefix(model: Seq2Seq) -> Curve:
    """Return milliseconds of the step that reads the nth token, for 64 sentences."""
    taken: list[list[float]] = [[] for _ in range(STEPS)]
    memory = model.encode(*sources(ROWS))
    for _ in range(TRIES):
        state = model.init_state(memory)
        token = torch.full((ROWS,), BEGIN)
        for place in range(STEPS):
            before = time.perf_counter()
            logits, state, _ = model.step(token, state, memory)
            taken[place].append(time.perf_counter() - before)
            token = logits.argmax(1)
    # Of a few neighbours, since at some places a cache is made larger.
    return {
        place: 1000
        * sorted(t for near in taken[max(place - 4, 0) : place] for t in near)[
            len(taken[max(place - 4, 0) : place]) * TRIES // 2
        ]
        for place in PREFIXES
    }


@torch.inference_mode()
def per_sentence(model: Seq2Seq, rows: int, beam: int) -> float:
    """Return milliseconds a sentence of 16 tokens, encoding included."""
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
    for axis, (across, up, curves) in zip(axes, panels, strict=True):
        for mark, (name, curve) in zip("^sD", curves.items(), strict=True):
            axis.plot(list(curve), list(curve.values()), mark + "-", label=name)
        axis.set_xlabel(across)
        axis.set_ylabel(up)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].set_xscale("log", base=2)
    axes[0].legend()
    figure.savefig(HERE / "growth.svg", metadata={"Date": None})


def main() -> None:
    torch.set_num_threads(2)
    keep_freed_memory()
    models = {name: create(shape) for name, shape in SHAPES.items()}
    with PackedWeights().activate():  # as a translator has it
        panels = measured(models)
    tables = []
    for across, up, curves in panels:
        xs = list(next(iter(curves.values())))
        rows = [[name, *(f"{y:.2f}" for y in curve.values())] for name, curve in curves.items()]
        tables.append(f"{up}, by {across}:\n\n{markdown_table(['', *map(str, xs)], rows)}")
    text = f"Measured with two threads on {machine()}.\n\n" + "\n\n".join(tables)
    print(text)
    write(HERE / "RESULTS-decode.md", "benchmarks/growth.py", text)
    draw(panels)


def measured(models: dict[str, Seq2Seq]) -> list[tuple[str, str, dict[str, Curve]]]:
    """Return each panel: what goes across, what goes up, and the curves."""
    return [
        ("tokens of the prefix", f"ms a step, {ROWS} sentences",
         {name: by_prefix(model) for name, model in models.items()}),
        ("beam", f"ms a sentence, batches of {ROWS}",
         {name: {k: per_sentence(model, ROWS, k) for k in BEAMS}
          for name, model in models.items()}),
        ("sentences a batch", "ms a sentence, greedy",
         {name: {n: per_sentence(model, n, 1) for n in BATCHES}
          for name, model in models.items()}),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
