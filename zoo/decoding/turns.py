"""The turns of a search that a GPU repeats: each reads a token a row, and chooses the next ones.

A turn is recorded with the step that it begins with, and all that it needs to remember is on the
GPU. The processor only starts it, and learns a turn later how many sentences are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.decoding.candidates import best_continuations, best_token
from zoo.decoding.choice import are_over
from zoo.decoding.ranking import not_a_number
from zoo.nn.contract import END, PADDING
from zoo.nn.cuda_graphs import fetch

UNFINISHED = 2.0**600
"""Factor on the rank of a hypothesis without an end token: any that has one comes before it."""


class Settings(NamedTuple):
    """What turns are recorded for, besides the shapes of a step.

    Attributes:
        positions: how many can be written.
        dtype: of the scores.
        n_best: how many hypotheses of a sentence are kept.
        by_position: whether a live hypothesis is ranked as if it ended at once.
    """

    positions: int
    dtype: torch.dtype
    n_best: int = 1
    by_position: bool = False


class Turns(ABC):
    """What the turns of a search read and write.

    Attributes:
        settings, sentences, beam: what they were recorded for.
        position: (1,) int64, of the token that is written next; the first is 1.
        lengths: (sentences,), the most tokens of each.
        facts: (2,) int64, how many sentences are not done, and how many scores are not numbers.
        recorded: what takes a turn in which some tokens may not be written.
    """

    def __init__(self, settings: Settings, sentences: int, beam: int, device: torch.device) -> None:
        self.settings, self.sentences, self.beam = settings, sentences, beam
        self.position = torch.ones(1, dtype=torch.long, device=device)
        self.lengths = torch.ones(sentences, dtype=torch.long, device=device)
        self.facts = torch.zeros(2, dtype=torch.long, device=device)
        self.recorded: dict[tuple[int, ...], Callable[[], None]] = {}

    @abstractmethod
    def choose(self, logits: Tensor, banned: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """Write the next token of each row, given its logits, (rows, V), without waiting.

        Return the tokens, and the rows that they continue, (rows,) each; None if these stay.
        """

    def memory(self) -> list[Tensor]:
        """Return what is read and written."""
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def take(
        self, banned: tuple[int, ...], most: int, before: Callable[[], None] | None,
        are_few: Callable[[int], bool],
    ) -> tuple[int, int]:  # fmt: skip
        """Take up to so many turns; return how many, and how many sentences are left.

        Args:
            banned: tokens that may not be written; turns have been recorded for them.
            most: 1 or more.
            before: is called before each.
            are_few: whether so few sentences are left that no more turns are to be taken.

        Raises:
            DecodingError: a score is not a number.
        """
        repeat, wait = self.recorded[banned], None
        taken, left = 0, self.sentences
        while taken < most and not are_few(left):
            if before is not None:
                before()
            repeat()
            taken, previous, wait = taken + 1, wait, fetch(self.facts)
            left = left if previous is None else _left(previous())
        return taken, left if wait is None else _left(wait())


def _left(facts: list[int]) -> int:
    left, broken = facts
    if broken:
        raise not_a_number()
    return left


class GreedyTurns(Turns):
    """Each row writes the best token.

    live: (sentences,) bool; score: (sentences,); written: (sentences, positions), `PADDING` where a
    row has ended.
    """

    def __init__(self, settings: Settings, sentences: int, beam: int, device: torch.device) -> None:
        super().__init__(settings, sentences, beam, device)
        self.live = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.score = torch.zeros(sentences, dtype=settings.dtype, device=device)
        self.written = self.lengths.new_zeros(sentences, settings.positions)

    def load(self, position: int, live: Tensor, score: Tensor, lengths: Tensor) -> None:
        """Begin at a position, with so many rows or fewer."""
        n = len(live)
        self.position.fill_(position)
        self.live.zero_()[:n] = live
        self.score.zero_()[:n] = score
        self.lengths.fill_(1)[:n] = lengths
        self.written.zero_()

    def choose(self, logits: Tensor, banned: tuple[int, ...]) -> tuple[Tensor, None]:
        """Write the best token of each live row."""
        token, gained = best_token(logits, banned)
        token = token.masked_fill(~self.live, PADDING)
        self.score.add_(gained.masked_fill(~self.live, 0.0))
        self.written.index_copy_(1, self.position - 1, token[:, None])
        self.live &= (token != END) & (self.position < self.lengths)
        self.position += 1
        self.facts.copy_(torch.stack([self.live.sum(), self.score.isnan().sum()]))
        return token, None


class BeamTurns(Turns):
    """Each sentence keeps the best continuations of its prefixes, and the best that have ended.

    score: (sentences, beam), −inf where a prefix is not live; written: (sentences, beam,
    positions); free: (sentences,), slots without a finished hypothesis; divisor: (sentences,), of
    the longest hypothesis; divisors: (positions + 1,), of each length; keys: (sentences, n), what
    hypotheses that have ended are ordered by, best first, −inf where there is none; ended_score:
    their scores; ended: (sentences, n, positions), their tokens, `PADDING` after the last one, and
    in those that ended before these turns.
    """

    def __init__(self, settings: Settings, sentences: int, beam: int, device: torch.device) -> None:
        super().__init__(settings, sentences, beam, device)
        (positions, dtype, n, _), long = settings, self.lengths
        self.score = torch.zeros(sentences, beam, dtype=dtype, device=device)
        self.written = long.new_zeros(sentences, beam, positions)
        self.free = torch.full_like(long, beam)
        self.divisor = torch.ones(sentences, dtype=torch.float32, device=device)
        self.divisors = torch.ones(positions + 1, dtype=torch.float64, device=device)
        self.keys = torch.zeros(sentences, n, dtype=torch.float64, device=device)
        self.ended_score = torch.zeros(sentences, n, dtype=dtype, device=device)
        self.ended = long.new_zeros(sentences, n, positions)
        self.slots = torch.arange(beam, device=device)
        self.first_row = torch.arange(0, sentences * beam, beam, device=device)[:, None]

    def load(
        self, written: Tensor, score: Tensor, lengths: Tensor, free: Tensor, divisor: Tensor,
        divisors: list[float], ranks: list[list[float]],
    ) -> None:  # fmt: skip
        """Begin with the prefixes of so many sentences or fewer, (sentences, width or less).

        ranks: of the hypotheses of each that have finished before, best first, up to n.
        """
        n, width, before = written.shape
        self.position.fill_(before + 1)
        self.written.zero_()[:n, :width, :before] = written
        self.score.fill_(-torch.inf)[:n, :width] = score
        self.lengths.fill_(1)[:n] = lengths
        self.free[:n], self.divisor[:n] = free, divisor
        self.divisors.copy_(torch.tensor(divisors, dtype=torch.float64))
        count = self.settings.n_best
        keys = [one + [-torch.inf] * (count - len(one)) for one in ranks]
        self.keys.fill_(-torch.inf)[:n] = torch.tensor(keys, dtype=torch.float64).to(free.device)
        self.ended.zero_()

    def choose(self, logits: Tensor, banned: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Append a token to the prefixes, as `_Beam.advance` does."""
        position, n = self.position, self.settings.n_best
        going_on = (self.score > -torch.inf).any(1)
        best, parent, token = best_continuations(logits, self.score, self.beam, banned)
        best = best.masked_fill(self.slots >= self.free[:, None], -torch.inf)
        is_end = token == END
        over = are_over(best, is_end, self.lengths, position)
        written = self.written.gather(1, parent[..., None].expand_as(self.written))
        written.index_copy_(2, position - 1, token[..., None])
        divisor = self.divisors.index_select(0, position)
        rank = best.double() / divisor
        key = torch.where(is_end, rank, (rank - 4) * UNFINISHED).masked_fill(~over, -torch.inf)
        keys, order = torch.cat([self.keys, key], 1).sort(dim=1, descending=True, stable=True)
        order = order[:, :n]
        self.keys.copy_(keys[:, :n])
        self.ended_score.copy_(torch.cat([self.ended_score, best], 1).gather(1, order))
        order = order[..., None].expand_as(self.ended)
        self.ended.copy_(torch.cat([self.ended, written], 1).gather(1, order))
        self.free -= (over & is_end).sum(1)
        live = best.masked_fill(over, -torch.inf)
        divisor = divisor.float() if self.settings.by_position else self.divisor
        alive = live.amax(1) / divisor > self.keys[:, -1].float()
        self.score.copy_(live.masked_fill(~alive[:, None], -torch.inf))
        self.written.copy_(written)
        self.position += 1
        broken = best.isnan().any(1) & going_on  # others may read what an earlier search has left
        self.facts.copy_(torch.stack([alive.sum(), broken.sum()]))
        return token.flatten(), (self.first_row + parent).flatten()
