"""Compare the released checkpoints on the same data: the numbers and figures of `docs/zoo.md`.

    python cards/compare.py          about three minutes on two cores; ZOO_DATA names the corpora

Translations of the test sets are timed and scored by source length. `cards/comparison.json` stores
the results, `docs/zoo-TASK.svg` plots them, and `make docs` writes the tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import sacrebleu
import torch
from released import NAMES, TOP, search_of
from tasks import FAMILIES

import zoo
from zoo.data.datasets import find_dataset
from zoo.registry.declarations import Pair
from zoo.registry.registry import default_registry

COMPARISON = TOP / "cards" / "comparison.json"
BOUNDS = {"numbers-en-fr": (6, 7), "multi30k-en-de": (8, 10, 12, 14, 17)}
"""Longest source of each length group in words; the last group has no bound."""
LABELS = {"numbers-en-fr": "exact match", "multi30k-en-de": "BLEU"}
THREADS, REPEATS = 2, 2


def score(task: str, texts: Sequence[str], pairs: Sequence[Pair]) -> float:
    """Return BLEU, or for numbers the percentage of exact matches."""
    references = [pair.target for pair in pairs]
    if task == "numbers-en-fr":
        return 100 * sum(a == b for a, b in zip(texts, references, strict=True)) / len(texts)
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def length_groups(task: str, pairs: Sequence[Pair]) -> dict[str, list[int]]:
    """Return the indices of the pairs, grouped by source length in words."""
    bounds = BOUNDS[task]
    labels = [f"to {bounds[0]}"]
    for low, high in itertools.pairwise(bounds):
        labels.append(f"{low + 1}–{high}" if high > low + 1 else str(high))
    labels.append(f"over {bounds[-1]}")
    groups: dict[str, list[int]] = {label: [] for label in labels}
    for index, pair in enumerate(pairs):
        words = len(pair.source.split())
        groups[labels[sum(words > bound for bound in bounds)]].append(index)
    return groups


def speed(translator: zoo.Translator, sources: list[str], **options: Any) -> float:
    """Return sentences per second of the fastest run."""
    seconds = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        translator.translate(sources, **options)
        seconds.append(time.perf_counter() - before)
    return len(sources) / min(seconds)


def measure(name: str) -> dict[str, Any]:
    """Return the size, the scores by source length and the speed of a checkpoint."""
    task = name.partition(".")[2]
    pairs = find_dataset(default_registry(), task).load("test")
    sources = [pair.source for pair in pairs]
    translator = zoo.load(name, device="cpu")
    texts = translator.translate(sources, **search_of(name))
    by_length = {
        label: [len(group), score(task, [texts[i] for i in group], [pairs[i] for i in group])]
        for label, group in length_groups(task, pairs).items()
    }
    weights = translator.checkpoint.model.parameters()
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "by_length": by_length,
        "greedy": speed(translator, sources, beam=1),
        "beam": speed(translator, sources, beam=5),
    }


def plot(task: str, results: dict[str, Any]) -> None:
    """Plot the score of each family by source length."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "zoo"  # the same bytes every time
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for marker, model in zip("osD^", FAMILIES, strict=True):
        by_length = results[f"{model}.{task}"]["by_length"]
        axes.plot(list(by_length), [value for _, value in by_length.values()], marker + "-",
                  label=model.removesuffix("-tiny"))  # fmt: skip
    axes.set_xlabel("source length in words")
    axes.set_ylabel(LABELS[task])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(TOP / "docs" / f"zoo-{task}.svg", metadata={"Date": None})


def main() -> None:
    """Compare all of them."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    torch.set_num_threads(THREADS)
    results = {}
    for name in (name for name in NAMES if name.partition(".")[2] in BOUNDS):
        results[name] = measure(name)
        print(name, json.dumps(results[name]), flush=True)
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    COMPARISON.write_text(text, encoding="utf-8")
    for task in BOUNDS:
        plot(task, results)


if __name__ == "__main__":
    main()
