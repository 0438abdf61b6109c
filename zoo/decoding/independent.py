"""Decoding in which hypotheses do not compete: each chooses its next token by itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from zoo.decoding.candidates import argmax, ban, best_token
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.pipeline import dead_ends
from zoo.decoding.processor import Rows
from zoo.decoding.ranking import best, ended
from zoo.decoding.step_graphs import recorded
from zoo.decoding.steps import Steps
from zoo.decoding.task import Task
from zoo.decoding.turns import GreedyTurns
from zoo.nn.contract import BEGIN, END, PADDING, Memory, State
from zoo.nn.cuda_graphs import fetch
from zoo.nn.faults import greedy_steps, init_state
from zoo.nn.tree import gather

Choose = Callable[[Tensor, int, Tensor], Tensor]
"""Chooses a token for each row, (rows,), from the scores (rows, V), the position, and which
hypothesis each row is, (rows,)."""


@torch.inference_mode()
def decode_independently(
    task: Task[Memory, State], options: Search, choose: Choose | None = None
) -> list[list[Hypothesis]]:
    """Write `n_best` hypotheses for each sentence; return them best first.

    Each token is chosen by `choose`; without it, each is the best one, of equal ones the lowest.
    """
    with recorded(task) as repeated:
        batch = _Batch(repeated, options)
        while batch.finished < len(batch.live):
            batch.advance(choose)
            batch.drop_ended()
    width = options.n_best
    return [
        best((batch.ended[first + i] for i in range(width)), options)
        for first in range(0, len(task) * width, width)
    ]


class _Batch(Steps[Memory, State]):
    """The hypotheses that are still written, one a row; `n_best` adjacent ones for each sentence.

    row: (rows,), the hypothesis that each row writes; live: (rows,), false once it has ended;
    finished: how many of the rows have; written: for each position, the token of every hypothesis,
    0 where it has ended; score, log_prob: (rows,), the sums of the processed and of the network's
    log probabilities.
    """

    def __init__(self, task: Task[Memory, State], options: Search) -> None:
        super().__init__(task, options)
        device, width = task.mask.device, options.n_best
        self.row = torch.arange(len(task) * width, device=device)
        self.count = len(self.row)
        self.memory = task.memory if width == 1 else gather(task.memory, self._sentences())
        self.state = init_state(task.model, self.memory)
        self.states = self.pipeline.init_state(self._sentences())
        self.lengths = self.pipeline.max_lengths.repeat_interleave(width)
        lengths = self.pipeline.max_lengths.tolist()
        self.shortest, self.longest = min(lengths, default=0), max(lengths, default=0)
        self.token = torch.full_like(self.row, BEGIN)
        self.score = self.log_prob = torch.zeros_like(self.row, dtype=torch.float32)
        self.live = torch.ones_like(self.row, dtype=torch.bool)
        self.finished = 0
        self.written: list[Tensor] = []
        self.ended: dict[int, Hypothesis] = {}

    def advance(self, choose: Choose | None) -> None:
        """Write one more token of every hypothesis, and record those that end."""
        pipeline, position = self.pipeline, len(self.written) + 1
        self.check_length(position)
        if choose is None and (self._take_turns(position) or self._take_steps(position)):
            return
        logits, banned = self.take_step(position)
        dead = None
        if choose is None and banned is not None:
            self.token, gained = best_token(logits, banned)
            log_prob = gained
        else:
            gained, log_prob, dead = self._choose(choose, logits, position, banned)
        self.score = self.score + gained
        self.log_prob = self.log_prob + log_prob if pipeline.changes_scores else self.score
        self._write()
        over = self._over(position)
        if dead is not None:
            over |= dead
        over = over & self.live if self.finished else over
        if bool(over.any()):
            self._end(over)

    def _over(self, position: int) -> Tensor:
        """Return which rows end at a position, by the end token or by their length, (rows,)."""
        over = self.token == END
        return over if position < self.shortest else over | (position >= self.lengths)

    def _take_steps(self, position: int) -> bool:
        """Write several tokens of every hypothesis at once; return whether the network could."""
        if self.finished:
            return False
        ready = self.for_several("greedy_steps", position, self.shortest - position + 1)
        if ready is None:
            return False
        network, banned, count = ready
        steps = greedy_steps(network, self.token, self.state, self.memory, count, banned)
        if steps is None:
            self.may_take_several = False
            return False
        self.state = steps.state
        for token, score in zip(steps.tokens.unbind(1), steps.scores.unbind(1), strict=True):
            self.states = self.pipeline.update(self.states, self.token, {})
            self.token, self.score = token, self.score + score
            self._write()
        self.log_prob = self.score
        over = self._over(len(self.written))
        if bool(over.any()):
            self._end(over)
        return True

    def _take_turns(self, position: int) -> bool:
        """Write tokens until a good part of the rows has ended, if a GPU repeats how."""

        def load(turns: GreedyTurns) -> None:
            turns.load(position, self.live, self.score, self.lengths)

        ready = self.take_turns(GreedyTurns, position, 1, load)
        if ready is None:
            return False
        (turns, taken, _), count = ready, len(self.live)
        for self.token in turns.written[:count, position - 1 : position - 1 + taken].T.clone():
            self._write()
        self.score = self.log_prob = turns.score[:count].clone()
        self._end(self.live & ~turns.live[:count])
        return True

    def _write(self) -> None:
        """Add the token of every row to what has been written."""
        column = self.token
        if self.row.shape[0] < self.count:
            zeros = torch.zeros(self.count, dtype=torch.long, device=self.row.device)
            column = zeros.index_copy(0, self.row, self.token)
        self.written.append(column)

    def _choose(
        self, choose: Choose | None, logits: Tensor, position: int, banned: list[int] | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Choose the next token by all scores; return its score and log probability.

        The last result marks rows that no token may continue, (rows,) bool, if there may be any.
        """
        log_probs = scores = logits.log_softmax(1)  # a new tensor, which may be written to
        dead = None
        if banned is None:
            rows = Rows(self._sentences(), self._tokens(self.row), log_probs)
            scores = self.pipeline.process(self.states, rows)
            dead = dead_ends(scores)
        else:
            ban(scores, banned)
        self.token = argmax(scores) if choose is None else choose(scores, position, self.row)
        gained = scores.gather(1, self.token[:, None])[:, 0]
        log_prob = gained
        if self.pipeline.changes_scores:
            log_prob = log_probs.gather(1, self.token[:, None])[:, 0]
        if dead is not None:  # such a hypothesis is cut before this position
            self.token = self.token.masked_fill(dead, PADDING)
            gained, log_prob = gained.masked_fill(dead, 0.0), log_prob.masked_fill(dead, 0.0)
        return gained, log_prob, dead

    def drop_ended(self) -> None:
        """Drop the rows that have ended, once they are a good part of the batch."""
        ended = self.finished
        if not ended or ended == len(self.live) or ended < self.task.leave_at * len(self.live):
            return
        rows = self.live.nonzero()[:, 0]
        self.finished = 0
        self.row, self.token, self.live = self.row[rows], self.token[rows], self.live[rows]
        self.score, self.log_prob = self.score[rows], self.log_prob[rows]
        self.lengths, self.states = self.lengths[rows], gather(self.states, rows)
        self.memory, self.state = gather(self.memory, rows), gather(self.state, rows)

    def _end(self, over: Tensor) -> None:
        """Record the hypotheses of some rows, (rows,) bool, which are live."""
        self.live = self.live & ~over
        index = over.nonzero()[:, 0]
        self.finished += len(index)
        row, states = self.row[index], gather(self.states, index)
        penalty = self.pipeline.penalties(states, self._sentences()[index])
        ranked = torch.stack([self.score[index], self.log_prob[index], penalty], 1)
        parts = [fetch(part) for part in (row, self._tokens(row), ranked)]
        for number, written, end in zip(*(wait() for wait in parts), strict=True):
            self.ended[number] = ended(self.options, written, *end)

    def _sentences(self) -> Tensor:
        """Return the index in the task of each row's sentence, (rows,)."""
        return self.row // self.options.n_best

    def _tokens(self, hypotheses: Tensor) -> Tensor:
        """Return what some hypotheses have written, (hypotheses, position)."""
        if not self.written:
            return hypotheses.new_empty(len(hypotheses), 0)
        return torch.stack(self.written, 1)[hypotheses]
