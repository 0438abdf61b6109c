"""Faults in several steps of a search at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from tests.laws.networks import Made, Memory, Network, State, wrong
from zoo.nn import END, BeamSteps, GreedySteps, gather


class Greedy(Network):
    """The correct network, with `greedy_steps`."""

    def chosen(self, logits: Tensor, banned: Sequence[int]) -> Tensor:
        return logits.index_fill(1, torch.tensor(banned), -torch.inf).argmax(1)

    def scores(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(1)

    def is_last(self, token: Tensor) -> bool:
        return bool((token == END).any())

    def greedy_steps(
        self, token: Tensor, state: State, memory: Memory, count: int, banned: Sequence[int]
    ) -> GreedySteps[State] | None:
        tokens, scores = [], []
        for _ in range(count):
            logits, state, _ = self.step(token, state, memory)
            token = self.chosen(logits, banned)
            tokens.append(token)
            scores.append(self.scores(logits).gather(1, token[:, None])[:, 0])
            if self.is_last(token):
                break
        return GreedySteps(torch.stack(tokens, 1), torch.stack(scores, 1), state)


@wrong("greedy_steps_are_steps", "step 0 of greedy_steps does not choose the best tokens")
def greedy_steps_without_bans() -> Made:
    class Forgets(Greedy):
        def chosen(self, logits: Tensor, banned: Sequence[int]) -> Tensor:
            return logits.argmax(1)

    return Forgets


@wrong("greedy_steps_are_steps", "the score of step 0 of greedy_steps: off by")
def greedy_steps_with_logits() -> Made:
    class Raw(Greedy):
        def scores(self, logits: Tensor) -> Tensor:
            return logits

    return Raw


@wrong("greedy_steps_are_steps", "greedy_steps ends after 1 steps without an end token")
def greedy_steps_that_end_early() -> Made:
    class Early(Greedy):
        def is_last(self, token: Tensor) -> bool:
            return True

    return Early


@wrong("greedy_steps_are_steps", "comes after an end token")
def greedy_steps_after_the_end() -> Made:
    class Endless(Greedy):
        def chosen(self, logits: Tensor, banned: Sequence[int]) -> Tensor:
            allowed = [token for token in banned if token != END]
            return super().chosen(logits.index_fill(1, torch.tensor(END), 99.0), allowed)

        def step(self, *given: Any, **more: Any) -> Any:
            step = super().step(*given, **more)
            likely = step.logits.index_fill(1, torch.tensor(END), 99.0)
            return step._replace(logits=likely)

        def forward(self, *given: Any, **more: Any) -> Any:
            output = super().forward(*given, **more)
            return output._replace(logits=output.logits.index_fill(2, torch.tensor(END), 99.0))

        def is_last(self, token: Tensor) -> bool:
            return False

    return Endless


@wrong("greedy_steps_are_steps", "a step from the state of greedy_steps: off by")
def greedy_steps_that_return_the_first_state() -> Made:
    class Stays(Greedy):
        def greedy_steps(
            self, token: Tensor, state: State, memory: Memory, count: int, banned: Sequence[int]
        ) -> GreedySteps[State] | None:
            steps = cast("GreedySteps[State]", super().greedy_steps(token, state, memory, count, banned))  # fmt: skip  # noqa: E501
            return steps._replace(state=state)

    return Stays


class Beam(Network):
    """The correct network, with `beam_steps`."""

    def is_over(self, token: Tensor, best: Tensor) -> bool:
        return bool((token == END).any() or (best == -torch.inf).any())

    def sums(self, logits: Tensor, scores: Tensor) -> Tensor:
        return logits.log_softmax(1).unflatten(0, scores.shape) + scores[..., None]

    def rows(self, parents: Tensor) -> Tensor:
        return (parents + torch.arange(len(parents))[:, None] * parents.shape[1]).flatten()

    def after(self, state: State, parents: Tensor) -> State:
        return gather(state, parents)

    def beam_steps(
        self, token: Tensor, state: State, memory: Memory, scores: Tensor, count: int,
        banned: Sequence[int],
    ) -> BeamSteps[State] | None:  # fmt: skip
        tokens, parents = [token], []
        beam = scores.shape[1]
        while True:
            logits, state, _ = self.step(tokens[-1], state, memory)
            sums = self.sums(logits, scores).index_fill(2, torch.tensor(banned), -torch.inf)
            best, index = sums.flatten(1).topk(beam)
            token = (index % sums.shape[2]).flatten()
            if len(tokens) == count or self.is_over(token, best):
                break
            scores = best
            tokens.append(token)
            parents.append(self.rows(index // sums.shape[2]))
            state = self.after(state, parents[-1])
        rows = [torch.stack(each) for each in ((token, *tokens[1:]), (token, *parents))]
        return BeamSteps(rows[0][1:], rows[1][1:], scores, logits, state)


@wrong("beam_steps_are_steps", "step 0 of beam_steps does not choose the best continuations")
def beam_steps_with_logits() -> Made:
    class Raw(Beam):
        def sums(self, logits: Tensor, scores: Tensor) -> Tensor:
            return 2 * logits.unflatten(0, scores.shape) + scores[..., None]

    return Raw


@wrong("beam_steps_are_steps", "step 0 of beam_steps does not choose the best continuations")
def beam_steps_that_number_rows_within_a_sentence() -> Made:
    class Within(Beam):
        def rows(self, parents: Tensor) -> Tensor:
            return parents.flatten()

    return Within


@wrong("beam_steps_are_steps", "beam_steps ends after 1 steps without an end token")
def beam_steps_that_end_early() -> Made:
    class Early(Beam):
        def is_over(self, token: Tensor, best: Tensor) -> bool:
            return True

    return Early


@wrong("beam_steps_are_steps", "a step from the state of beam_steps: off by")
def beam_steps_that_return_another_state() -> Made:
    class Reversed(Beam):
        def beam_steps(self, *given: Any) -> Any:
            steps: Any = super().beam_steps(*given)
            return steps._replace(state=gather(steps.state, torch.arange(len(given[0])).flip(0)))

    return Reversed


@wrong("beam_steps_are_steps", "the scores of beam_steps: off by")
def beam_steps_that_return_the_last_gains() -> Made:
    class Gains(Beam):
        def beam_steps(self, *given: Any) -> Any:
            steps: Any = super().beam_steps(*given)
            return steps._replace(scores=steps.scores - given[3])

    return Gains


@wrong("beam_steps_are_steps", "of beam_steps comes after an end token")
def beam_steps_after_the_end() -> Made:
    class Endless(Beam):
        def is_over(self, token: Tensor, best: Tensor) -> bool:
            return False

    return Endless


@wrong("beam_steps_are_steps", "step 0 of beam_steps does not choose the best continuations")
def beam_steps_of_prefixes_that_are_not_continued() -> Made:
    class Continues(Beam):
        def sums(self, logits: Tensor, scores: Tensor) -> Tensor:
            return super().sums(logits, scores.nan_to_num(neginf=-1.0))

    return Continues


@wrong("beam_steps_are_steps", "beam_steps")
def beam_steps_that_do_not_reorder_the_state() -> Made:
    class Stays(Beam):
        def after(self, state: State, parents: Tensor) -> State:
            return state

    return Stays
