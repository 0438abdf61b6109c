"""Pairs of token sequences, kept flat, in batches of bounded tokens and like lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.config import LengthLimits
from zoo.datasets import Pair
from zoo.model import BEGIN, END, PADDING
from zoo.text import Tokenizer


class Batch(NamedTuple):
    """Pairs of like lengths.

    source: (rows, m) int64, each ending with the end token; source_mask: (rows, m) bool;
    target: (rows, n) int64, from the begin token to the end token; indices: which pairs.
    """

    source: Tensor
    source_mask: Tensor
    target: Tensor
    indices: Tensor

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(part.to(device, non_blocking=True) for part in self))


class Sequences:
    """Sequences of token ids in one flat tensor, `starts[i]` telling where sequence i begins."""

    def __init__(self, tokens: Tensor, starts: Tensor) -> None:
        self.tokens, self.starts = tokens, starts
        self.lengths = starts[1:] - starts[:-1]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Lay sequences end to end."""
        lengths = torch.tensor([0, *(len(s) for s in sequences)])
        tokens = torch.tensor([t for s in sequences for t in s], dtype=torch.int32)
        return cls(tokens, lengths.cumsum(0))

    def __len__(self) -> int:
        return len(self.lengths)

    def pad(self, indices: Tensor) -> Tensor:
        """Return the sequences at `indices` as (rows, longest) int64, padded on the right."""
        lengths = self.lengths[indices]
        places = torch.arange(int(lengths.max()))
        real = places < lengths[:, None]
        padded = torch.full(real.shape, PADDING)
        where = (self.starts[indices][:, None] + places)[real]
        padded[real] = self.tokens[where].long()
        return padded


@dataclass(frozen=True)
class LeftOut:
    """How many pairs were left out of training, and why."""

    empty: int = 0
    long: int = 0


class Corpus:
    """Token ids of all pairs of a split."""

    def __init__(self, source: Sequences, target: Sequences, left_out: LeftOut) -> None:
        self.source, self.target, self.left_out = source, target, left_out

    @classmethod
    def encode(
        cls,
        pairs: Sequence[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        limits: LengthLimits,
    ) -> Corpus:
        """Tokenize pairs; an empty side, or a length over the limits, is counted and left out."""
        sources, targets = [], []
        empty = long = 0
        encoded = zip(
            source_tokenizer.encode([pair.source for pair in pairs]),
            target_tokenizer.encode([pair.target for pair in pairs]),
            strict=True,
        )
        for pair, (source, target) in zip(pairs, encoded, strict=True):
            if not pair.source.strip() or not pair.target.strip():
                empty += 1
            elif too_long(len(source) + 1, limits.source) or too_long(
                len(target) + 2, limits.target
            ):
                long += 1
            else:
                sources.append([*source, END])
                targets.append([BEGIN, *target, END])
        return cls(Sequences.of(sources), Sequences.of(targets), LeftOut(empty, long))

    def __len__(self) -> int:
        return len(self.source)

    def fingerprint(self) -> str:
        """Return a hash of all the tokens: equal for equal corpora alone."""
        digest = hashlib.sha256()
        for side in (self.source, self.target):
            for part in (side.starts, side.tokens):
                digest.update(part.numpy().tobytes())
        return digest.hexdigest()

    def batch(self, indices: Tensor) -> Batch:
        """Return the pairs at `indices` as a batch."""
        source = self.source.pad(indices)
        return Batch(source, source != PADDING, self.target.pad(indices), indices)

    def batches(
        self, tokens: int, sentences: int | None = None, order: torch.Generator | None = None
    ) -> list[Tensor]:
        """Return the indices of each batch.

        Args:
            tokens: rows × longest side, padding included, is at most this.
            sentences: rows, in place of `tokens`.
            order: shuffles pairs of one length among themselves, and the batches; None leaves
                the pairs sorted by length.
        """
        count = len(self)
        shuffled = torch.randperm(count, generator=order) if order else torch.arange(count)
        longest = torch.maximum(self.source.lengths, self.target.lengths)
        # By the longer side, then by source: both sides of a batch are near one length.
        key = longest * (int(self.source.lengths.max()) + 1) + self.source.lengths
        ranked = shuffled[key[shuffled].argsort(stable=True)]
        cuts = self._cuts(longest[ranked].tolist(), tokens, sentences)
        batches = [ranked[start:end] for start, end in pairwise(cuts)]
        if order is None:
            return batches
        return [batches[i] for i in torch.randperm(len(batches), generator=order).tolist()]

    @staticmethod
    def _cuts(lengths: list[int], tokens: int, sentences: int | None) -> list[int]:
        """Return where batches of ascending lengths begin, and the end."""
        cuts = [0]
        for place, length in enumerate(lengths):
            rows = place + 1 - cuts[-1]
            full = rows > sentences if sentences else rows * length > tokens
            if full and rows > 1:
                cuts.append(place)
        return [*cuts, len(lengths)]

    def padding(self, batches: Sequence[Tensor]) -> float:
        """Return the share of padding among all the tokens of the batches."""
        real = total = 0
        for indices in batches:
            for side in (self.source, self.target):
                lengths = side.lengths[indices]
                real += int(lengths.sum())
                total += int(lengths.max()) * len(indices)
        return 1 - real / total


def too_long(length: int, limit: int | None) -> bool:
    """Tell whether a length is over a limit, if there is one."""
    return limit is not None and length > limit


def batch_sources(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return token ids without end tokens as padded (rows, m) with ends, and their mask."""
    padded = Sequences.of([[*source, END] for source in sources]).pad(torch.arange(len(sources)))
    return padded, padded != PADDING


def shuffled_batches(
    corpus: Corpus, tokens: int, sentences: int | None, seed: int, epoch: int
) -> list[Tensor]:
    """Return an epoch's batches, in an order that seed and epoch alone decide."""
    order = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return corpus.batches(tokens, sentences, order)


def evaluation_batches(corpus: Corpus, tokens: int) -> Iterator[Batch]:
    """Yield all pairs once, sorted by length."""
    for indices in corpus.batches(tokens):
        yield corpus.batch(indices)
