"""How the cost of a step grows: with the prefix, with the beam and with the batch, as a picture.

    python benchmarks/decode_growth.py                 measures, and draws decode-growth.png
    python benchmarks/decode_growth.py --draw         draws what was measured last

Each architecture's tiny model of the catalogue takes steps by itself, so that a point is the time
of one call of `step`, two threads. In the first panel one prefix grows, 64 rows; in the others the
time is that of a whole search step (choosing and reordering too), outputs forced to 16 tokens. What
was measured is kept in `build/benchmarks/decode-growth.json`.
"""

from __future__ import annotations

import os

# As `zoo` itself has it, for every command.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import zoo
from zoo.decoding import Search, Task, search
from zoo.model import BEGIN, END, PADDING, UNKNOWN, Seq2Seq

HERE = Path(__file__).parent
KEPT = HERE.parent / "build" / "benchmarks" / "decode-growth.json"
PICTURE = HERE / "decode-growth.png"
MODELS = ("transformer-tiny", "convs2s-tiny", "rnnsearch-tiny", "seq2seq-tiny")
VOCAB, SOURCE, ROWS, FORCED = 8000, 16, 64, 16
PREFIX = 512
PREFIXES = (1, 8, 16, 32, 64, 128, 256, 384, 512)
AROUND = 4
"""A prefix's time is the least of so many steps up to it."""
BEAMS = (1, 2, 3, 5, 8, 12, 20)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)

Curve = dict[str, float]
"""From what grows to milliseconds."""


def task(model: Seq2Seq, sentences: int) -> Task:
    source = torch.randint(UNKNOWN + 1, VOCAB, (sentences, SOURCE))
    source[:, -1] = END
    mask = source != PADDING
    return Task(model, model.encode(source, mask), mask)


def best(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the least seconds of a few calls, the first left out."""
    call()
    seconds = []
    for _ in range(repeats):
        before = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - before)
    return min(seconds)


def by_prefix(model: Seq2Seq) -> Curve:
    """Return a step's milliseconds at each length of the prefix."""
    given = task(model, ROWS)
    least: dict[int, float] = {}
    for _ in range(3):
        state, token = model.init_state(given.memory), torch.full((ROWS,), BEGIN)
        for place in range(1, PREFIX + 1):
            before = time.perf_counter()
            logits, state = model.step(token, state, given.memory)
            taken = time.perf_counter() - before
            token = _any(logits)
            least[place] = min(taken, least.get(place, taken))
    return {
        str(place): 1000 * min(least[p] for p in range(max(1, place - AROUND + 1), place + 1))
        for place in PREFIXES
    }


def _any(logits: Tensor) -> Tensor:
    """Return some token of each row."""
    return logits[:, UNKNOWN + 1 :].argmax(1) + UNKNOWN + 1


def by_search(model: Seq2Seq, sentences: int, beam: int) -> float:
    """Return a search step's milliseconds, over a whole search."""
    given = task(model, sentences)
    options = Search(beam=beam, min_length=FORCED, max_length=FORCED)
    return 1000 * best(lambda: search(given, options)) / FORCED


@torch.inference_mode()
def measure() -> dict[str, dict[str, Curve]]:
    """Return curves by panel and model."""
    found: dict[str, dict[str, Curve]] = {"prefix": {}, "beam": {}, "batch": {}}
    for name in MODELS:
        torch.manual_seed(1)
        model = zoo.create_model(name, source_vocab=VOCAB, target_vocab=VOCAB).eval()
        found["prefix"][name] = by_prefix(model)
        found["beam"][name] = {str(beam): by_search(model, ROWS, beam) for beam in BEAMS}
        found["batch"][name] = {str(rows): by_search(model, rows, 5) for rows in BATCHES}
        print(json.dumps({panel: found[panel][name] for panel in found}), flush=True)
    return found


def draw(found: dict[str, dict[str, Curve]]) -> None:
    """Draw the curves."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    panels = {
        "prefix": (f"one step of {ROWS} rows", "tokens before it"),
        "beam": (f"a search step of {ROWS} sentences", "beam"),
        "batch": ("a search step, beam 5, for one sentence", "sentences in the batch"),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for axis, (panel, (title, label)) in zip(axes, panels.items(), strict=True):
        for name, curve in found[panel].items():
            places = [int(place) for place in curve]
            share = places if panel == "batch" else [1] * len(places)
            times = [ms / part for ms, part in zip(curve.values(), share, strict=True)]
            axis.plot(places, times, marker="o", markersize=3, label=name)
        axis.set(title=title, xlabel=label, ylabel="milliseconds")
        if panel == "batch":
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            for line in (axis.xaxis, axis.yaxis):
                line.set_major_formatter(ScalarFormatter())
        else:
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    given = parser.parse_args()
    torch.set_num_threads(2)
    if not given.draw:
        keep_memory()
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(measure(), indent=1), encoding="utf-8")
    draw(json.loads(KEPT.read_text(encoding="utf-8")))
    print(f"Drew {PICTURE}")


def keep_memory() -> None:
    """Keep freed memory, where this version can, as the command line does."""
    try:
        from zoo.memory import keep_freed_memory
    except ImportError:
        return
    keep_freed_memory()


if __name__ == "__main__":
    main()
