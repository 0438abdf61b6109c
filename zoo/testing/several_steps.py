"""Laws of steps that a network takes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.nn.contract import END, BeamSteps
from zoo.nn.tree import Tree, gather
from zoo.testing.case import BEAM, ROWS, TARGET_VOCAB, Case
from zoo.testing.law import BrokenLawError, law, require_close

STEPS = 3
"""The most that a network may take."""

BANS = (0, 1, 3), (0, 1, END, 3, 4, 5), tuple(i for i in range(TARGET_VOCAB) if i != END)
"""With the first ones, a target may end; with the second it does not; with the last it must."""


@law(
    causes="an argmax that takes another one of equal tokens, or a banned one; steps after an end "
    "token; logits in the place of log probabilities; a state that has read the last tokens too",
    requires="step_is_pure step_equals_forward",
    of="steps",
)
@torch.no_grad()
def greedy_steps_are_steps(case: Case) -> None:
    """`greedy_steps`, where it returns something, takes the steps that greedy search would."""
    model, rows = case.model, torch.arange(ROWS)
    memory, state = case.after_steps(2)
    token = case.target[:, 2]
    for banned in BANS:
        steps = model.greedy_steps(token, state, memory, STEPS, banned)
        if steps is None:
            return
        read, after, taken = token, state, steps.tokens.shape[1]
        for i in range(taken):
            what = f"step {i} of greedy_steps"
            if i and (read == END).any():
                raise BrokenLawError(f"{what} comes after an end token")
            step = model.step(read, after, memory)
            logits = step.logits.index_fill(1, torch.tensor(banned), -torch.inf)
            read, after = logits.argmax(1), step.state
            if not torch.equal(steps.tokens[:, i], read):
                raise BrokenLawError(f"{what} does not choose the best tokens")
            score = step.logits.log_softmax(1)[rows, read]
            require_close(steps.scores[:, i], score, f"the score of {what}")
        if taken < STEPS and not (read == END).any():
            raise BrokenLawError(f"greedy_steps ends after {taken} steps without an end token")
        expected = model.step(read, after, memory).logits
        actual = model.step(read, steps.state, memory).logits
        require_close(actual, expected, "a step from the state of greedy_steps")


@law(
    causes="tokens or rows that are numbered within a sentence; scores that are not added to those "
    "of the prefixes; prefixes that are continued although their score is −inf; a state that is "
    "reordered by the last rows too, or not by the others; steps after an end token",
    requires="gather_commutes_with_step step_equals_forward",
    of="steps",
)
@torch.no_grad()
def beam_steps_are_steps(case: Case) -> None:
    """`beam_steps`, where it returns something, takes the steps that beam search would."""
    memory, state = case.after_steps(2)
    state = gather(state, torch.arange(ROWS).repeat_interleave(BEAM))
    token = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    scores = -torch.rand(ROWS, BEAM, dtype=torch.float64)
    scores[0, 1:] = -torch.inf
    for banned in BANS:
        steps = case.model.beam_steps(token, state, memory, scores, STEPS, banned)
        if steps is None:
            return
        _require_beam_steps(case.model, (token, state, memory, scores), banned, steps)


def _require_beam_steps(
    model: Any, given: tuple[Tensor, Tree, Tree, Tensor], banned: Sequence[int],
    steps: BeamSteps[Any],
) -> None:  # fmt: skip
    """Raise a BrokenLawError unless steps are those of beam search."""
    read, state, memory, scores = given
    firsts = torch.arange(0, ROWS * BEAM, BEAM)[:, None]
    taken = len(steps.tokens) + 1
    for i in range(taken):
        logits, state, _ = model.step(read, state, memory)
        sums = logits.log_softmax(1).index_fill(1, torch.tensor(banned), -torch.inf)
        sums = (sums.unflatten(0, (ROWS, BEAM)) + scores[..., None]).flatten(1)
        best, index = sums.topk(BEAM)
        tokens = (index % TARGET_VOCAB).flatten()
        parents = (index // TARGET_VOCAB + firsts).flatten()
        is_over = bool((tokens == END).any() | (best == -torch.inf).any())
        if i == taken - 1:
            break
        if is_over:
            raise BrokenLawError(f"step {i + 1} of beam_steps comes after an end token")
        if not torch.equal(steps.tokens[i], tokens) or not torch.equal(steps.parents[i], parents):
            raise BrokenLawError(f"step {i} of beam_steps does not choose the best continuations")
        read, scores, state = tokens, best, gather(state, parents)
    if taken < STEPS and not is_over:
        raise BrokenLawError(f"beam_steps ends after {taken} steps without an end token")
    sums, scores = (each.nan_to_num(neginf=1.0) for each in (steps.scores, scores))
    require_close(sums, scores, "the scores of beam_steps")
    require_close(steps.logits, logits, "the logits of beam_steps")
    expected = model.step(tokens, gather(state, parents), memory).logits
    actual = model.step(tokens, gather(steps.state, parents), memory).logits
    require_close(actual, expected, "a step from the state of beam_steps")
