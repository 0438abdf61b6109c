"""Searches in which every hypothesis goes its own way: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from zoo.decoding.candidates import Allowed, best, in_full
from zoo.decoding.coverage import Coverage
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.task import LEAVING, Task
from zoo.nn.contract import BEGIN, END, Memory, Seq2Seq, State
from zoo.nn.tree import gather

Choose = Callable[[Tensor, Allowed, Tensor], tuple[Tensor, Tensor]]
"""From logits (rows, V), what may come, and which row of the beginning each is: a token for each
row and its log probability, (rows,)."""


@torch.inference_mode()
def greedy(
    model: Seq2Seq[Memory, State], source: Tensor, source_mask: Tensor, limit: int | None = None
) -> list[Hypothesis]:
    """Take the likeliest token at every step.

    Args:
        model: a network.
        source, source_mask: (sentences, m) as the contract has them.
        limit: the model's longest target in tokens, begin and end included.

    Returns:
        One hypothesis a sentence, in order.
    """
    memory = model.encode(source, source_mask).memory
    found = greedy_search(Task(model, memory, source_mask, limit), Search())
    return [hypotheses[0] for hypotheses in found]


def greedy_search(task: Task, options: Search) -> list[list[Hypothesis]]:
    """Take the likeliest token at every step; of equally likely ones, the first."""

    def choose(logits: Tensor, allowed: Allowed, rows: Tensor) -> tuple[Tensor, Tensor]:
        return best(logits, allowed)

    return _walk(task, options, choose)


def sample(task: Task, options: Search) -> list[list[Hypothesis]]:
    """Draw `n_best` targets a sentence, best first.

    One number of a sentence's own generator decides each token, so that what is drawn does not
    depend on batch mates. Scores are the model's, whatever the temperature.
    """
    places = range(len(task)) if task.places is None else task.places
    most = int(task.most(options).max())
    drawn = []
    for place in places:
        own = torch.Generator().manual_seed(options.seed * 1_000_003 + place)
        # In float64, and by hypothesis: more hypotheses go on where fewer left off.
        drawn += [torch.rand(most, generator=own, dtype=torch.float64)
                  for _ in range(options.n_best)]  # fmt: skip
    numbers = torch.stack(drawn).to(task.mask.device)

    def choose(logits: Tensor, allowed: Allowed, rows: Tensor) -> tuple[Tensor, Tensor]:
        chances = in_full(logits).log_softmax(-1)  # ours to write to
        allowed.restrict(chances)
        token = _draw(chances, numbers[rows, allowed.place - 1], options)
        return token, chances.gather(1, token[:, None])[:, 0]

    return _walk(task, options, choose)


def _draw(chances: Tensor, numbers: Tensor, options: Search) -> Tensor:
    """Return the tokens, (rows,), at which the cumulated probability passes the numbers."""
    ranked, tokens = (chances.double() / options.temperature).sort(
        dim=-1, descending=True, stable=True
    )
    if options.top_k is not None:
        ranked[:, options.top_k :] = -torch.inf
    shares = ranked.softmax(-1)
    reached = shares.cumsum(-1)
    if options.top_p is not None:
        beyond = reached - shares >= options.top_p
        reached = shares.masked_fill(beyond, 0.0).cumsum(-1)
    passed = reached > (numbers * reached[:, -1])[:, None]
    return tokens.gather(1, passed.int().argmax(-1, keepdim=True))[:, 0]


@torch.inference_mode()
def _walk(task: Task, options: Search, choose: Choose) -> list[list[Hypothesis]]:
    """Write `n_best` hypotheses a sentence, each by itself; the finished leave the batch."""
    width, device = options.n_best, task.mask.device
    alive = torch.arange(len(task) * width, device=device)  # the hypothesis that each row writes
    memory = task.memory if width == 1 else gather(task.memory, alive // width)
    state = task.model.init_state(memory)
    most = task.most(options).repeat_interleave(width)
    last, prefix = most, task.prefix.repeat_interleave(width, 0)  # of each row
    token = torch.full_like(alive, BEGIN)
    score = torch.zeros(len(alive), device=device)
    coverage = Coverage(task, options, alive // width)
    live = torch.ones_like(alive, dtype=torch.bool)  # rows that go on
    written: list[Tensor] = []
    found: dict[int, Hypothesis] = {}
    while len(found) < len(most):
        place = len(written) + 1
        logits, state = coverage.step(token, state, memory)
        token, chance = choose(logits, Allowed(place, options, prefix), alive)
        score = score + chance
        written.append(torch.zeros_like(most).index_copy(0, alive, token))
        leaving = live & ((token == END) | (place >= last))
        if not bool(leaving.any()):
            continue
        live = live & ~leaving
        gone = alive[leaving]
        ends = (
            torch.stack(written, 1)[gone].tolist(),
            score[leaving].tolist(),
            coverage.penalty(leaving.nonzero()[:, 0]).tolist(),
        )
        for own, *end in zip(gone.tolist(), *ends, strict=True):
            found[own] = options.hypothesis(*end)
        rows = live.nonzero()[:, 0]
        if not len(rows) or (len(live) - len(rows)) * LEAVING < len(live):
            continue
        alive, token, score, live = alive[rows], token[rows], score[rows], live[rows]
        last, prefix = last[rows], prefix[rows]
        coverage.gather(rows)
        memory, state = gather(memory, rows), gather(state, rows)
    return [
        sorted((found[first + i] for i in range(width)), key=lambda h: h.order)
        for first in range(0, len(most), width)
    ]
