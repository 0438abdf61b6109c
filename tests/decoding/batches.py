"""Check that batching does not change search results: `python -m tests.decoding.batches`.

Decodes 1,000 Multi30k sentences with each tiny model, by greedy and by beam search: one at a time,
and in batches of 7 and of 64, with and without sorting by length. An argument sets another
number of sentences. `tests/decoding/test_batches.py` uses fewer.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from tests.decoding.reference import Oracle, Rules, Small, reference_beam_search
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
BATCHINGS = tuple(itertools.product((7, 64), (False, True)))
"""Batch size, and whether sentences are first sorted by length."""


class Outcome(NamedTuple):
    """The result of a comparison.

    Attributes:
        compared: the number of compared translations.
        differ: the number of translations that differ.
        unexplained: the number of these that rounding does not explain. Rounding explains one if
            the rank scores in float64 differ by at most 1e-5, or if beam search in float64 keeps a
            prefix within 1e-5 of one that it drops.
        difference: the largest score difference between equal translations.
    """

    compared: int
    differ: int
    unexplained: int
    difference: float


def read_sentences(folder: Path, count: int) -> tuple[list[list[int]], int]:
    """Return sentences as token ids, and the size of their vocabulary."""
    lines = (folder / "multi30k" / "train.en").read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer.train(lines[:5000], "bpe", 2000)
    return tokenizer.encode(lines[:count]), tokenizer.size


def network(name: str, vocab: int) -> Seq2Seq:
    """Return a tiny model with random weights from a fixed seed."""
    torch.manual_seed(3)
    return create_model(name, source_vocab=vocab, target_vocab=vocab).eval()


def decode(
    model: Seq2Seq, sentences: Sequence[list[int]], size: int, ordered: bool, options: Search
) -> list[Hypothesis]:
    """Return each sentence's best hypothesis, decoded in batches of a size."""
    order = list(range(len(sentences)))
    if ordered:
        order.sort(key=lambda i: len(sentences[i]))
    best: dict[int, Hypothesis] = {}
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        source, mask = batch_sources([sentences[i] for i in rows])
        with torch.inference_mode():
            memory = model.encode(source, mask).memory
        hypotheses = search(Task(model, memory, mask), options)
        best.update(zip(rows, (several[0] for several in hypotheses), strict=True))
    return [best[i] for i in range(len(sentences))]


def compare(name: str, sentences: Sequence[list[int]], vocab: int, options: Search) -> Outcome:
    """Compare the results of every batching with those of one sentence at a time.

    Raises:
        AssertionError: the scores of equal translations differ by more than 1e-4.
    """
    model = network(name, vocab)
    alone = decode(model, sentences, 1, False, options)
    differ, unexplained, difference = 0, 0, 0.0
    for size, ordered in BATCHINGS:
        for i, hypothesis in enumerate(decode(model, sentences, size, ordered, options)):
            if hypothesis.tokens == alone[i].tokens:
                difference = max(difference, abs(hypothesis.score - alone[i].score))
                continue
            differ += 1
            ranks = [_rank(name, vocab, sentences[i], h, options) for h in (hypothesis, alone[i])]
            if abs(ranks[0] - ranks[1]) > 1e-5:
                unexplained += _closest_cut(name, vocab, sentences[i], options) > 1e-5
    assert difference <= 1e-4, (name, difference)
    return Outcome(len(BATCHINGS) * len(sentences), differ, unexplained, difference)


def _rank(
    name: str, vocab: int, source: list[int], hypothesis: Hypothesis, options: Search
) -> float:
    """Return a hypothesis's rank score in float64."""
    padded, mask = batch_sources([source])
    (scores,) = forced_log_probs(network(name, vocab).double(), padded, mask, [hypothesis.tokens])
    scores = scores if hypothesis.finished else scores[:-1]
    return sum(scores) / length_divisor(options, len(scores))


def _closest_cut(name: str, vocab: int, source: list[int], options: Search) -> float:
    """Return the smallest difference between a kept and a dropped prefix in float64."""
    oracle = Oracle(Small(network(name, vocab).double(), *batch_sources([source])), 0)
    cuts: list[float] = []
    assert options.max_length is not None
    reference_beam_search(oracle, Rules(options, options.max_length), cuts)
    return min(cuts)


def main() -> None:
    """Run every comparison and print its result; each takes minutes with 1,000 sentences."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    sentences, vocab = read_sentences(Path(os.environ["ZOO_DATA"]), count)
    for name, options in itertools.product(MODELS, SEARCHES):
        print(f"{name}, beam {options.beam}: ", end="", flush=True)  # shows what is running
        outcome = compare(name, sentences, vocab, options)
        print(
            f"{outcome.compared:,} compared, {outcome.differ} differ, {outcome.unexplained} "
            f"unexplained, scores differ by up to {outcome.difference:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
