"""Beam search.

A beam of k has k slots for each sentence. At each step every live prefix is continued with every
token, and the best continuations take the free slots; of equal ones, those of the earlier slot,
then of the lower token id. A continuation with the end token is finished and keeps its slot, so
that a sentence with f finished hypotheses continues with k − f live ones. A sentence is done when
none is live, or when none can still be among the n best. A beam of one is greedy search, and a
beam with a slot for every prefix finds what an exhaustive search finds.
"""

from __future__ import annotations

import bisect
from typing import Generic

import torch
from torch import Tensor

from zoo.decoding.candidates import Candidates, best_continuations
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.pipeline import Pipeline, dead_ends
from zoo.decoding.processor import Rows
from zoo.decoding.ranking import best, ended, length_divisor, not_a_number
from zoo.decoding.task import LEAVE_FRACTION, Task
from zoo.nn.contract import BEGIN, END, Memory, State
from zoo.nn.faults import init_state
from zoo.nn.tree import gather


@torch.inference_mode()
def beam_search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Return up to n best hypotheses of each sentence, best first."""
    beam = _Beam(task, options)
    while len(beam.alive):
        beam.advance()
    if not all(beam.ended):
        raise not_a_number()
    return [best(hypotheses, options) for hypotheses in beam.ended]


class _Beam(Generic[Memory, State]):
    """The unfinished sentences, each with `width` adjacent rows.

    alive: (sentences,), their indices in the task; score: (sentences, width), −inf for slots
    without a live prefix; log_prob: (sentences, width), the network's log probability; written:
    (sentences, width, position − 1), the live prefixes; state: the network's state; states: those
    of the logits processors; rows: (sentences, width), their numbers.
    """

    def __init__(self, task: Task[Memory, State], options: Search) -> None:
        self.task, self.options = task, options
        self.pipeline = Pipeline(task, options)
        device, count = task.mask.device, len(task)
        self.memory = task.memory
        self.state = init_state(task.model, task.memory)
        self.alive = torch.arange(count, device=device)
        self.states = self.pipeline.init_state(self.alive)
        self.lengths = self.pipeline.max_lengths
        self.free = torch.full((count,), options.beam, device=device)
        self.slots = torch.arange(options.beam, device=device)
        self.rows = torch.arange(count, device=device)[:, None]
        self.score = self.log_prob = torch.zeros(count, 1, device=device)
        self.written = torch.full((count, 1, 0), BEGIN, device=device)
        self.token = torch.full((count,), BEGIN, device=device)
        self.ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        self.ranks: list[list[float]] = [[] for _ in range(count)]  # of finished ones, rising
        # The rank that a live hypothesis must exceed, and the divisor of the longest one.
        self.threshold = torch.full((count,), -torch.inf, device=device)
        divisors = [length_divisor(options, length) for length in self.lengths.tolist()]
        self.divisor = torch.tensor(divisors, device=device)

    def advance(self) -> None:
        """Append one token to every live prefix."""
        position = self.written.shape[2] + 1
        (score, parent, token), log_prob = self._continuations(position)
        if any(self.ended):  # finished hypotheses occupy slots: the last continuations are dropped
            taken = self.slots[: score.shape[1]] >= self.free[:, None]
            score = score.masked_fill(taken, -torch.inf)
        rows = self.rows[:, :1] + parent  # the row that each slot continues
        written = torch.cat([self.written.flatten(0, 1)[rows], token[..., None]], 2)
        ends = token == END
        over = (ends | (position >= self.lengths)[:, None]) & (score > -torch.inf)
        if bool(over.any()):
            self._end(over, written, score, score if log_prob is None else log_prob, rows)
            self.free = self.free - (over & ends).sum(1)
            score = score.masked_fill(over, -torch.inf)
        highest = score.amax(1)
        if self.options.stop == "first":  # the rank if it ended here
            reachable = highest / length_divisor(self.options, position)
        else:  # more tokens only lower the score and increase the divisor
            reachable = highest / self.divisor
        alive = reachable > self.threshold
        done = len(alive) - int(alive.sum())
        if done and bool(highest.isnan().any()):
            raise not_a_number()
        self._keep_live(score, log_prob, rows, written, alive, done)

    def _continuations(self, position: int) -> tuple[Candidates, Tensor | None]:
        """Take a step; return the best continuations, and log probabilities if not the scores."""
        pipeline, sentences = self.pipeline, self.score.shape[0]
        step = self.task.step(self.token, self.state, self.memory, pipeline.needs_attention)
        self.state = step.state
        self.states = pipeline.update(self.states, self.token, step.attention)
        banned = pipeline.bans(position, self.states, step.logits.shape[1])
        if banned is not None:
            return best_continuations(step.logits, self.score, self.options.beam, banned), None
        log_probs = step.logits.log_softmax(1)
        rows = Rows(self._sentences(), self.written.flatten(0, 1), log_probs)
        scores = pipeline.process(self.states, rows)
        dead = dead_ends(scores).view_as(self.score) & (self.score > -torch.inf)
        if bool(dead.any()):
            index = torch.arange(dead.numel(), device=dead.device).view_as(dead)
            self._end(dead, self.written, self.score, self.log_prob, index)
        candidates = best_continuations(scores, self.score, self.options.beam, normalized=True)
        if not pipeline.changes_scores:
            return candidates, None
        chosen = log_probs.view(sentences, -1).gather(
            1, candidates.parent * log_probs.shape[1] + candidates.token
        )
        return candidates, self.log_prob.gather(1, candidates.parent) + chosen

    def _sentences(self) -> Tensor:
        """Return the task index of each row's sentence, (rows,)."""
        return self.alive.repeat_interleave(self.score.shape[1])

    def _end(
        self, over: Tensor, written: Tensor, score: Tensor, log_prob: Tensor, rows: Tensor
    ) -> None:
        """Record the hypotheses that ended, (sentences, slots); rows: the rows of their states."""
        states = gather(self.states, rows[over])
        penalty = self.pipeline.penalties(states, self._sentences()[rows[over]])
        columns = (written[over], score[over], log_prob[over], penalty)
        ends = zip(*(column.tolist() for column in columns), strict=True)
        alive, which = self.alive.tolist(), over.nonzero()[:, 0].tolist()
        thresholds: dict[int, float] = {}
        for i, end in zip(which, ends, strict=True):
            hypothesis, ranks = ended(self.options, *end), self.ranks[alive[i]]
            self.ended[alive[i]].append(hypothesis)
            if hypothesis.finished:
                bisect.insort(ranks, hypothesis.rank_score)
                if len(ranks) >= self.options.n_best:
                    thresholds[i] = ranks[-self.options.n_best]
        if thresholds:
            device = self.threshold.device
            index = torch.tensor(list(thresholds), device=device)
            self.threshold[index] = torch.tensor(list(thresholds.values()), device=device)

    def _keep_live(
        self, score: Tensor, log_prob: Tensor | None, rows: Tensor, written: Tensor, alive: Tensor,
        done: int,
    ) -> None:  # fmt: skip
        """Keep the live prefixes of sentences that are not done, in as few rows as possible.

        score, log_prob, rows: (sentences, slots); written: (sentences, slots, position); alive:
        (sentences,), false where no prefix is live; done: the number of these sentences.
        """
        if done == len(alive):
            self.alive = self.alive[:0]
            return
        if done or not bool((score > -torch.inf).all()):
            score = score.masked_fill(~alive[:, None], -torch.inf)
            live = score > -torch.inf
            width = int(live.sum(1).amax())
            if width < score.shape[1]:
                slots = (~live).int().argsort(dim=1, stable=True)[:, :width]
                score, rows = score.gather(1, slots), rows.gather(1, slots)
                log_prob = None if log_prob is None else log_prob.gather(1, slots)
                written = written.gather(1, slots[..., None].expand(-1, -1, written.shape[2]))
        if done * LEAVE_FRACTION >= len(alive):
            kept = alive.nonzero()[:, 0]
            score, rows, written = score[kept], rows[kept], written[kept]
            log_prob = None if log_prob is None else log_prob[kept]
            self.alive, self.free, self.threshold = (
                self.alive[kept],
                self.free[kept],
                self.threshold[kept],
            )
            self.lengths, self.divisor = self.lengths[kept], self.divisor[kept]
            self.memory = gather(self.memory, kept)
        self.score, self.written = score, written
        self.log_prob = score if log_prob is None else log_prob
        if not torch.equal(rows, self.rows):
            self.state = gather(self.state, rows.flatten())
            self.states = gather(self.states, rows.flatten())
        if rows.shape != self.rows.shape:
            self.rows = torch.arange(rows.numel(), device=rows.device).view_as(rows)
        self.token = written[..., -1].flatten()
