"""Faults in a network's results: steps, gathering, masks and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from tests.laws.networks import Made, Memory, Network, Right, State, wrong
from zoo import LengthLimits
from zoo.nn import Cache, Encoded, Output, Step


@wrong("results_are_named_tuples", "forward with attention=True returns a tuple (Tensor, dict, dict), not zoo.nn.Output")  # fmt: skip  # noqa: E501
def another_type_with_attention() -> Made:
    class Branches(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return cast(Output, tuple(output)) if attention else output

    return Branches


@wrong("results_are_named_tuples", "step returns Step with logits of type list, not zoo.nn.Step(")
def fields_in_another_order() -> Made:
    class Swaps(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            logits, after, kinds = super().step(token, state, memory, attention)
            return Step(cast(Tensor, after), cast(State, logits), kinds)

    return Swaps


@wrong("results_are_named_tuples", "forward returns Output with attention of type NoneType and losses of type NoneType, not")  # fmt: skip  # noqa: E501
def fields_that_are_none() -> Made:
    class Empty(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return Output(output.logits, cast(Any, None), cast(Any, None))

    return Empty


@wrong("logits_are_finite", "forward gives infinite or NaN logits")
def a_token_that_cannot_follow() -> Made:
    class Copies(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            copied = torch.zeros_like(output.logits).scatter(2, target[..., None], 1.0)
            return output._replace(logits=copied.log())

    return Copies


@wrong("logits_are_finite", "step gives infinite or NaN logits")
def a_step_that_bans_padding() -> Made:
    class Bans(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            banned = torch.arange(step.logits.shape[1]) == 0
            return step._replace(logits=step.logits.masked_fill(banned, -torch.inf))

    return Bans


@wrong("step_equals_forward", "step 0 differs from forward: off by")
def a_step_that_differs_from_forward() -> Made:
    class Scales(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=step.logits * 1.001)

    return Scales


@wrong("step_equals_forward", "step 2 differs from forward")
def a_window_that_is_too_short() -> Made:
    class Forgets(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            old = state[0]
            step = super().step(token, [old], memory, attention)
            after = step.state[0]
            return step._replace(state=[torch.where(old == 0, after, torch.zeros_like(after))])

    return Forgets


@wrong("step_equals_forward", "step 16 differs from forward: off by")
def a_window_of_sixteen_positions() -> Made:
    class Window(Network):
        """Its state counts the steps; from the 17th on, it starts again."""

        def init_state(self, memory: Memory) -> State:
            (state,) = super().init_state(memory)
            return [state, torch.zeros_like(state[:, 0])]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            before = torch.where(state[1][:, None] < 16, state[0], torch.zeros_like(state[0]))
            step = super().step(token, [before], memory, attention)
            return step._replace(state=[step.state[0], state[1] + 1])

    return Window


@wrong("gather_commutes_with_step", "the network raised RuntimeError")
def state_that_gather_does_not_reach() -> Made:
    class Hides(Network):
        def init_state(self, memory: Memory) -> State:
            self.hidden_state = super().init_state(memory)
            return [torch.zeros_like(memory.states[:, 0])]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, self.hidden_state, memory, attention)
            self.hidden_state = step.state
            return step

    return Hides


@wrong("gather_commutes_with_step", "the step of a reordered beam is not the reordered step")
def a_cache_that_keeps_the_order_of_a_beam() -> Made:
    class Stuck(Cache):
        """Gathers rows only where their number changes."""

        def append(self, values: Tensor) -> Cache:
            return Stuck(super().append(values).values)

        def gather(self, rows: Tensor) -> Cache:
            return self if len(rows) == len(self.values) else Stuck(super().gather(rows).values)

    class Keeps(Network):
        def init_state(self, memory: Memory) -> State:
            (state,) = super().init_state(memory)
            return cast(State, [Stuck(state[:, None])])

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            cache = cast(Stuck, state[0])
            step = super().step(token, [cache.values[:, -1]], memory, attention)
            after = [cache.append(step.state[0][:, None])]
            return step._replace(state=cast(State, after))

    return Keeps


@wrong("gather_commutes_with_step", "of a beam differs from that of a beam of 1")
def state_that_gather_reaches_in_part() -> Made:
    class HidesHalf(Network):
        """Stores half of its state on the module, where gather does not reorder its rows."""

        def init_state(self, memory: Memory) -> State:
            (state,) = super().init_state(memory)
            self.half_state = state
            return [state]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            rows = torch.arange(len(token)) % len(self.half_state)
            step = super().step(token, [state[0] + self.half_state[rows]], memory, attention)
            self.half_state = step.state[0] / 2
            return step._replace(state=[step.state[0] / 2])

    return HidesHalf


@wrong("gather_commutes_with_step", "row 0 of each beam differs from a beam of 1, one step later")
def state_that_is_a_mean_over_the_beam() -> Made:
    class Pooled(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            rows = step.state[0].unflatten(0, (len(memory.mask), -1))
            return step._replace(state=[rows.mean(1, keepdim=True).expand_as(rows).flatten(0, 1)])

    return Pooled


@wrong("shapes", "its rows are not on dimension 0")
def state_along_the_wrong_dimension() -> Made:
    class LayersFirst(Network):
        # Five layers, like the batch's five rows, so that the length of dimension 0 is correct.
        def init_state(self, memory: Memory) -> State:
            return [super().init_state(memory)[0].expand(5, -1, -1)]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, [state[0][0]], memory, attention)
            return step._replace(state=[step.state[0].expand(5, -1, -1)])

    return LayersFirst


@wrong("shapes", "grows along dimension 0, its rows")
def a_cache_that_grows_along_the_rows() -> Made:
    class Grows(Network):
        def init_state(self, memory: Memory) -> State:
            parts = [*super().init_state(memory), Cache(memory.states[:, 0], 0)]
            return cast(State, parts)

    return Grows


@wrong("shapes", "a dict cannot be part of memory or state: memory and state are nested")
def state_of_a_type_that_gather_does_not_know() -> Made:
    class Dictionary(Network):
        def init_state(self, memory: Memory) -> State:
            return cast(State, [*super().init_state(memory), {"hidden": 1}])

    return Dictionary


@wrong("shapes", "forward's logits are")
def logits_of_the_last_position_only() -> Made:
    class Last(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=output.logits[:, -1])

    return Last


@wrong("padding_is_ignored", "three more columns of padding change the logits")
def padding_that_leaks() -> Made:
    class Unmasked(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            return super().forward(source, torch.ones_like(source_mask), target, attention)

    return Unmasked


@wrong("future_is_ignored", "positions before 1 depend on what follows")
def future_tokens_that_leak() -> Made:
    class Peeks(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            logits = super().forward(source, source_mask, target).logits
            return Output(logits + 1e-3 * logits.mean(1, keepdim=True))

    return Peeks


@wrong("future_is_ignored", "in training mode, positions before 4 depend on what follows: off by")
def future_tokens_that_leak_in_training() -> Made:
    class Peeks(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            leak = 1e-3 * output.logits.mean(1, keepdim=True) if self.training else 0.0
            return output._replace(logits=output.logits + leak)

    return Peeks


@wrong("future_is_ignored", "the logits at position 1 ignore the token there")
def a_decoder_that_never_reads_the_target() -> Made:
    class Ignores(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            return super().forward(source, source_mask, torch.ones_like(target), attention)

    return Ignores


@wrong("every_source_token_matters", "source token 0 of 3 does not affect the logits")
def a_source_token_that_is_never_read() -> Made:
    class Skips(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            mask = source_mask.clone()
            mask[:, 0] = False
            return super().forward(source, mask, target, attention)

    return Skips


@wrong("batches_are_independent", "step 0 differs once another batch is decoded")
def a_result_of_encode_stored_on_the_module() -> Made:
    class Keeps(Network):
        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            self.level = self.source(source).mean()
            return super().encode(source, source_mask, attention)

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            offset = torch.arange(step.logits.shape[1]) * self.level
            return step._replace(logits=step.logits + offset)

    return Keeps


@wrong("step_is_pure", "step 1 changes the tokens that it receives, in place")
def tokens_changed_by_a_step() -> Made:
    class Rare(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            token[token >= 12] = 3
            return super().step(token, state, memory, attention)

        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            known = target.masked_fill(target >= 12, 3)
            return super().forward(source, source_mask, known, attention)

    return Rare


@wrong("step_is_pure", "a step changed the memory")
def memory_changed_by_a_step() -> Made:
    class Writes(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            memory.states.mul_(0.9)
            return super().step(token, state, memory, attention)

    return Writes


@wrong("step_is_pure", "step 0 changes the state that it receives, in place")
def an_in_place_write_to_an_earlier_state() -> Made:
    class InPlace(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            state[0].copy_(step.state[0])
            return step

    return InPlace


@wrong("step_is_pure", "step 0 changes the state that it receives, in place")
def a_buffer_shared_between_states() -> Made:
    class Shares(Network):
        """Writes every state to one buffer."""

        def init_state(self, memory: Memory) -> State:
            self.sums = torch.zeros_like(memory.states[:, 0])
            return [self.sums]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(state=[self.sums.copy_(step.state[0])])

    return Shares


@wrong("length_limits_hold", "the network raised IndexError")
def length_limits_that_are_too_long() -> Made:
    class Limited(Right):
        @property
        def length_limits(self) -> LengthLimits:
            return LengthLimits(30, 30)

    class Short(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            list(range(20))[source.shape[1] - 1]
            return super().forward(source, source_mask, target, attention)

    return Short, Limited()


@wrong("attention_flag_fills_a_field", "step returns attention that was not requested")
def attention_that_was_not_requested() -> Made:
    class Always(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            return super().step(token, state, memory, attention=True)

    return Always


@wrong("attention_flag_fills_a_field", "attention=True changes forward's logits: off by")
def logits_that_depend_on_the_flag() -> Made:
    class Other(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=output.logits * (1.001 if attention else 1.0))

    return Other


@wrong("attention_flag_fills_a_field", "attention=True changes the state: off by")
def a_state_that_depends_on_the_flag() -> Made:
    class Other(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(state=[step.state[0] * (1.001 if attention else 1.0)])

    return Other


@wrong("attention_flag_fills_a_field", "attention=True changes the memory: off by")
def a_memory_that_depends_on_the_flag() -> Made:
    class Other(Network):
        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            states = self.source(source) * (1.001 if attention else 1.0)
            return Encoded(Memory(states, source_mask))

    return Other


@wrong("forward_gives_every_attention", "step gives cross attention, forward does not: it gives none")  # fmt: skip  # noqa: E501
def a_kind_of_attention_that_forward_leaves_out() -> Made:
    class Silent(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            return super().forward(source, source_mask, target)

    return Silent


@wrong("forward_gives_every_attention", "forward gives cross attention, but neither encode nor step does; the coverage penalty needs step's")  # fmt: skip  # noqa: E501
def a_step_without_its_cross_attention() -> Made:
    class Silent(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            return super().step(token, state, memory)

    return Silent


def uniform(mask: Tensor) -> dict[str, Tensor]:
    """Return encoder attention with equal weights for all tokens that are not padding."""
    weights = mask.double() / mask.sum(1, keepdim=True)
    return {"encoder": weights[:, None, None, None].expand(-1, 1, 1, mask.shape[1], -1)}


@wrong("forward_gives_every_attention", "encode gives encoder attention, forward does not: it gives cross")  # fmt: skip  # noqa: E501
def an_encoder_attention_that_forward_leaves_out() -> Made:
    class Uniform(Network):
        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            encoded = super().encode(source, source_mask)
            return encoded._replace(attention=uniform(source_mask) if attention else {})

    return Uniform


@wrong("forward_gives_every_attention", "encoder attention of forward differs from encode's: off by")  # fmt: skip  # noqa: E501
def an_encoder_attention_that_differs() -> Made:
    class Uniform(Network):
        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            encoded = super().encode(source, source_mask)
            return encoded._replace(attention=uniform(source_mask) if attention else {})

        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            if not attention:
                return output
            real = torch.ones_like(source_mask)
            return output._replace(attention={**output.attention, **uniform(real)})

    return Uniform


@wrong("forward_gives_every_attention", "cross attention of step 1 differs from forward's: off by")
def a_step_whose_attention_differs() -> Made:
    class Later(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            late = bool((state[0] != 0).any())
            kinds = {
                kind: weights * (0.9 if late else 1) for kind, weights in step.attention.items()
            }
            return step._replace(attention=kinds)

    return Later


def replaced_attention(factor: float, kind: str) -> type[Network]:
    """Return a network whose forward multiplies its attention and gives it another kind."""

    class Replaces(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            kinds = {kind: factor * weights["cross"]} if (weights := output.attention) else {}
            return output._replace(attention=kinds)

    return Replaces


@wrong("attention_sums_to_one", "cross attention's sum: off by")
def attention_that_is_no_distribution() -> Made:
    return replaced_attention(2.0, "cross")


@wrong("attention_sums_to_one", "'across' is not a kind of attention; the kinds are encoder")
def attention_of_an_unknown_kind() -> Made:
    return replaced_attention(1.0, "across")


@wrong("attention_sums_to_one", "cross attention attends to padding or to the future")
def attention_to_padding() -> Made:
    class Pads(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            real = source_mask | torch.ones_like(source_mask) if attention else source_mask
            kinds = super().forward(source, real, target, attention).attention
            return Output(super().forward(source, source_mask, target).logits, kinds)

    return Pads


@wrong("attention_sums_to_one", "cross attention is (5, 1, 8, 1, 9), not (rows, layers, heads, queries, keys) = (5, layers, heads, 8, 9)")  # fmt: skip  # noqa: E501
def heads_and_queries_swapped() -> Made:
    class Swaps(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            kinds = {kind: weights.transpose(2, 3) for kind, weights in output.attention.items()}
            return output._replace(attention=kinds)

    return Swaps


@wrong("learns_a_copy_task", "after 400 updates on 8 pairs the loss is still")
def a_network_that_cannot_learn() -> Made:
    class Faint(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=1e-3 * output.logits)

    return Faint


@wrong("losses_are_sums_of_training", "loss 'size' of a batch that is given twice is not twice the batch's")  # fmt: skip  # noqa: E501
def a_loss_that_is_a_mean_over_the_batch() -> Made:
    class Mean(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            losses = {"size": output.logits.square().mean()} if self.training else {}
            return output._replace(losses=losses)

    return Mean


@wrong("losses_are_sums_of_training", "forward gives losses in evaluation mode")
def a_loss_in_evaluation_mode() -> Made:
    class Always(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(losses={"size": output.logits.square().sum()})

    return Always


def with_loss(loss: Callable[[Output, Tensor, Tensor], Any]) -> type[Network]:
    """Return a network with a loss, given what forward returns, the source mask and the target."""

    class Loses(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            losses = {"size": loss(output, source_mask, target)} if self.training else {}
            return output._replace(losses=losses)

    return Loses


@wrong("losses_are_sums_of_training", "more padding changes loss 'size': off by")
def a_loss_that_counts_padding_of_the_target() -> Made:
    return with_loss(lambda output, mask, target: output.logits.square().sum())


@wrong("losses_are_sums_of_training", "more padding changes loss 'size': off by")
def a_loss_that_counts_padding_of_the_source() -> Made:
    def per_token(output: Output, mask: Tensor, target: Tensor) -> Tensor:
        real = (target != 0)[..., None]
        return (output.logits * real).square().sum() / mask.shape[1]

    return with_loss(per_token)


@wrong("losses_are_sums_of_training", "loss 'size' is a float, not a tensor of one number")
def a_loss_that_is_no_tensor() -> Made:
    return with_loss(lambda output, mask, target: output.logits.square().sum().item())
