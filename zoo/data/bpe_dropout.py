"""BPE-dropout: words are cut in other ways in each epoch (Provilkov et al. 2020)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from zoo.data.batches import Corpus, Sequences
from zoo.data.tokenizer import Tokenizer
from zoo.nn.contract import BEGIN, UNKNOWN
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe

WAYS = 32
"""Most ways in which one word is cut in an epoch; it stands in each as often as chance has it."""


class Cutter:
    """Cuts words into a tokenizer's subwords, of whose merges some are left out.

    Args:
        tokenizer: of the kind `bpe`.
        chance: that a merge is left out, of those that could be made next.
    """

    def __init__(self, tokenizer: Tokenizer, chance: float) -> None:
        self.tokenizer, self.chance = tokenizer, chance
        self.tokens = [tokenizer.token(i) for i in range(tokenizer.size)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges())}

    def words(self, ids: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield the words of a sequence, each as its ids; its begin and end by themselves.

        About an unknown token nobody knows what was a word; there, each token is one.
        """
        if UNKNOWN in ids:
            yield from ((i,) for i in ids)
            return
        place = int(ids[0] == BEGIN)
        yield from ((i,) for i in ids[:place])
        for word in self.tokenizer.words(ids[place:-1]):
            end, left = place, len(word)
            while left:
                left -= len(self.tokens[ids[end]])
                end += 1
            yield tuple(ids[place:end])
            place = end
        yield (ids[-1],)

    def cut(self, word: tuple[int, ...], chooser: random.Random) -> list[int]:
        """Return a word cut anew (Provilkov et al. 2020, algorithm 1).

        Of the merges that could be made, each is left out with the chance given, and the first of
        the others in the tokenizer's order is made; and so on, until none is left.
        """
        if word[0] <= UNKNOWN:
            return list(word)
        parts = [sign for i in word for sign in self.tokens[i]]
        while True:
            ranked = [(self.ranks.get(pair), place) for place, pair in enumerate(pairwise(parts))]
            merges = sorted((rank, place) for rank, place in ranked if rank is not None)
            kept = (place for _, place in merges if chooser.random() >= self.chance)
            place = next(kept, None)
            if place is None:
                return [self.ids[part] for part in parts]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]


class Words:
    """One side of a corpus as words, which can be cut anew. It is held in memory."""

    def __init__(self, sequences: Sequences, cutter: Cutter, limit: int | None) -> None:
        self.cutter, self.limit = cutter, limit
        known: dict[tuple[int, ...], int] = {}
        which: list[int] = []
        counts = [0]
        for begin, end in pairwise(sequences.starts.tolist()):
            ids = sequences.tokens[begin:end].tolist()
            which.extend(known.setdefault(word, len(known)) for word in cutter.words(ids))
            counts.append(len(which))
        self.known = list(known)
        self.which = np.array(which, dtype=np.int64)
        self.starts = np.array(counts, dtype=np.int64)
        self.others = np.minimum(np.bincount(self.which, minlength=len(known)), WAYS)
        """How many ways each word is cut in beside its usual one."""

    def recut(self, seed: int, epoch: int) -> Sequences:
        """Return the sequences as seed and epoch have them cut.

        One that would be longer than the limit is cut as ever.
        """
        chooser = random.Random(f"{seed} {epoch}")
        cuts: list[list[int]] = []  # each word's usual one, then the others
        for word, count in zip(self.known, self.others.tolist(), strict=True):
            cuts.append(list(word))
            cuts.extend(self.cutter.cut(word, chooser) for _ in range(count))
        table = Sequences.of(cuts)
        lengths = np.diff(table.starts)
        ends = (self.others + 1).cumsum()
        usual = (ends - self.others - 1)[self.which]
        drawn = np.random.default_rng((seed, epoch)).integers(self.others[self.which])
        taken = usual + 1 + drawn
        if self.limit is not None:
            long = np.add.reduceat(lengths[taken], self.starts[:-1]) > self.limit
            taken = np.where(np.repeat(long, np.diff(self.starts)), usual, taken)
        return _laid_out(table, taken, self.starts)


def _laid_out(
    table: Sequences, taken: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> Sequences:
    """Return sequences of the table's entries `taken`, the i-th being those from starts[i]."""
    lengths = np.diff(table.starts)[taken]
    ends = np.concatenate([[0], lengths.cumsum()])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    tokens = table.tokens[np.repeat(table.starts[taken], lengths) + within]
    return Sequences(tokens, ends[starts])


def bpe_dropout(
    recipe: Recipe, corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer], limits: LengthLimits
) -> Callable[[int], Corpus] | None:
    """Return what makes an epoch's corpus by its number, if the recipe leaves out merges."""
    if not recipe.bpe_dropout:
        return None
    source, target = (
        Words(sequences, Cutter(tokenizer, recipe.bpe_dropout), limit)
        for sequences, tokenizer, limit in zip(
            (corpus.source, corpus.target), tokenizers, limits, strict=True
        )
    )

    def recut(epoch: int) -> Corpus:
        seed = recipe.seed
        return Corpus(source.recut(seed, epoch), target.recut(seed, epoch), corpus.left_out)

    return recut
