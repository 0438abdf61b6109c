"""Compare the released checkpoints on the same data: the numbers and figures of `docs/zoo.md`.

    python cards/compare.py          about three minutes on two cores; ZOO_DATA names the corpora

Translations of the test sets are timed and scored by source length. `cards/comparison.json` stores
the results, `docs/zoo-multi30k-en-de.svg` plots those of captions, and `make docs` writes the
tables. With --draw, only the plot is made again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
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


def loss(by_length: dict[str, list[float]]) -> float:
    """Return the part of the score of the shortest sentences that the longest ones lose, in %."""
    scores = [value for _, value in by_length.values()]
    return 100 * (1 - scores[-1] / scores[0])


def plot(results: dict[str, Any]) -> None:
    """Plot the BLEU of each family by source length."""
    sys.path.insert(0, str(TOP))
    from docs.charts import Panel, line_charts

    groups = {m: results[f"{m}.multi30k-en-de"]["by_length"] for m in FAMILIES}
    labels = list(next(iter(groups.values())))
    with_attention = [loss(groups[model]) for model in FAMILIES if model != "seq2seq-tiny"]
    takeaway = (
        f"The longest sentences lose {loss(groups['seq2seq-tiny']):.0f}% of the BLEU without "
        f"attention, {min(with_attention):.0f} to {max(with_attention):.0f}% with it"
    )
    curves = {model.removesuffix("-tiny"): [value for _, value in group.values()]
              for model, group in groups.items()}  # fmt: skip
    panel = Panel(takeaway, "source length in words", "BLEU on Test 2016, English to German",
                  range(len(labels)), labels, curves)  # fmt: skip
    text = line_charts("Attention keeps long sentences translatable", [panel], 720)
    (TOP / "docs" / "zoo-multi30k-en-de.svg").write_text(text, encoding="utf-8")


def main() -> None:
    """Compare all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="only draw the stored results")
    if parser.parse_args().draw:
        plot(json.loads(COMPARISON.read_text(encoding="utf-8")))
        return
    torch.set_num_threads(THREADS)
    results = {}
    for name in (name for name in NAMES if name.partition(".")[2] in BOUNDS):
        results[name] = measure(name)
        print(name, json.dumps(results[name]), flush=True)
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    COMPARISON.write_text(text, encoding="utf-8")
    plot(results)


if __name__ == "__main__":
    main()
