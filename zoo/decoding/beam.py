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

import torch
from torch import Tensor

from zoo.decoding.candidates import Candidates, best_continuations
from zoo.decoding.choice import (
    BeamSlots,
    Chosen,
    Facts,
    best_choice,
    choose,
    facts_of,
)
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.pipeline import dead_ends
from zoo.decoding.processor import Rows
from zoo.decoding.ranking import best, ended, length_divisor, not_a_number
from zoo.decoding.step_graphs import recorded
from zoo.decoding.steps import Steps
from zoo.decoding.task import Task, full_precision
from zoo.decoding.turns import BeamTurns
from zoo.nn.contract import BEGIN, END, PADDING, Memory, State
from zoo.nn.cuda_graphs import fetch
from zoo.nn.faults import beam_steps, init_state
from zoo.nn.tree import gather


@torch.inference_mode()
def beam_search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Return up to n best hypotheses of each sentence, best first."""
    with recorded(task) as repeated:
        beam = _Beam(repeated, options)
        while len(beam.alive):
            beam.advance()
    if not all(beam.ended):
        raise not_a_number()
    return [best(hypotheses, options) for hypotheses in beam.ended]


def _live(score: Tensor, alive: Tensor, free: Tensor) -> tuple[Tensor, int, int, int]:
    """Return scores, −inf where a sentence is done, and three numbers.

    They are how many are done, and the most live and the most free slots of one that is not.

    Raises:
        DecodingError: a score is not a number.
    """
    live = score.masked_fill(~alive[:, None], -torch.inf)
    width, slots = (live > -torch.inf).sum(1).amax(), (free * alive).amax()
    numbers = torch.stack([(~alive).sum(), width, slots, score.isnan().sum()])
    done, most_live, most_free, broken = numbers.tolist()
    if broken:
        raise not_a_number()
    return live, done, most_live, most_free


class _Beam(Steps[Memory, State]):
    """The unfinished sentences, each with `width` adjacent rows.

    alive: (sentences,), their indices in the task, which `numbers` has as a list; score:
    (sentences, width), −inf for slots without a live prefix; log_prob: (sentences, width), the
    network's log probability; written: (sentences, width, position − 1), the live prefixes; rows:
    (sentences, width), their numbers; free: (sentences,), the slots without a finished hypothesis,
    of which `slots` is the most; shortest: the least of the maximum lengths.
    """

    def __init__(self, task: Task[Memory, State], options: Search) -> None:
        super().__init__(task, options)
        device, count = task.mask.device, len(task)
        self.memory = task.memory
        self.state = init_state(task.model, task.memory)
        self.alive, self.numbers = torch.arange(count, device=device), list(range(count))
        self.states = self.pipeline.init_state(self.alive)
        self.lengths = self.pipeline.max_lengths
        self.free, self.slots = torch.full((count,), options.beam, device=device), options.beam
        self.rows = torch.arange(count, device=device)[:, None]
        self.score = self.log_prob = torch.zeros_like(self.rows, dtype=torch.float32)
        self.written = torch.full((count, 1, 0), BEGIN, device=device)
        self.token = torch.full((count,), BEGIN, device=device)
        self.ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        self.ranks: list[list[float]] = [[] for _ in range(count)]  # of finished ones, rising
        # The rank that a live hypothesis must exceed, and the divisor of the longest one.
        self.threshold = torch.full_like(self.alive, -torch.inf, dtype=torch.float32)
        lengths = self.lengths.tolist()
        self.shortest, self.longest = min(lengths, default=0), max(lengths, default=0)
        divisors = [length_divisor(options, length) for length in lengths]
        self.divisor = torch.tensor(divisors, dtype=torch.float32, device=device)

    def advance(self) -> None:
        """Append one token to every live prefix."""
        if self.bound is not None and not all(self.ranks[number] for number in self.numbers):
            self.check_length(self.written.shape[2] + 1)
        if self._take_turns():
            return
        self._take_steps()
        position = self.written.shape[2] + 1
        if self.options.stop == "first":  # the rank if it ended here
            divisor = torch.full_like(self.divisor, length_divisor(self.options, position))
        else:  # more tokens only lower the score and increase the divisor
            divisor = self.divisor
        chosen, facts, log_prob = self._chosen(position, divisor)
        score, rows, token, over, alive = chosen
        any_over, full, same, done = facts
        prefixes = self.written if same else self.written.flatten(0, 1)[rows]
        written = torch.cat([prefixes, token[..., None]], 2)
        if any_over:
            self._end(over, written, score, score if log_prob is None else log_prob, rows)
            self.free = self.free - (over & (token == END)).sum(1)
            score = score.masked_fill(over, -torch.inf)
            alive = score.amax(1) / divisor > self.threshold
        width = score.shape[1]
        if any_over or done or not full:
            score, done, width, self.slots = _live(score, alive, self.free)
        self._keep_live(score, log_prob, rows, written, alive, (done, width), same)

    def _take_turns(self) -> bool:
        """Go on until a good part of the sentences is done, if a GPU repeats how."""
        position, options, width = self.written.shape[2] + 1, self.options, self.score.shape[1]
        if position == 1:
            width = options.beam
        elif self.ahead is not None or width < self.slots:
            return False

        def load(turns: BeamTurns) -> None:
            most = turns.settings.positions
            divisors = [length_divisor(options, length) for length in range(most + 1)]
            ranks = [self.ranks[number][: -options.n_best - 1 : -1] for number in self.numbers]
            of_prefixes = self.written, self.score, self.lengths, self.free, self.divisor
            turns.load(*of_prefixes, divisors, ranks)

        settings = {"n_best": options.n_best, "by_position": options.stop == "first"}
        ready = self.take_turns(BeamTurns, position, width, load, **settings)
        if ready is None:
            return False
        turns, taken, left = ready
        count, length = len(self.alive), position - 1 + taken
        self._end_turns(turns, count, length)
        if not left:
            self.alive = self.alive[:0]
            return True
        score, written = turns.score[:count].clone(), turns.written[:count, :, :length].clone()
        self.rows = torch.arange(score.numel(), device=score.device).view_as(score)
        self.free, self.threshold = turns.free[:count].clone(), turns.keys[:count, -1].float()
        alive = score.amax(1) > -torch.inf
        score, done, _, self.slots = _live(score, alive, self.free)
        counts = done, score.shape[1]  # all slots stay: others would have to be recorded
        self._keep_live(score, None, self.rows, written, alive, counts, same=True)
        return True

    def _end_turns(self, turns: BeamTurns, count: int, length: int) -> None:
        """Record the hypotheses that ended in turns, up to so many tokens."""
        parts = turns.ended_score[:count], turns.ended[:count, :, :length]
        for number, *ends in zip(self.numbers, *(fetch(part)() for part in parts), strict=True):
            for score, tokens in zip(*ends, strict=True):
                if tokens[0] != PADDING:
                    self._record(number, ended(self.options, tokens, score, score, 0.0))

    def _record(self, number: int, hypothesis: Hypothesis) -> list[float]:
        """Record a hypothesis of a sentence; return the ranks of those that have finished."""
        ranks = self.ranks[number]
        self.ended[number].append(hypothesis)
        if hypothesis.finished:
            bisect.insort(ranks, hypothesis.rank_score)
        return ranks

    def _take_steps(self) -> None:
        """Take several steps at once, if the network can; the last one is left in `ahead`.

        Until the first hypothesis of the batch ends, all slots stay live.
        """
        if self.ahead is not None or self.score.shape[1] < self.slots or any(self.ended):
            return
        position = self.written.shape[2] + 1
        ready = self.for_several("beam_steps", position, self.shortest - position + 1, least=2)
        if ready is None:
            return
        network, banned, count = ready
        of_rows = self.token, self.state, self.memory, self.score
        if (steps := beam_steps(network, *of_rows, count, banned)) is None:
            self.may_take_several = False
            return
        for token, parents in zip(steps.tokens, steps.parents, strict=True):
            states = self.pipeline.update(self.states, self.token, {})
            self.states, self.token = gather(states, parents), token
        index, columns = self.rows.flatten(), []
        for token, parents in zip(steps.tokens.flip(0), steps.parents.flip(0), strict=True):
            columns.append(token[index])
            index = parents[index]
        before = self.written.flatten(0, 1)[index]
        written = torch.cat([before, *(column[:, None] for column in reversed(columns))], 1)
        self.written = written.view(*self.rows.shape, -1)
        self.score = self.log_prob = steps.scores
        self.state, self.ahead = steps.state, full_precision(steps.logits)

    def _chosen(self, position: int, divisor: Tensor) -> tuple[Chosen, Facts, Tensor | None]:
        """Take a step; return what it leads to, and log probabilities if not the scores."""
        logits, banned = self.take_step(position)
        crowded = any(self.ended)
        beam = BeamSlots(self.rows, self.free, self.lengths, self.threshold, divisor, position)
        if banned is None:
            candidates, log_prob = self._processed(logits)
            chosen = choose(candidates, beam, crowded)
            return chosen, facts_of(chosen, self.rows), log_prob
        return *best_choice(logits, self.score, beam, self.slots, banned, crowded), None

    def _processed(self, logits: Tensor) -> tuple[Candidates, Tensor | None]:
        """Return the best continuations by what the processors make of the scores."""
        pipeline, sentences = self.pipeline, self.score.shape[0]
        log_probs = logits.log_softmax(1)
        rows = Rows(self._sentences(), self.written.flatten(0, 1), log_probs)
        scores = pipeline.process(self.states, rows)
        dead = dead_ends(scores).view_as(self.score) & (self.score > -torch.inf)
        if bool(dead.any()):
            index = torch.arange(dead.numel(), device=dead.device).view_as(dead)
            self._end(dead, self.written, self.score, self.log_prob, index)
        candidates = best_continuations(scores, self.score, self.slots, normalized=True)
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
        index = over.flatten().nonzero()[:, 0]
        row, sentence = rows.flatten()[index], index // over.shape[1]
        penalty = self.pipeline.penalties(gather(self.states, row), self.alive[sentence])
        ranked = torch.stack([score.flatten()[index], log_prob.flatten()[index], penalty], 1)
        parts = sentence, written.flatten(0, 1)[index], ranked
        ends = [wait() for wait in [fetch(part) for part in parts]]
        thresholds: dict[int, float] = {}
        for i, tokens, end in zip(*ends, strict=True):
            ranks = self._record(self.numbers[i], ended(self.options, tokens, *end))
            if len(ranks) >= self.options.n_best:
                thresholds[i] = ranks[-self.options.n_best]
        if thresholds:
            where = torch.tensor(list(thresholds), device=self.threshold.device)
            values = self.threshold.new_tensor(list(thresholds.values()))
            self.threshold = self.threshold.index_put((where,), values)

    def _keep_live(
        self, score: Tensor, log_prob: Tensor | None, rows: Tensor, written: Tensor, alive: Tensor,
        counts: tuple[int, int], same: bool,
    ) -> None:  # fmt: skip
        """Keep the live prefixes of sentences that are not done, in as few rows as possible.

        score, log_prob: (sentences, slots); rows: that each slot continues; written: (sentences,
        slots, position); alive: (sentences,), false where no prefix is live; counts: of these
        sentences, and of the most live slots of one; same: whether each slot continues its own row.
        """
        done, width = counts
        if done == len(alive):
            self.alive = self.alive[:0]
            return
        if width < score.shape[1]:
            slots = (score == -torch.inf).int().argsort(dim=1, stable=True)[:, :width]
            score, rows = score.gather(1, slots), rows.gather(1, slots)
            log_prob = None if log_prob is None else log_prob.gather(1, slots)
            written = written.gather(1, slots[..., None].expand(-1, -1, written.shape[2]))
            same = False
        within = rows.shape == self.rows.shape
        if done >= self.task.leave_at * len(alive):
            kept, same, within = alive.nonzero()[:, 0], False, False
            score, rows, written = score[kept], rows[kept], written[kept]
            log_prob = None if log_prob is None else log_prob[kept]
            self.alive, self.free = self.alive[kept], self.free[kept]
            self.threshold = self.threshold[kept]
            self.numbers = [self.numbers[i] for i in kept.tolist()]
            self.lengths, self.divisor = self.lengths[kept], self.divisor[kept]
            self.memory = gather(self.memory, kept)
        self.score, self.written = score, written
        self.log_prob = score if log_prob is None else log_prob
        if not same:
            self.states = gather(self.states, rows.flatten())
            self.state = gather(self.state, rows.flatten(), within)
        if rows.shape != self.rows.shape:
            self.rows = torch.arange(rows.numel(), device=rows.device).view_as(rows)
        self.token = written[..., -1].flatten()
