"""What the best continuations of a beam lead to."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.decoding.candidates import Candidates, best_continuations, kernels_for
from zoo.nn.contract import END
from zoo.nn.kernels import Kernels, is_in_rows, is_plain


class Chosen(NamedTuple):
    """The continuations that a step leads to, (sentences, slots) each.

    Attributes:
        score: −inf where a slot is not live.
        rows: the number of the row that is continued.
        token: what it is continued with.
        over: which of them end.
        alive: (sentences,), whether one of the live ones can be among the n best.
    """

    score: Tensor
    rows: Tensor
    token: Tensor
    over: Tensor
    alive: Tensor


class Facts(NamedTuple):
    """Whether any continuation is over, all are live, and all continue the row of their own slot.

    done: how many sentences are not alive.
    """

    over: bool
    full: bool
    same: bool
    done: int


class BeamSlots(NamedTuple):
    """What a step chooses by.

    Attributes:
        rows: (sentences, width), the numbers of the rows: 0, 1 and so on.
        free: (sentences,), the slots without a finished hypothesis.
        lengths: (sentences,), the most tokens of each.
        threshold: (sentences,), the rank that a live hypothesis must exceed.
        divisor: (sentences,), by which a score is divided for its rank.
        position: of the next token, from 1.
    """

    rows: Tensor
    free: Tensor
    lengths: Tensor
    threshold: Tensor
    divisor: Tensor
    position: int


def best_choice(
    logits: Tensor, score: Tensor, beam: BeamSlots, slots: int, banned: Sequence[int], crowded: bool
) -> tuple[Chosen, Facts]:
    """Return what the best continuations lead to.

    Args:
        logits: (rows, V).
        score: (sentences, width), −inf where a prefix is not live.
        beam: what to choose by.
        slots: the most free ones of a sentence.
        banned: tokens that may not be appended.
        crowded: whether finished hypotheses occupy slots, so that the last continuations of their
            sentences are dropped.
    """
    compiled = kernels_for(logits)
    if compiled is not None and _are_read(score, beam):
        return _by_kernel(compiled, logits, score.contiguous(), beam, slots, banned, crowded)
    candidates = best_continuations(logits, score, slots, banned)
    chosen = choose(candidates, beam, crowded)
    return chosen, facts_of(chosen, beam.rows)


def choose(candidates: Candidates, beam: BeamSlots, crowded: bool) -> Chosen:
    """Return what candidates lead to; `crowded` as in `best_choice`."""
    score, parent, token = candidates
    if crowded:
        slots = torch.arange(score.shape[1], device=score.device)
        score = score.masked_fill(slots >= beam.free[:, None], -torch.inf)
    over = are_over(score, token == END, beam.lengths, beam.position)
    alive = score.amax(1) / beam.divisor > beam.threshold
    return Chosen(score, beam.rows[:, :1] + parent, token, over, alive)


def are_over(score: Tensor, is_end: Tensor, lengths: Tensor, position: Tensor | int) -> Tensor:
    """Return which live continuations end, by the end token or by their length.

    Args:
        score, is_end: (sentences, slots), −inf where it is not live, and whether it is the token.
        lengths: (sentences,), the most tokens of each.
        position: of the continuation, from 1; an int or (1,).
    """
    return (is_end | (position >= lengths)[:, None]) & (score > -torch.inf)


def facts_of(chosen: Chosen, rows: Tensor) -> Facts:
    """Return the facts about what was chosen; `rows` are those of the beam."""
    full = bool((chosen.score > -torch.inf).all())
    done = len(chosen.alive) - int(chosen.alive.sum())
    return Facts(bool(chosen.over.any()), full, torch.equal(chosen.rows, rows), done)


def _are_read(score: Tensor, beam: BeamSlots) -> bool:
    """Return whether the kernels can read the scores and a beam."""
    tokens, scores = (beam.free, beam.lengths), (beam.threshold, beam.divisor)
    return (
        is_plain(score)
        and all(x.dtype is torch.int64 and x.is_contiguous() for x in tokens)
        and all(is_in_rows(x) for x in scores)
    )


def _by_kernel(
    compiled: Kernels, logits: Tensor, score: Tensor, beam: BeamSlots, slots: int,
    banned: Sequence[int], crowded: bool,
) -> tuple[Chosen, Facts]:  # fmt: skip
    """Return what `best_choice` does, computed in one call."""
    (sentences, width), vocab = score.shape, logits.shape[1]
    count = min(slots, width * vocab)
    best, rows = score.new_empty(sentences, count), beam.rows.new_empty(sentences, count)
    token, over = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.bool)
    alive, facts = over.new_empty(sentences), (ctypes.c_int64 * 4)()
    numbers = sentences, width, vocab, count, END, beam.position, crowded
    compiled.choose(
        logits.data_ptr(), score.data_ptr(), (ctypes.c_int64 * len(numbers))(*numbers),
        (ctypes.c_int64 * len(banned))(*banned), len(banned),
        *(x.data_ptr() for x in (*beam[1:5], best, rows, token, over, alive)), facts,
    )  # fmt: skip
    over_any, full, same, done = facts
    return Chosen(best, rows, token, over, alive), Facts(
        bool(over_any), bool(full), bool(same), done
    )
