"""JoeyNMT in `benchmarks/epoch.py`: its sampler of batches by tokens, and padding as its own."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, cast

import torch
from common import Epoch, Sequences, measure_epoch
from joeynmt.datasets import TokenBatchSampler
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import RandomSampler
from with_joeynmt import make as make_model

PADDING, BEGIN, END = 1, 2, 3


class Pairs:
    """The corpus as its samplers read it: number, source and target."""

    def __init__(self, sources: Sequences, targets: Sequences) -> None:
        self.sources, self.targets = sources, targets
        self.sequence_sampler = None

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> tuple[int, list[int], list[int]]:
        return index, self.sources[index], self.targets[index]


def make(shape: str, sources: Sequences, targets: Sequences, most: int) -> Epoch:
    model = cast(Any, make_model(shape)[0])
    generator = torch.Generator().manual_seed(1)
    sampler = RandomSampler(cast(Any, Pairs(sources, targets)), generator=generator)
    by_tokens = TokenBatchSampler(sampler, batch_size=most, drop_last=False, seed=1)
    batches = [batch for batch in by_tokens]  # noqa: C416  # `list` would ask for its length

    def pad(rows: list[list[int]]) -> Tensor:
        return pad_sequence([torch.tensor(row) for row in rows], True, PADDING)

    def loss(indices: list[int]) -> Tensor:
        source = pad([[*sources[i], END] for i in indices])
        target = pad([[BEGIN, *targets[i], END] for i in indices])
        # Its batches drop the last position of the inputs, as here, and sort by nothing.
        inputs, labels = target[:, :-1], target[:, 1:]
        lengths = (source != PADDING).sum(1)
        logits = model._encode_decode(
            src=source, trg_input=inputs, src_mask=(source != PADDING)[:, None],
            src_length=lengths, trg_mask=(inputs != PADDING)[:, None],
        )[0]  # fmt: skip
        return cast(Tensor, model.loss_function(torch.log_softmax(logits, -1), trg=labels))

    real = [sum(len(targets[i]) + 1 for i in indices) for indices in batches]
    padded = [max(len(targets[i]) + 1 for i in indices) * len(indices) for indices in batches]
    return Epoch(cast(nn.Module, model), batches, loss, real, padded)


if __name__ == "__main__":
    measure_epoch("joeynmt", version("joeynmt"), make)
