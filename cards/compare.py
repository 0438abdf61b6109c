"""The released families beside each other, on the same data: writes what `docs/zoo.md` shows.

    python cards/compare.py          about three minutes on two cores; ZOO_DATA names the corpora

Translations of the test sets are scored by the sources' length, and timed. What is found stands in
`cards/comparison.json`, and is drawn in `docs/zoo-TASK.svg`; `make docs` makes the tables of it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import sacrebleu
import torch
from release import MODELS, NAMES, SEARCH, TOP, search_of

import zoo
from zoo.data.datasets import find_dataset
from zoo.registry.declarations import Pair
from zoo.registry.registry import default_registry

FOUND = TOP / "cards" / "comparison.json"
BOUNDS = {"numbers-en-fr": (6, 7), "multi30k-en-de": (8, 10, 12, 14, 17)}
"""Words of the longest sources of each group but the last."""
MEASURES = {"numbers-en-fr": "exact match", "multi30k-en-de": "BLEU"}
THREADS, TRIES = 2, 2


def measure(task: str, texts: Sequence[str], pairs: Sequence[Pair]) -> float:
    """Return BLEU, or the percentage of texts that are equal to their references."""
    references = [pair.target for pair in pairs]
    if task == "numbers-en-fr":
        return 100 * sum(a == b for a, b in zip(texts, references, strict=True)) / len(texts)
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def groups(task: str, pairs: Sequence[Pair]) -> dict[str, list[int]]:
    """Return the places of the pairs by the length of their sources, in words."""
    bounds = BOUNDS[task]
    labels = [f"to {bounds[0]}"]
    for low, high in itertools.pairwise(bounds):
        labels.append(f"{low + 1}–{high}" if high > low + 1 else str(high))
    labels.append(f"over {bounds[-1]}")
    found: dict[str, list[int]] = {label: [] for label in labels}
    for place, pair in enumerate(pairs):
        words = len(pair.source.split())
        found[labels[sum(words > bound for bound in bounds)]].append(place)
    return found


def speed(translator: zoo.Translator, sources: list[str], **options: Any) -> float:
    """Return sentences a second, of the fastest of some tries."""
    taken = []
    for _ in range(TRIES):
        before = time.perf_counter()
        translator.translate(sources, **options)
        taken.append(time.perf_counter() - before)
    return len(sources) / min(taken)


def compare(name: str) -> dict[str, Any]:
    """Return what the page tells of a checkpoint, but for what its folder and catalogue tell."""
    task = name.partition(".")[2]
    pairs = find_dataset(default_registry(), task).load("test")
    sources = [pair.source for pair in pairs]
    translator = zoo.load(name, device="cpu")
    texts = translator.translate(sources, **search_of(name))
    by_length = {
        label: [len(places), measure(task, [texts[i] for i in places], [pairs[i] for i in places])]
        for label, places in groups(task, pairs).items()
    }
    weights = translator.checkpoint.model.parameters()
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "by_length": by_length,
        "greedy": speed(translator, sources),
        "beam": speed(translator, sources, beam=5),
    }


def draw(task: str, found: dict[str, Any]) -> None:
    """Draw each family's score by the sources' length."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "zoo"  # the same bytes each time
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for mark, model in zip("osD^", MODELS, strict=True):
        by_length = found[f"{model}.{task}"]["by_length"]
        axes.plot(list(by_length), [score for _, score in by_length.values()], mark + "-",
                  label=model.removesuffix("-tiny"))  # fmt: skip
    axes.set_xlabel("words of the source")
    axes.set_ylabel(MEASURES[task])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(TOP / "docs" / f"zoo-{task}.svg", metadata={"Date": None})


def main() -> None:
    """Compare all of them."""
    torch.set_num_threads(THREADS)
    found = {}
    for name in NAMES:
        found[name] = compare(name)
        print(name, json.dumps(found[name]), flush=True)
    FOUND.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for task in SEARCH:
        draw(task, found)


if __name__ == "__main__":
    main()
