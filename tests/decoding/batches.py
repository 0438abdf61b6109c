"""Whether the batch changes a search's result: `python -m tests.decoding.batches`.

Decodes 1,000 Multi30k sentences with each tiny model, alone, in batches of 7 and of 64, sorted by
length and not, by greedy and by beam search; `tests/decoding/test_batches.py` uses fewer sentences.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from tests.decoding.reference import Oracle, Rules, Small, slow_beam
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
    """The result of a comparison.

    Attributes:
        compared: the number of texts compared.
        differ: how many of their translations differ.
        unexplained: how many of these rounding does not explain. It does if float64 ranks the two
            within 1e-5, or if a beam search in float64 once kept a prefix within 1e-5 of one that
            it dropped.
        difference: the largest difference between scores of the same translation.
    """

    compared: int
    differ: int
    unexplained: int
    difference: float


def sources(folder: Path, count: int) -> tuple[list[list[int]], int]:
    """Return sentences as token ids, and the size of their vocabulary."""
    lines = (folder / "multi30k" / "train.en").read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer.train(lines[:5000], "bpe", 2000)
    return tokenizer.encode(lines[:count]), tokenizer.size


def network(name: str, vocab: int) -> Seq2Seq:
    """Return a tiny model with random weights."""
    torch.manual_seed(3)
    return create_model(name, source_vocab=vocab, target_vocab=vocab).eval()


def decode(
    model: Seq2Seq, given: Sequence[list[int]], size: int, ordered: bool, options: Search
) -> list[Hypothesis]:
    """Return each sentence's best hypothesis, decoded in batches of a size."""
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
    """Compare every batching with each sentence alone.

    Raises:
        AssertionError: scores of one translation differ by more than 1e-4.
    """
    model = network(name, vocab)
    alone = decode(model, given, 1, False, options)
    differ, unexplained, difference = 0, 0, 0.0
    for size, ordered in WAYS:
        for i, one in enumerate(decode(model, given, size, ordered, options)):
            if one.tokens == alone[i].tokens:
                difference = max(difference, abs(one.score - alone[i].score))
                continue
            differ += 1
            ranks = [_rank(name, vocab, given[i], h, options) for h in (one, alone[i])]
            if abs(ranks[0] - ranks[1]) > 1e-5:
                unexplained += _closest_cut(name, vocab, given[i], options) > 1e-5
    assert difference <= 1e-4, (name, difference)
    return Outcome(len(WAYS) * len(given), differ, unexplained, difference)


def _rank(name: str, vocab: int, source: list[int], one: Hypothesis, options: Search) -> float:
    """Return a hypothesis's rank score in float64."""
    padded, mask = batch_sources([source])
    (scores,) = forced_log_probs(network(name, vocab).double(), padded, mask, [one.tokens])
    scores = scores if one.finished else scores[:-1]
    return sum(scores) / length_divisor(options, len(scores))


def _closest_cut(name: str, vocab: int, source: list[int], options: Search) -> float:
    """Return the smallest difference between a kept and a dropped prefix in float64."""
    oracle = Oracle(Small(network(name, vocab).double(), *batch_sources([source])), 0)
    cuts: list[float] = []
    assert options.max_length is not None
    slow_beam(oracle, Rules(options, options.max_length), cuts)
    return min(cuts)


def main() -> None:
    """Run the whole comparison and print its results."""
    given, vocab = sources(Path(os.environ["ZOO_DATA"]), 1000)
    for name, options in itertools.product(MODELS, SEARCHES):
        outcome = compare(name, given, vocab, options)
        sys.stdout.write(
            f"{name}, beam {options.beam}: {outcome.compared:,} compared, {outcome.differ} differ, "
            f"{outcome.unexplained} unexplained, scores differ by up to {outcome.difference:.1e}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
