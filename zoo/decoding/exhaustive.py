"""Exhaustive search: every target that there can be."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.decoding.candidates import NEVER, Allowed, in_full
from zoo.decoding.coverage import Coverage
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.contract import BEGIN, END
from zoo.nn.tree import Tree, gather

MOST = 1_000_000
"""Prefixes of one sentence that an exhaustive search will go on from."""

ROWS = 1024
"""Prefixes that take a step together."""


class Block(NamedTuple):
    """Prefixes of one length: written (rows, places), score (rows,), state, summed attention."""

    written: Tensor
    score: Tensor
    state: Tree
    covered: Tensor


def exhaustive_search(task: Task, options: Search) -> list[list[Hypothesis]]:
    """Score every target of each sentence; return the n best, the best first.

    Raises:
        DecodingError: there are more than a million prefixes to go on from.
    """
    return [_one(task.of(sentence), options) for sentence in range(len(task))]


@torch.inference_mode()
def _one(task: Task, options: Search) -> list[Hypothesis]:
    """Search the one sentence of a task, going deep first, so that few prefixes wait."""
    most, prefix = int(task.most(options)), task.prefix
    written = torch.full((1, 0), BEGIN, device=task.mask.device)
    state = task.model.init_state(task.memory)
    coverage = Coverage(task, options, torch.zeros(1, dtype=torch.long, device=task.mask.device))
    blocks = [Block(written, torch.zeros(1, device=task.mask.device), state, coverage.sums)]
    found: list[Hypothesis] = []
    while blocks:
        block = blocks.pop()
        place = block.written.shape[1] + 1
        token = block.written[:, -1] if place > 1 else torch.full_like(block.score, BEGIN).long()
        coverage.mask = task.mask.expand(len(token), -1)
        coverage.sums = block.covered
        logits, state = coverage.step(token, block.state, task.memory)
        if place == 1:
            _refuse(logits.shape[1] - len(NEVER) - 1, most, int((prefix > 0).sum()))
        chances = in_full(logits).log_softmax(-1)[None]
        Allowed(place, options, prefix).restrict(chances)
        total = chances[0] + block.score[:, None]
        rows, tokens = (total > -torch.inf).nonzero(as_tuple=True)
        score, longer = total[rows, tokens], torch.cat([block.written[rows], tokens[:, None]], 1)
        over = (tokens == END) | (place >= most)
        ends = (longer[over].tolist(), score[over].tolist(), coverage.penalty(rows[over]).tolist())
        found += [options.hypothesis(*end) for end in zip(*ends, strict=True)]
        found = sorted(found, key=lambda hypothesis: hypothesis.order)[: options.n_best]
        for part in (~over).nonzero()[:, 0].split(ROWS):
            if len(part):  # nothing splits into one part of nothing
                come = rows[part]
                sums = coverage.sums[come]
                blocks.append(Block(longer[part], score[part], gather(state, come), sums))
    return found


def _refuse(words: int, most: int, forced: int) -> None:
    """Refuse a search of too many prefixes: of `words` tokens beside the end, `most` places."""
    prefixes = sum(words**place for place in range(most - forced))
    if prefixes > MOST:
        size = f"{prefixes:,}" if prefixes < 1e15 else f"about 10^{len(str(prefixes)) - 1}"
        raise DecodingError(
            "exhaustive search would take too long",
            f"{words:,} tokens in {most:,} places, the end token's among them, make {size} "
            f"prefixes to go on from, and {MOST:,} are the most",
            "Lower max_length, or use a beam",
        )
