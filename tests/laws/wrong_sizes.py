"""Faults that show up in a sentence alone, in short ones, in training, or in the arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.laws.networks import Made, Memory, Network, State, wrong
from zoo.nn import Encoded, Output, Step


@wrong("shapes", "step's logits are (17,), not (rows, target_vocab) = (1, 17)")
def logits_squeezed_for_one_row() -> Made:
    class Squeezes(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=step.logits[:, None].squeeze())

    return Squeezes


@wrong("shapes", "state holds a tensor (32,) for 1 rows: its rows are not on dimension 0")
def a_state_squeezed_for_one_row() -> Made:
    class Squeezes(Network):
        def init_state(self, memory: Memory) -> State:
            return [super().init_state(memory)[0][None].squeeze()]

    return Squeezes


@wrong("step_equals_forward", "step 0 of a sentence alone differs from forward: off by")
def a_step_that_differs_for_one_row() -> Made:
    class Centers(Network):
        """Subtracts the mean over the beam, or for one row over what `squeeze` left."""

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=step.logits - step.logits[:1].mean() * (len(token) == 1))

    return Centers


@wrong("future_is_ignored", "positions before 7 depend on the length of the target: off by")
def a_length_of_the_target_that_leaks() -> Made:
    class Scales(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=output.logits / target.shape[1])

    return Scales


@wrong("length_limits_hold", "the network raised RuntimeError: maximum size for tensor at")
def a_window_that_is_longer_than_a_word() -> Made:
    class Window(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            source.unfold(1, 3, 1)
            return super().forward(source, source_mask, target, attention)

    return Window


@wrong("length_limits_hold", "sources of 1 and targets of 2 tokens give logits of shape (2, 17)")
def logits_squeezed_for_one_token() -> Made:
    class Squeezes(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=output.logits.squeeze(1))

    return Squeezes


@wrong("padding_is_ignored", "in training mode, three more columns of padding change the logits")
def padding_that_leaks_in_training() -> Made:
    class Unmasked(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            real = torch.ones_like(source_mask) if self.training else source_mask
            return super().forward(source, real, target, attention)

    return Unmasked


@wrong("padding_is_ignored", "padding change the logits of a source of 37 tokens: off by")
def padding_that_leaks_in_long_sources() -> Made:
    class Unmasked(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            real = torch.ones_like(source_mask) if source.shape[1] > 16 else source_mask
            return super().forward(source, real, target, attention)

    return Unmasked


@wrong("every_source_token_matters", "source token 18 of 37 does not affect the logits")
def a_source_that_is_read_up_to_the_16th_token() -> Made:
    class Cuts(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            return super().forward(source[:, :16], source_mask[:, :16], target, attention)

    return Cuts


@wrong("arguments_stay_as_they_are", "changes `target` in place in training mode")
def words_dropped_in_place() -> Made:
    class Drops(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            if self.training:
                target[torch.rand_like(target, dtype=torch.float) < 0.5] = 3
            return super().forward(source, source_mask, target, attention)

    return Drops


@wrong("arguments_stay_as_they_are", "encode or forward changes `source` in place in training mode")
def padding_replaced_in_place() -> Made:
    class Replaces(Network):
        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            return super().encode(source.masked_fill_(~source_mask, 3), source_mask, attention)

    return Replaces


@wrong("training_follows_translation", "the network raised RuntimeError: Inference tensors cannot")
def a_table_that_is_kept_from_a_translation() -> Made:
    class Keeps(Network):
        table: Tensor | None = None

        def next(self, words: Tensor, before: Tensor) -> Tensor:
            if self.table is None or self.table.device != words.device:
                self.table = words.new_ones(words.shape[-1])
            return super().next(words * self.table, before)

    return Keeps


@wrong("every_precision_works", "autocast fails: Index put requires the source and destination")
def a_product_assigned_to_another_type() -> Made:
    class Assigns(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            after = torch.empty_like(words)
            after[torch.arange(len(words))] = self.inner(words + before)
            return torch.tanh(after)

    return Assigns


@wrong("length_limits_hold", "the network raised IndexError: index 512 is out of bounds")
def a_table_of_fewer_positions_than_are_read() -> Made:
    class Bounded(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            table = torch.zeros(512, device=target.device)
            zeros = table[torch.arange(target.shape[1], device=target.device)]
            output = super().forward(source, source_mask, target, attention)
            return output._replace(logits=output.logits + zeros.to(output.logits.dtype)[:, None])

    return Bounded


@wrong("length_limits_hold", "the network raised IndexError: index 512 is out of bounds")
def a_table_of_fewer_positions_than_are_written() -> Made:
    class Bounded(Network):
        def init_state(self, memory: Memory) -> State:
            (zeros,) = super().init_state(memory)
            return [zeros, torch.zeros_like(memory.mask[:, 0], dtype=torch.long)]

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            before, position = state
            step = super().step(token, [before], memory, attention)
            table = torch.zeros(512, device=token.device)[position]
            return step._replace(
                logits=step.logits + table[:, None].to(step.logits.dtype),
                state=[*step.state, position + 1],
            )

    return Bounded
