"""The logits processors of one search, called together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.decoding.named import named_processor
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.processor import FOREVER, LogitsProcessor, Rows
from zoo.decoding.processors import FIRST, NotEmpty, Prefix
from zoo.decoding.ranking import best, ended
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.tree import Tree, gather

States = tuple[Tree, ...]
"""One state for each processor; `zoo.nn.tree.gather` reorders them with the rows."""


class Pipeline:
    """The processors that a task and its options need; immutable.

    Attributes:
        needs_attention: whether a processor reads the attention of each step.
        changes_scores: whether scores differ from the network's log probabilities by more than
            bans, so that a search must add up both.
        only_bans: whether the processors only ban tokens, once their states are empty.
        max_lengths: (sentences,), each sentence's maximum length, the end token included.
    """

    def __init__(self, task: Task[Any, Any], options: Search) -> None:
        self.options = options
        created = [kind.create(task, options) for kind in FIRST]
        named = [named_processor(task, text) for text in options.processors]
        self._names = {id(p): text for p, text in zip(named, options.processors, strict=True) if p}
        created += named
        created.append(Prefix.create(task, options))
        given = [p.max_lengths() for p in created if p]
        first, *others = [lengths for lengths in given if lengths is not None]
        self.max_lengths = torch.stack([first, *others]).amin(0) if others else first
        self.processors: tuple[LogitsProcessor[Any], ...] = tuple(
            p.within(self.max_lengths) if isinstance(p, NotEmpty) else p for p in created if p
        )
        self.needs_attention = any(p.needs_attention for p in self.processors)
        self.changes_scores = any(p.changes_scores for p in self.processors)
        self.only_bans = not (self.needs_attention or self.changes_scores) and all(
            p.only_bans for p in self.processors
        )

    def init_state(self, sentence: Tensor) -> States:
        """Return the states before the first token, of rows that belong to sentences, (rows,)."""
        return tuple(p.init_state(sentence) for p in self.processors)

    def update(self, states: States, token: Tensor, attention: Mapping[str, Tensor]) -> States:
        """Return the states after the network has read a token a row, (rows,)."""
        pairs = zip(self.processors, states, strict=True)
        return tuple(p.update(state, token, attention) for p, state in pairs)

    def bans(self, position: int, states: States, vocab: int) -> list[int] | None:
        """Return the tokens banned in all rows, or None if a processor needs all scores.

        Bans that are the same for all rows need no call of `process`, which by default is rare.

        Raises:
            DecodingError: a banned token is not in the vocabulary.
        """
        if self.changes_scores:
            return None
        banned: set[int] = set()
        for p, state in zip(self.processors, states, strict=True):
            more = p.bans(position, state)
            if more is None:
                return None
            self._check(p, more, vocab)
            banned.update(more)
        return sorted(banned) if len(banned) < vocab else None

    def lasting_bans(
        self, position: int, states: States, vocab: int, least: int
    ) -> tuple[list[int], int] | None:
        """Return what `bans` returns, and for how many positions, this one included.

        None if it is not known to last for the `least` number of positions.

        Raises:
            DecodingError: a banned token is not in the vocabulary.
        """
        pairs = zip(self.processors, states, strict=True)
        count = min((p.bans_last(position, state) for p, state in pairs), default=FOREVER)
        count = max(count, 1)
        if count < least or (banned := self.bans(position, states, vocab)) is None:
            return None
        return banned, count

    def process(self, states: States, rows: Rows) -> Tensor:
        """Return the scores of the next token, (rows, V), −inf for banned tokens.

        Raises:
            DecodingError: a banned token is not in the vocabulary, or no first token is allowed.
        """
        scores = rows.log_probs
        for p, state in zip(self.processors, states, strict=True):
            self._check(p, p.bans(rows.position, state) or (), scores.shape[1])
            scores = p.process(scores, rows, state)
        if rows.position == 1 and bool(dead_ends(scores).any()):
            raise self._no_token(states, rows)
        return scores

    def _check(self, p: LogitsProcessor[Any], banned: Collection[int], vocab: int) -> None:
        check_banned(banned, vocab, self._names.get(id(p), ""))

    def _no_token(self, states: States, rows: Rows) -> DecodingError:
        """Return the error for rows of which every first token is banned; it names who did it."""
        scores, last = rows.log_probs, ""
        for p, state in zip(self.processors, states, strict=True):
            scores = p.process(scores, rows, state)
            if bool(dead_ends(scores).any()):
                last = self._names.get(id(p), "")
                break
        return DecodingError(
            "no translation is possible",
            "the search options ban every token at the first position"
            + (f", the last of them by the processor {last}" if last else ""),
            "Change its options, or leave it out" if last
            else "Ban fewer tokens, or raise `--max-length`",
        )  # fmt: skip

    def penalties(self, states: States, sentence: Tensor) -> Tensor:
        """Return what is added to the rank of each row, (rows,), 0 or less."""
        total = torch.zeros_like(sentence, dtype=torch.float32)
        for p, state in zip(self.processors, states, strict=True):
            penalty = p.penalty(state, sentence)
            total = total if penalty is None else total + penalty
        return total

    def hypotheses(
        self,
        written: Tensor,
        score: Tensor,
        log_prob: Tensor,
        states: States,
        sentence: Tensor,
        over: Tensor,
    ) -> list[Hypothesis]:
        """Return the hypotheses of the rows that are over.

        Args:
            written: (rows, position) int64, the tokens written, the end token included.
            score, log_prob: (rows,), the sums of the processed and of the network's log
                probabilities.
            states: the states of the rows.
            sentence: (rows,) int64, the sentence of the task that each belongs to.
            over: (rows,) bool.
        """
        rows = over.nonzero()[:, 0]
        penalty = self.penalties(gather(states, rows), sentence[rows])
        columns = (written[rows], score[rows], log_prob[rows], penalty)
        ends = zip(*(column.tolist() for column in columns), strict=True)
        return [ended(self.options, *end) for end in ends]

    def best(self, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        """Return the n best hypotheses of one sentence, best first."""
        return best(hypotheses, self.options)


def check_banned(banned: Collection[int], vocab: int, name: str = "") -> None:
    """Make sure that banned tokens are in the vocabulary; `name` is the processor's, if it has one.

    Raises:
        DecodingError: one is not.
    """
    outside = sorted(token for token in banned if not 0 <= token < vocab)
    if outside:
        raise DecodingError(
            f"processor {name} cannot ban token {outside[0]}" if name
            else f"cannot ban token {outside[0]}",
            f"the vocabulary's ids are 0 to {vocab - 1:,}",
            "Change its options, or leave it out" if name else "",
        )  # fmt: skip


def dead_ends(scores: Tensor) -> Tensor:
    """Return which rows no token may continue, (rows,) bool; their hypotheses are cut."""
    return scores.amax(1) == -torch.inf
