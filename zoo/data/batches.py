"""Pairs of token sequences, stored flat, in batches of similar length and bounded size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from zoo.data.tokenizer import Tokenizer
from zoo.nn.contract import BEGIN, END, PADDING
from zoo.registry.declarations import Pair
from zoo.registry.parameters import LengthLimits


class Batch(NamedTuple):
    """Pairs of similar length.

    `source` is (rows, m) int64, each row ending with the end token, or feature vectors, (rows, m,
    dim) float32; `source_mask` (rows, m) bool;
    `target` (rows, n) int64, from the begin token to the end token; `indices` (rows,) int64, the
    pairs' indices in the corpus.
    """

    source: Tensor
    source_mask: Tensor
    target: Tensor
    indices: Tensor

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; the copy to a GPU overlaps with computation."""
        if device.type == "cuda":
            return Batch(*(part.pin_memory().to(device, non_blocking=True) for part in self))
        return Batch(*(part.to(device) for part in self))


class Sequences:
    """Concatenated sequences of token ids or feature vectors; sequence i begins at `starts[i]`.

    Both arrays may be memory-mapped files: only `lengths`, four bytes per sequence, is in memory.
    """

    def __init__(self, tokens: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> None:
        self.tokens, self.starts = tokens, starts
        self.lengths = torch.from_numpy(np.diff(starts).astype(np.int32))

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Concatenate sequences."""
        lengths = np.array([0, *(len(s) for s in sequences)], dtype=np.int64)
        if sequences and isinstance(sequences[0], np.ndarray):
            return cls(np.concatenate(sequences), lengths.cumsum())
        return cls(np.array([t for s in sequences for t in s], dtype=np.int32), lengths.cumsum())

    def __len__(self) -> int:
        return len(self.lengths)

    def pad(self, indices: Tensor) -> Tensor:
        """Return the sequences at `indices`, padded on the right.

        Token ids are (rows, longest) int64, feature vectors (rows, longest, dim) float32.
        """
        rows = indices.numpy()
        lengths = self.lengths[indices].numpy()
        positions = np.arange(int(lengths.max()))
        real = positions < lengths[:, None]
        kind = np.int64 if self.tokens.ndim == 1 else np.float32
        padded = np.full((*real.shape, *self.tokens.shape[1:]), PADDING, dtype=kind)
        padded[real] = self.tokens[(self.starts[rows][:, None] + positions)[real]]
        return torch.from_numpy(padded)

    def mask(self, indices: Tensor) -> Tensor:
        """Return which positions of `pad` are real, (rows, longest) bool."""
        lengths = self.lengths[indices]
        return torch.arange(int(lengths.max()), device="cpu") < lengths[:, None]


class Batches(Sequence[Tensor]):
    """The pair indices of each batch of an epoch.

    Batch i is the slice of `ranked` that begins at `cuts[order[i]]` and ends at the next cut.
    """

    def __init__(self, ranked: Tensor, cuts: list[int], order: Sequence[int]) -> None:
        self.ranked, self.cuts, self.order = ranked, cuts, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        cut = self.order[index]
        return self.ranked[self.cuts[cut] : self.cuts[cut + 1]]


@dataclass(frozen=True)
class LeftOut:
    """The number of pairs excluded from training, by reason."""

    empty: int = 0
    long: int = 0

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.empty + other.empty, self.long + other.long)

    def in_words(self) -> str:
        """Return the numbers that are not 0, such as `2 too long and 1 empty`."""
        words = [f"{self.long:,} too long"] * bool(self.long)
        return " and ".join(words + [f"{self.empty:,} empty"] * bool(self.empty))


def with_end(source: Sequence[int]) -> Sequence[int]:
    """Return a source's ids with the end token; feature vectors have none."""
    return source if isinstance(source, np.ndarray) else [*source, END]


def without_end(source: Sequence[int]) -> Sequence[int]:
    """Return what `with_end` was given."""
    return source if isinstance(source, np.ndarray) else source[:-1]


IdPair = tuple[Sequence[int], list[int]]
"""The token ids of a source, or its feature vectors, and the token ids of its target."""


def encode_pairs(
    pairs: Sequence[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    limits: LengthLimits,
) -> Iterator[IdPair | LeftOut]:
    """Yield each pair's ids with their special tokens, or the reason why it is excluded."""
    encoded = zip(
        source_tokenizer.encode([pair.source for pair in pairs]),
        target_tokenizer.encode([pair.target for pair in pairs]),
        strict=True,
    )
    for pair, (source, target) in zip(pairs, encoded, strict=True):
        if not pair.source.strip() or not pair.target.strip():
            yield LeftOut(empty=1)
            continue
        closed = with_end(source)
        if exceeds(len(closed), limits.source) or exceeds(len(target) + 2, limits.target):
            yield LeftOut(long=1)
        else:
            yield closed, [BEGIN, *target, END]


class Corpus:
    """The token ids of all pairs of a split."""

    def __init__(
        self, source: Sequences, target: Sequences, left_out: LeftOut, fingerprint: str = ""
    ) -> None:
        self.source, self.target, self.left_out = source, target, left_out
        self._fingerprint = fingerprint

    @classmethod
    def encode(
        cls,
        pairs: Sequence[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        limits: LengthLimits,
    ) -> Corpus:
        """Tokenize pairs; those with an empty side or beyond the length limits are excluded."""
        sources, targets = [], []
        left_out = LeftOut()
        for pair in encode_pairs(pairs, source_tokenizer, target_tokenizer, limits):
            if isinstance(pair, LeftOut):
                left_out += pair
            else:
                sources.append(pair[0])
                targets.append(pair[1])
        return cls(Sequences.of(sources), Sequences.of(targets), left_out)

    def __len__(self) -> int:
        return len(self.source)

    def fingerprint(self) -> str:
        """Return a hash of all tokens, which identifies the corpus."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for side in (self.source, self.target):
                vectors = side.tokens.ndim > 1
                values = side.tokens if vectors else side.tokens.astype(np.int32)
                for part in (side.starts.astype(np.int64), values):
                    digest.update(part.tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def predicted(self, indices: Tensor) -> int:
        """Return the number of target tokens that a batch predicts: all but the begin tokens."""
        return int(self.target.lengths[indices].sum()) - len(indices)

    def batch(self, indices: Tensor) -> Batch:
        """Return the pairs at `indices` as a batch."""
        source, mask = self.source.pad(indices), self.source.mask(indices)
        return Batch(source, mask, self.target.pad(indices), indices)

    def batches(
        self, tokens: int, sentences: int | None = None, order: torch.Generator | None = None
    ) -> Batches:
        """Return the indices of each batch.

        Args:
            tokens: the most tokens of a batch: rows × longest side, padding included.
            sentences: the number of rows; replaces `tokens`.
            order: shuffles the pairs of equal length, and the batches; None keeps the pairs sorted
                by length.
        """
        count = len(self)
        shuffled = torch.arange(count, device="cpu")
        if order is not None:
            shuffled = torch.randperm(count, generator=order, device="cpu")
        longest = torch.maximum(self.source.lengths, self.target.lengths)
        # By the longer side, then by source, so that both sides of a batch are similar in length.
        key = longest.long() * (int(self.source.lengths.max()) + 1) + self.source.lengths
        ranked = shuffled[key[shuffled].argsort(stable=True)]
        cuts = _cuts(longest.bincount().tolist(), tokens, sentences)
        if order is None:
            return Batches(ranked, cuts, range(len(cuts) - 1))
        drawn = torch.randperm(len(cuts) - 1, generator=order, device="cpu")
        return Batches(ranked, cuts, drawn.tolist())

    def padding(self, batches: Batches) -> float:
        """Return the share of padding among all tokens of the batches."""
        real = total = 0
        rows = np.diff(batches.cuts)
        for side in (self.source, self.target):
            lengths = side.lengths[batches.ranked].numpy()
            real += int(lengths.sum(dtype=np.int64))
            total += int((np.maximum.reduceat(lengths, batches.cuts[:-1]) * rows).sum())
        return 1 - real / total


def _cuts(counts: Sequence[int], tokens: int, sentences: int | None) -> list[int]:
    """Return the start of each batch of sequences ranked by length, and the end of the last one.

    `counts[n]` is the number of sequences of length n. They are added to the current batch, one
    length after the other, until it is full.
    """
    cuts, position = [0], 0
    for length, count in enumerate(counts):
        end = position + count
        rows = max(sentences or tokens // max(length, 1), 1)
        # A batch that began with shorter sequences may already be full at this length.
        if count and position > cuts[-1] and position + 1 - cuts[-1] > rows:
            cuts.append(position)
        if count:
            cuts.extend(range(cuts[-1] + rows, end, rows))
        position = end
    return [*cuts, position]


def exceeds(length: int, limit: int | None) -> bool:
    """Return whether a length is above the limit; None is no limit."""
    return limit is not None and length > limit


def batch_sources(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Append end tokens to sources and pad them: (rows, m) int64, with their mask, bool.

    Feature vectors are padded only: (rows, m, dim) float32.
    """
    if len(sources) == 1 and not isinstance(sources[0], np.ndarray):  # an eighth of pad's time
        alone = torch.tensor([with_end(sources[0])], device="cpu")
        return alone, torch.ones_like(alone, dtype=torch.bool)
    sequences = Sequences.of([with_end(source) for source in sources])
    rows = torch.arange(len(sources), device="cpu")
    return sequences.pad(rows), sequences.mask(rows)


def rounded(x: Tensor, limit: int | None) -> Tensor:
    """Pad (rows, length, …) with zeros to a length of 8, 16, 24, …, or to the longest allowed."""
    length = -(-x.shape[1] // 8) * 8
    if limit is not None:
        length = max(min(length, limit), x.shape[1])
    padded = x.new_zeros(len(x), length, *x.shape[2:])
    padded[:, : x.shape[1]] = x
    return padded


def shuffled_batches(
    corpus: Corpus, tokens: int, sentences: int | None, seed: int, epoch: int
) -> Batches:
    """Return an epoch's batches, in an order that depends only on seed and epoch."""
    order = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return corpus.batches(tokens, sentences, order)


def evaluation_batches(corpus: Corpus, tokens: int) -> Iterator[Batch]:
    """Yield all pairs in batches, sorted by length."""
    for indices in corpus.batches(tokens):
        yield corpus.batch(indices)
