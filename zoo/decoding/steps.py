"""The steps of a search: each reads a token a row, or has been taken ahead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from torch import Tensor

from zoo.decoding.options import Search
from zoo.decoding.pipeline import Pipeline, States
from zoo.decoding.step_graph import capacity, row_count
from zoo.decoding.step_graphs import Recorded, rounded
from zoo.decoding.task import Task
from zoo.decoding.turns import Settings, Turns
from zoo.errors import DecodingError
from zoo.nn.contract import Memory, Seq2Seq, State
from zoo.nn.tree import leaves

MOST_STEPS, MOST_OF_ROWS = 16, 512
"""How many a network may take at once, and of all rows together: nothing can end them early."""

FEWEST_TURNS = 4
"""For fewer positions with the same bans, turns are not recorded."""

Turning = TypeVar("Turning", bound=Turns)

Bound = tuple[float, tuple[str, str, str]]
"""The most tokens of a target, its end token included; and the error of more: what, why, advice."""

_bound: ContextVar[Bound | None] = ContextVar("bound", default=None)


@contextlib.contextmanager
def bounded(most: float, error: tuple[str, str, str]) -> Iterator[None]:
    """End a search by steps within this context once all that it can return is too long.

    Other than at a maximum length, nothing is cut, which would make another hypothesis the best.

    Args:
        most: tokens, the end token included.
        error: what, why and advice of the error.
    """
    token = _bound.set((most, error))
    try:
        yield
    finally:
        _bound.reset(token)


class Steps(Generic[Memory, State]):
    """What the rows of a search have read.

    memory; state: the network's; states: those of the logits processors; token: (rows,), what each
    row reads next; longest: the length of the longest hypothesis; ahead: the logits of the next
    step, (rows, V), if it has been taken; may_take_several: whether the network may take several
    steps at once, as it could so far.
    """

    memory: Memory
    state: State
    states: States
    token: Tensor
    longest: int

    def __init__(self, task: Task[Memory, State], options: Search) -> None:
        self.task, self.options = task, options
        self.pipeline = Pipeline(task, options)
        self.ahead: Tensor | None = None
        self.may_take_several = not self.pipeline.needs_attention
        self.bound = _bound.get()

    def check_length(self, position: int) -> None:
        """Check a position that a sentence reaches of which no hypothesis has finished.

        Raises:
            DecodingError: it is beyond the bound.
        """
        if self.bound is not None and position > self.bound[0]:
            raise DecodingError(*self.bound[1])

    def take_step(self, position: int) -> tuple[Tensor, list[int] | None]:
        """Read the tokens; return the logits, and the tokens that are banned in all rows.

        They are None if a processor needs all scores.
        """
        attention: Mapping[str, Tensor] = {}
        logits, self.ahead = self.ahead, None
        if logits is None:
            needs_attention = self.pipeline.needs_attention
            step = self.task.step(self.token, self.state, self.memory, needs_attention)
            self.state, logits, attention = step.state, step.logits, step.attention
        self.states = self.pipeline.update(self.states, self.token, attention)
        return logits, self.pipeline.bans(position, self.states, logits.shape[1])

    def for_several(
        self, method: str, position: int, most: int, least: int = 1
    ) -> tuple[Seq2Seq[Memory, State], list[int], int] | None:
        """Return what may take up to `most` steps from a position on, what is banned, and how many.

        None if the network cannot, if rows differ in what is banned, or if that changes within
        `least` steps.
        """
        count = min(MOST_STEPS, MOST_OF_ROWS // max(len(self.token), 1), most)
        if count < least or not self.may_take_several or self.pipeline.changes_scores:
            return None
        if (network := self.task.taking(method)) is None:
            return None
        states = self.pipeline.update(self.states, self.token, {})
        lasting = self.pipeline.lasting_bans(position, states, network.target_vocab, least)
        if lasting is None:
            return None
        if self.task.on_step is not None:
            self.task.on_step()
        banned, positions = lasting
        return network, banned, min(count, positions)

    def take_turns(
        self, kind: type[Turning], position: int, beam: int, load: Callable[[Turning], object],
        **settings: Any,
    ) -> tuple[Turning, int, int] | None:  # fmt: skip
        """Let a GPU take turns from a position on, until a good part of the sentences is done.

        Return them, how many were taken, and how many sentences are left; None if it cannot.

        Args:
            kind: of turns.
            position: of the token that is written next.
            beam: rows of each sentence in a turn; at the first position, each has one so far.
            load: lets new turns begin with the rows of this search.
            settings: fields of `Settings`, besides those that follow from the position.
        """
        recorded = self.task.model
        if not isinstance(recorded, Recorded):
            return None
        vocab = recorded.target_vocab
        if (banned := self._bans_of_turns(position, vocab, ())) is None:
            return None
        needed = Settings(capacity(position - 1), recorded.dtype, **settings)
        given, is_first = (self.token, self.state, self.memory), position == 1
        turns = recorded.begin(kind, needed, beam, given, is_first=is_first)
        if turns is None:
            return None
        load(turns)
        taken, left, count = 0, turns.sentences, row_count(self.memory)
        most = min(needed.positions, self.longest) - position + 1

        def are_few(left: int) -> bool:
            is_part = count - left >= self.task.leave_at * count
            return left == 0 or (is_part and rounded(left) < turns.sentences)

        while banned is not None and recorded.record(turns, banned[0]):
            room = min(most, recorded.room(self.state)) - taken  # known when a turn is recorded
            if room < 1:
                break
            tokens, lasting = banned
            of_turns = tokens, min(lasting, room), self.task.on_step, are_few
            more, left = turns.take(*of_turns)
            taken += more
            if taken == most or are_few(left):
                break
            banned = self._bans_of_turns(position + taken, vocab, turns.recorded)
        if not taken:
            return None
        self.state = recorded.after(self.state, taken)
        return turns, taken, left

    def _bans_of_turns(
        self, position: int, vocab: int, recorded: Collection[tuple[int, ...]]
    ) -> tuple[tuple[int, ...], int] | None:
        """Return what no row may write from a position on, and for how many positions.

        None if rows differ, or after the first position, if these bans have not been recorded and
        last for too few positions.
        """
        if not self.pipeline.only_bans or leaves(self.states):
            return None
        if position == 1:
            first = self.pipeline.bans(1, self.states, vocab)
            return None if first is None else (tuple(first), 1)
        lasting = self.pipeline.lasting_bans(position, self.states, vocab, least=2)
        if lasting is None:
            return None
        banned, most = tuple(lasting[0]), lasting[1]
        return (banned, most) if most >= FEWEST_TURNS or banned in recorded else None
