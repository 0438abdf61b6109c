"""Beam search.

A beam of k has k slots a sentence. At each step every live prefix is continued with every token,
and the likeliest continuations take the free slots; of equally likely ones, those of the earlier
slot, then of the lower token id. A continuation with the end token is finished: it keeps its slot
to the end, so that a sentence with f finished hypotheses goes on with k − f live ones. A sentence
is done when none is live, or none can still get among the n best. A beam of one is greedy search,
and a beam with a slot for every prefix there is finds what an exhaustive search finds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.decoding.candidates import Allowed, likeliest
from zoo.decoding.coverage import Coverage
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.task import LEAVING, Task
from zoo.nn.contract import BEGIN, END
from zoo.nn.tree import gather


@torch.inference_mode()
def beam_search(task: Task, options: Search) -> list[list[Hypothesis]]:
    """Return each sentence's n best hypotheses, the best first; fewer where there are fewer."""
    beam = _Beam(task, options)
    while len(beam.alive):
        beam.advance()
    best = (sorted(found, key=lambda h: h.order) for found in beam.found)
    return [found[: options.n_best] for found in best]


class _Beam:
    """The sentences that are still searched, each with `width` rows, adjacent.

    alive: (sentences,), which sentence of the task each is; score: (sentences, width), −inf where
    a slot is not live; written: (sentences, width, place), the live prefixes.
    """

    def __init__(self, task: Task, options: Search) -> None:
        self.task, self.options = task, options
        device, count = task.mask.device, len(task)
        self.memory = task.memory
        self.state = task.model.init_state(task.memory)
        self.most, self.prefix = task.most(options), task.prefix
        self.alive = torch.arange(count, device=device)
        self.free = torch.full((count,), options.beam, device=device)
        self.score = torch.zeros(count, 1, device=device)
        self.written = torch.full((count, 1, 0), BEGIN, device=device)
        self.token = torch.full((count,), BEGIN, device=device)
        self.coverage = Coverage(task, options, self.alive)
        self.found: list[list[Hypothesis]] = [[] for _ in range(count)]
        # What a live hypothesis has to pass, and what the longest is divided by, by sentence.
        self.bar = torch.full((count,), -torch.inf, device=device)
        divisors = [options.divisor(most) for most in self.most.tolist()]
        self.divisor = torch.tensor(divisors, device=device)

    def advance(self) -> None:
        """Write one more token of every live prefix."""
        place = self.written.shape[2] + 1
        logits, self.state = self.coverage.step(self.token, self.state, self.memory)
        allowed = Allowed(place, self.options, self.prefix)
        score, parent, token = likeliest(logits, self.score, self.options.beam, allowed)
        # Finished hypotheses have taken slots away: the last of these continuations find none.
        slots = torch.arange(score.shape[1], device=score.device)
        score = score.masked_fill(slots >= self.free[:, None], -torch.inf)
        sentences, width = self.score.shape
        first = torch.arange(0, sentences * width, width, device=score.device)
        rows = first[:, None] + parent  # the row that each slot goes on from
        written = torch.cat([self.written.flatten(0, 1)[rows], token[..., None]], 2)
        real = score > -torch.inf
        ended = real & (token == END)
        over = ended | (real & (place >= self.most)[:, None])
        if bool(over.any()):
            penalty = self.coverage.penalty(rows[over])
            self._finish(over, written[over], score[over], penalty)
            self.free = self.free - ended.sum(1)
            score = score.masked_fill(over, -torch.inf)
        best = score.amax(1)
        if self.options.stop == "first":  # as if it ended here
            reach = best / self.options.divisor(place)
        else:  # a later token only takes from the score, and more tokens divide it by more
            reach = best / self.divisor
        self._go_on(score, rows, written, reach <= self.bar)

    def _finish(self, over: Tensor, written: Tensor, score: Tensor, penalty: Tensor) -> None:
        """Record the hypotheses that are over, (sentences, slots), and what each of them is."""
        ends = zip(written.tolist(), score.tolist(), penalty.tolist(), strict=True)
        for i, end in zip(over.nonzero()[:, 0].tolist(), ends, strict=True):
            found = self.found[int(self.alive[i])]
            found.append(self.options.hypothesis(*end))
            finished = sorted((h.rank_score for h in found if h.finished), reverse=True)
            if len(finished) >= self.options.n_best:
                self.bar[i] = finished[self.options.n_best - 1]

    def _go_on(self, score: Tensor, rows: Tensor, written: Tensor, done: Tensor) -> None:
        """Keep what is live in the sentences that are not done, in as few rows as hold it.

        score, rows: (sentences, slots); written: (sentences, slots, place); done: (sentences,),
        true wherever nothing is live.
        """
        if bool(done.all()):
            self.alive = self.alive[:0]
            return
        score = score.masked_fill(done[:, None], -torch.inf)
        live = score > -torch.inf
        width = int(live.sum(1).amax())
        if width < score.shape[1]:
            slots = (~live).int().argsort(dim=1, stable=True)[:, :width]
            score, rows = score.gather(1, slots), rows.gather(1, slots)
            written = written.gather(1, slots[..., None].expand(-1, -1, written.shape[2]))
        if int(done.sum()) * LEAVING >= len(done):
            kept = (~done).nonzero()[:, 0]
            score, rows, written = score[kept], rows[kept], written[kept]
            self.alive, self.free, self.bar = self.alive[kept], self.free[kept], self.bar[kept]
            self.most, self.prefix = self.most[kept], self.prefix[kept]
            self.divisor, self.memory = self.divisor[kept], gather(self.memory, kept)
        self.score, self.written = score, written
        moved = rows.flatten()
        if len(moved) != len(self.token) or bool((moved.diff() != 1).any()):
            self.state = gather(self.state, moved)
            self.coverage.gather(moved)
        self.token = written[..., -1].flatten()
