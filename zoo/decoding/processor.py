"""A logits processor: one rule that changes the score of a token, ranks a hypothesis, or cuts it.

A processor sees log probabilities rather than raw logits: these are comparable between networks and
defined for an ensemble, whereas a network may add any constant to its logits. A banned token's
probability is not distributed among the others.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Self

import torch
from torch import Tensor
from typing_extensions import TypeVar

from zoo.decoding.options import Search
from zoo.decoding.task import Task
from zoo.nn.tree import Tree

S = TypeVar("S", bound=Tree, default=tuple[()])
"""What a processor remembers of each row; an empty tuple for nothing."""

FOREVER = sys.maxsize
"""Positions, where bans stay the same to the end."""


class Rows(NamedTuple):
    """The hypotheses that are being written, one a row.

    Attributes:
        sentence: (rows,) int64, the sentence of the task that each belongs to.
        written: (rows, position − 1) int64, the tokens written so far.
        log_probs: (rows, V), the network's log probabilities of the next token.
    """

    sentence: Tensor
    written: Tensor
    log_probs: Tensor

    @property
    def position(self) -> int:
        """The position of the next token; the first is 1."""
        return self.written.shape[1] + 1


class LogitsProcessor(ABC, Generic[S]):
    """One rule of a search. It is immutable: what it remembers of each row is a state, passed in.

    A processor overrides what it needs: `bans` for tokens that no row may write at a position,
    `process` for rules that depend on the row, `penalty` to change the rank of hypotheses. One that
    overrides both `bans` and `process` returns None from `bans` where `process` must run.
    """

    needs_attention: ClassVar[bool] = False
    """Whether `update` reads the attention of each step."""

    changes_scores: ClassVar[bool] = False
    """Whether `process` changes the scores of tokens that it does not ban."""

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor that the fields of a search ask for, or None."""
        return None

    @property
    def only_bans(self) -> bool:
        """Whether it only bans tokens: its empty state stays empty, and it ranks nothing."""
        kind, base = type(self), LogitsProcessor
        return kind.update is base.update and kind.penalty is base.penalty

    def init_state(self, sentence: Tensor) -> S | tuple[()]:
        """Return the state before the first token, of rows that belong to sentences, (rows,)."""
        return ()

    def update(
        self, state: S | tuple[()], token: Tensor, attention: Mapping[str, Tensor]
    ) -> S | tuple[()]:
        """Return the state after the network has read a token a row, (rows,)."""
        return state

    def bans(self, position: int, state: S | tuple[()]) -> Collection[int] | None:
        """Return the tokens banned in all rows at a position, or None if `process` must run.

        By default no token, or None where a subclass overrides `process`.
        """
        return () if type(self).process is LogitsProcessor.process else None

    def bans_last(self, position: int, state: S | tuple[()]) -> int:
        """Return for how many positions from this one on `bans` is the same, whatever is written.

        A search may then take so many steps at once. 0 if it is not known, as by default where a
        subclass overrides `bans` or `process`; `sys.maxsize` to the end.
        """
        kind, base = type(self), LogitsProcessor
        return FOREVER if kind.bans is base.bans and kind.process is base.process else 0

    def process(self, scores: Tensor, rows: Rows, state: S | tuple[()]) -> Tensor:
        """Return new scores of the next token, (rows, V): −inf bans; others must not exceed 0."""
        banned = self.bans(rows.position, state)
        if not banned:
            return scores
        index = torch.tensor([*banned], device=scores.device)
        return scores.index_fill(1, index, -torch.inf)

    def penalty(self, state: S | tuple[()], sentence: Tensor) -> Tensor | None:
        """Return what is added to the rank of each row, (rows,), 0 or less; None for nothing."""
        return None

    def max_lengths(self) -> Tensor | None:
        """Return each sentence's maximum length, (sentences,); None for no maximum."""
        return None
