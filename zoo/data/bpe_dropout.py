"""BPE-dropout: words are segmented differently in each epoch (Provilkov et al. 2020)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from zoo.data.batches import Sequences
from zoo.data.tokenizer import Tokenizer
from zoo.nn.contract import BEGIN, UNKNOWN

SEGMENTATIONS = 32
"""Most segmentations that are drawn for one word in an epoch."""


class Segmenter:
    """Segments words into a BPE tokenizer's subwords, skipping some of its merges.

    Args:
        tokenizer: a tokenizer of the kind `bpe`.
        dropout: the probability that a merge is skipped, among those that could be made next.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        self.tokenizer, self.dropout = tokenizer, dropout
        self.tokens = [tokenizer.token(i) for i in range(tokenizer.size)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges())}

    def words(self, ids: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield the words of a sequence, each as its ids; begin and end tokens by themselves.

        An unknown token hides where words end: in a sequence with one, each token is a word.
        """
        if UNKNOWN in ids:
            yield from ((i,) for i in ids)
            return
        start = int(ids[0] == BEGIN)
        yield from ((i,) for i in ids[:start])
        for word in self.tokenizer.words(ids[start:-1]):
            end, characters = start, len(word)
            while characters:
                characters -= len(self.tokens[ids[end]])
                end += 1
            yield tuple(ids[start:end])
            start = end
        yield (ids[-1],)

    def segment(self, word: tuple[int, ...], rng: random.Random) -> list[int]:
        """Return a new segmentation of a word (Provilkov et al. 2020, algorithm 1).

        Each merge that could be made is skipped with probability `dropout`, and the first of the
        others in the tokenizer's order is made; this is repeated until no merge is left.
        """
        if word[0] <= UNKNOWN:
            return list(word)
        parts = [character for i in word for character in self.tokens[i]]
        while True:
            ranked = [(self.ranks.get(pair), index) for index, pair in enumerate(pairwise(parts))]
            merges = sorted((rank, index) for rank, index in ranked if rank is not None)
            kept = (index for _, index in merges if rng.random() >= self.dropout)
            index = next(kept, None)
            if index is None:
                return [self.ids[part] for part in parts]
            parts[index : index + 2] = [parts[index] + parts[index + 1]]


class WordSequences:
    """One side of a corpus as words, which can be segmented again. It is held in memory."""

    def __init__(self, sequences: Sequences, segmenter: Segmenter, limit: int | None) -> None:
        self.segmenter, self.limit = segmenter, limit
        vocabulary: dict[tuple[int, ...], int] = {}
        words: list[int] = []
        starts = [0]
        for begin, end in pairwise(sequences.starts.tolist()):
            ids = sequences.tokens[begin:end].tolist()
            words.extend(vocabulary.setdefault(w, len(vocabulary)) for w in segmenter.words(ids))
            starts.append(len(words))
        self.vocabulary = list(vocabulary)
        self.words = np.array(words, dtype=np.int64)
        """The words of all sequences, as indices into the vocabulary."""
        self.starts = np.array(starts, dtype=np.int64)
        counts = np.bincount(self.words, minlength=len(vocabulary))
        self.draws = np.minimum(counts, SEGMENTATIONS)
        """How many segmentations are drawn for each word of the vocabulary."""

    def segmented(self, seed: int, epoch: int) -> Sequences:
        """Return the sequences in the segmentation of an epoch.

        A sequence that would be longer than the limit keeps its usual segmentation.
        """
        rng = random.Random(f"{seed} {epoch}")
        segmentations: list[list[int]] = []  # of each word the usual one, then those drawn
        for word, count in zip(self.vocabulary, self.draws.tolist(), strict=True):
            segmentations.append(list(word))
            segmentations.extend(self.segmenter.segment(word, rng) for _ in range(count))
        table = Sequences.of(segmentations)
        lengths = np.diff(table.starts)
        ends = (self.draws + 1).cumsum()
        usual = (ends - self.draws - 1)[self.words]
        drawn = np.random.default_rng((seed, epoch)).integers(self.draws[self.words])
        rows = usual + 1 + drawn
        if self.limit is not None:
            long = np.add.reduceat(lengths[rows], self.starts[:-1]) > self.limit
            rows = np.where(np.repeat(long, np.diff(self.starts)), usual, rows)
        return _concatenated(table, rows, self.starts)


def _concatenated(
    table: Sequences, rows: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> Sequences:
    """Return sequences made of rows of a table; sequence i is rows[starts[i] : starts[i + 1]]."""
    lengths = np.diff(table.starts)[rows]
    ends = np.concatenate([[0], lengths.cumsum()])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    tokens = table.tokens[np.repeat(table.starts[rows], lengths) + within]
    return Sequences(tokens, ends[starts])
