"""The zoo in `benchmarks/epoch.py`; with --prepare it writes the tokens of the corpus."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from zoo.cli.process import configure

configure()  # as in the zoo's command line, before torch is imported

from common import SMOOTHING, VOCAB, Epoch, Sequences, measure_epoch
from torch import Tensor
from with_zoo import make as make_model

import zoo
from zoo.data.batches import Corpus, LeftOut, shuffled_batches
from zoo.data.batches import Sequences as Padded
from zoo.data.datasets import find_dataset
from zoo.data.tokenizer import Tokenizer
from zoo.registry.registry import default_registry
from zoo.training.objective import teacher_forcing


def prepare(file: Path) -> None:
    """Write the tokens of Multi30k, English to German."""
    pairs = find_dataset(default_registry(), "multi30k-en-de").load("train")
    sides = []
    for side in (0, 1):
        texts = [pair[side] for pair in pairs]
        sides.append(Tokenizer.train(iter(texts), "bpe", VOCAB).encode(texts))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(sides), encoding="utf-8")


def make(shape: str, sources: Sequences, targets: Sequences, most: int) -> Epoch:
    begin, end = 1, 2
    corpus = Corpus(
        Padded.of([[*tokens, end] for tokens in sources]),
        Padded.of([[begin, *tokens, end] for tokens in targets]),
        LeftOut(),
    )
    batches = list(shuffled_batches(corpus, most, None, 1, 0))
    model = make_model(shape)[0]

    def loss(indices: Tensor) -> Tensor:
        batch = corpus.batch(indices)  # padded every time, as in training
        return teacher_forcing(model, batch, SMOOTHING).total

    real = [corpus.predicted(indices) for indices in batches]
    longest = [int(corpus.target.lengths[indices].max()) - 1 for indices in batches]
    padded = [long * len(indices) for long, indices in zip(longest, batches, strict=True)]
    return Epoch(model, batches, loss, real, padded)


if __name__ == "__main__":
    if sys.argv[1] == "--prepare":
        prepare(Path(sys.argv[2]))
    else:
        measure_epoch("zoo", zoo.__version__, make)
