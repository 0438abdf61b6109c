"""Search: from memory to hypotheses, by `step` alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.model import BEGIN, END, PADDING, UNKNOWN, Seq2Seq
from zoo.tree import gather

NEVER = [PADDING, BEGIN, UNKNOWN]
"""Tokens that no hypothesis contains."""


@dataclass(frozen=True)
class Hypothesis:
    """A target: its token ids without begin and end, and the natural log of its probability.

    The score sums over its tokens and, where it is `finished`, the end token; a hypothesis that
    reached the length limit first is not finished.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool


def target_limits(lengths: Tensor, limit: int | None) -> Tensor:
    """Return the most tokens a target may have, the end token included, for each source.

    Three times the source's tokens and 20 more, far beyond any translation, so that a net that
    repeats itself comes to an end; and never over the model's own limit. It depends on the
    sentence alone, not on its batch mates.
    """
    most = 3 * lengths + 20
    return most if limit is None else most.clamp(max=limit - 1)  # the limit counts the begin token


@torch.inference_mode()
def greedy(
    model: Seq2Seq, source: Tensor, source_mask: Tensor, limit: int | None = None
) -> list[Hypothesis]:
    """Take the likeliest token at every step.

    Args:
        source, source_mask: (sentences, m) as the contract has them.
        limit: the model's longest target in tokens, begin and end included.

    Returns:
        One hypothesis a sentence, in order. A finished sentence leaves the batch.
    """
    memory = model.encode(source, source_mask)
    state = model.init_state(memory)
    sentences = len(source)
    most = target_limits(source_mask.sum(1), limit)
    token = torch.full((sentences,), BEGIN, device=source.device)
    alive = torch.arange(sentences, device=source.device)  # which sentence a row stands for
    score = torch.zeros(sentences, device=source.device)
    tokens: list[list[int]] = [[] for _ in range(sentences)]
    done: dict[int, Hypothesis] = {}
    place = 0
    while len(alive):
        place += 1
        logits, state = model.step(token, state, memory)
        chances = logits.float().log_softmax(-1)
        chances[:, NEVER] = -torch.inf
        best, token = chances.max(-1)
        score = score + best
        ended = token == END
        leaving = ended | (place >= most[alive])
        for row, (sentence, id) in enumerate(zip(alive.tolist(), token.tolist(), strict=True)):
            if id != END:
                tokens[sentence].append(id)
            if leaving[row]:
                sure = bool(ended[row])
                done[sentence] = Hypothesis(tuple(tokens[sentence]), float(score[row]), sure)
        if leaving.any():
            rows = (~leaving).nonzero()[:, 0]
            alive, token, score = alive[rows], token[rows], score[rows]
            memory, state = gather(memory, rows), gather(state, rows)
    return [done[sentence] for sentence in range(sentences)]
