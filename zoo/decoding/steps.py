"""The steps of a search: each reads a token a row, or has been taken ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from torch import Tensor

from zoo.decoding.options import Search
from zoo.decoding.pipeline import Pipeline, States
from zoo.decoding.task import Task
from zoo.nn.contract import Memory, Seq2Seq, State

MOST_STEPS, MOST_OF_ROWS = 16, 512
"""How many a network may take at once, and of all rows together: nothing can end them early."""


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
        self, method: str, position: int, most: int
    ) -> tuple[Seq2Seq[Memory, State], list[int], int] | None:
        """Return what may take up to `most` steps from a position on, what is banned, and how many.

        None if no network may take more than one, or the bans change.
        """
        count = min(MOST_STEPS, MOST_OF_ROWS // max(len(self.token), 1), most)
        if count < 2 or not self.may_take_several or self.pipeline.changes_scores:
            return None
        if (network := self.task.taking(method)) is None:
            return None
        states = self.pipeline.update(self.states, self.token, {})
        lasting = self.pipeline.lasting_bans(position, states, network.target_vocab)
        if lasting is None:
            return None
        if self.task.on_step is not None:
            self.task.on_step()
        banned, positions = lasting
        return network, banned, min(count, positions)

    def may_go_ahead(self, position: int) -> bool:
        """Return whether a step can be taken before what this position leads to is known."""
        return position < self.longest and not self.pipeline.needs_attention

    def go_ahead(self, token: Tensor, state: State) -> None:
        """Take the next step; `take_step` will return its logits."""
        step = self.task.step(token, state, self.memory)
        self.ahead, self.state = step.logits, step.state
