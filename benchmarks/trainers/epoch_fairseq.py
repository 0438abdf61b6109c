"""fairseq in `benchmarks/epoch.py`: its dataset, batches and collater."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from common import SMOOTHING, Epoch, Sequences, measure_epoch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import LanguagePairDataset
from torch import Tensor
from with_fairseq import dictionary
from with_fairseq import make as make_model


def make(shape: str, sources: Sequences, targets: Sequences, most: int) -> Epoch:
    words = dictionary()
    sides = []
    for side in (sources, targets):
        tensors = [torch.tensor([*tokens, words.eos()]) for tokens in side]
        sides.append((tensors, np.array([len(tensor) for tensor in tensors])))
    (source, source_sizes), (target, target_sizes) = sides
    data = LanguagePairDataset(
        source, source_sizes, words, target, target_sizes, words, shuffle=True
    )
    np.random.seed(1)  # its shuffling uses the global generator
    # As in its trainer: `--max-tokens`, and batch sizes that are multiples of eight.
    batches = data.batch_by_size(
        data.ordered_indices(), max_tokens=most, required_batch_size_multiple=8
    )
    model = make_model(shape)[0]

    def collate(indices: Any) -> dict[str, Any]:
        return data.collater([data[int(i)] for i in indices])

    def loss(indices: Any) -> Tensor:
        sample = collate(indices)
        out = model(**sample["net_input"])
        scores = model.get_normalized_probs(out, log_probs=True)
        return label_smoothed_nll_loss(
            scores.view(-1, scores.shape[-1]), sample["target"].view(-1), SMOOTHING,
            ignore_index=words.pad(),
        )[0]  # fmt: skip

    real = [int(target_sizes[indices].sum()) for indices in batches]
    padded = [int(target_sizes[indices].max()) * len(indices) for indices in batches]
    return Epoch(model, list(batches), loss, real, padded)


if __name__ == "__main__":
    measure_epoch("fairseq", version("fairseq-fixed"), make)
