"""Whether batch mates change what a search finds: `python -m tests.decoding.batches`.

Runs 1,000 Multi30k sentences through each tiny model, alone, in batches of 7 and of 64, sorted by
length and not, greedily and with a beam; `tests/decoding/test_batches.py` does the same with fewer.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from tests.decoding.reference import Oracle, Small, slow_beam
from zoo.data.batches import batch_sources
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.forced import forced_log_probs
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.ranking import length_divisor
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.nn.build import create_model
from zoo.nn.contract import Seq2Seq
from zoo.registry.registry import default_registry

MODELS = [name for name in sorted(default_registry().models) if name.endswith("-tiny")]
SEARCHES = (Search(max_length=16), Search(beam=4, length_penalty=1.0, max_length=16))
WAYS = tuple(itertools.product((7, 64), (False, True)))
"""Sentences in a batch, and whether they are sorted by length first."""


class Outcome(NamedTuple):
    """How many texts were compared, how many differ, for how many of these float64 does not say
    why, and the largest difference of scores of the same text.

    It does if it puts the two within 1e-5; or if a search in float64 itself once kept a prefix of
    the beam that was within 1e-5 of one that it did not, since these may lead to other ends.
    """

    compared: int
    differ: int
    apart: int
    off: float


def sources(folder: Path, count: int) -> tuple[list[list[int]], int]:
    """Return sentences as token ids, and the size of their vocabulary."""
    lines = (folder / "multi30k" / "train.en").read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer.train(lines[:5000], "bpe", 2000)
    return tokenizer.encode(lines[:count]), tokenizer.size


def network(name: str, vocab: int) -> Seq2Seq:
    """Return a tiny model of random weights."""
    torch.manual_seed(3)
    return create_model(name, source_vocab=vocab, target_vocab=vocab).eval()


def found(
    model: Seq2Seq, given: Sequence[list[int]], size: int, ordered: bool, options: Search
) -> list[Hypothesis]:
    """Return each sentence's best hypothesis, searched in batches of a size."""
    order = list(range(len(given)))
    if ordered:
        order.sort(key=lambda i: len(given[i]))
    best: dict[int, Hypothesis] = {}
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        source, mask = batch_sources([given[i] for i in rows])
        with torch.inference_mode():
            memory = model.encode(source, mask).memory
        hypotheses = search(Task(model, memory, mask), options)
        best.update(zip(rows, (several[0] for several in hypotheses), strict=True))
    return [best[i] for i in range(len(given))]


def compare(name: str, given: Sequence[list[int]], vocab: int, options: Search) -> Outcome:
    """Compare every way to batch with each sentence alone.

    Raises:
        AssertionError: scores of one text differ by over 1e-4.
    """
    model = network(name, vocab)
    alone = found(model, given, 1, False, options)
    differ, apart, off = 0, 0, 0.0
    for size, ordered in WAYS:
        for i, one in enumerate(found(model, given, size, ordered, options)):
            if one.tokens == alone[i].tokens:
                off = max(off, abs(one.score - alone[i].score))
                continue
            differ += 1
            ranks = [_rank(name, vocab, given[i], h, options) for h in (one, alone[i])]
            if abs(ranks[0] - ranks[1]) > 1e-5:
                apart += _closest_cut(name, vocab, given[i], options) > 1e-5
    assert off <= 1e-4, (name, off)
    return Outcome(len(WAYS) * len(given), differ, apart, off)


def _rank(name: str, vocab: int, source: list[int], one: Hypothesis, options: Search) -> float:
    """Return what float64 ranks a hypothesis by."""
    padded, mask = batch_sources([source])
    (scores,) = forced_log_probs(network(name, vocab).double(), padded, mask, [one.tokens])
    scores = scores if one.finished else scores[:-1]
    return sum(scores) / length_divisor(options, len(scores))


def _closest_cut(name: str, vocab: int, source: list[int], options: Search) -> float:
    """Return how near float64's beam came to keeping another prefix than it did."""
    oracle = Oracle(Small(network(name, vocab).double(), *batch_sources([source])), 0)
    cuts: list[float] = []
    assert options.max_length is not None
    slow_beam(oracle, options, options.max_length, cuts)
    return min(cuts)


def main() -> None:
    """Run the whole comparison and print it."""
    given, vocab = sources(Path(os.environ["ZOO_DATA"]), 1000)
    for name, options in itertools.product(MODELS, SEARCHES):
        outcome = compare(name, given, vocab, options)
        told = f"{outcome.compared:,} compared, {outcome.differ} differ, {outcome.apart} apart"
        told += f", scores to {outcome.off:.1e}"
        sys.stdout.write(f"{name}, beam {options.beam}: {told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
