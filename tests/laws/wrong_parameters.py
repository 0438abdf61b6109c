"""Faults in a network's parameters, config, device, precision and random numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from tests.laws.networks import Made, Memory, Network, Right, State, wrong
from zoo import Dim, Table
from zoo.nn import Output, Step


class Scaled(Network):
    """The correct network with one more parameter, `scale`, which may be missing from the table."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.scale = nn.Parameter(torch.ones(config.dim))

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        return self.scale * super().next(words, before)


class ScaledConfig(Right):
    """A config whose table has `scale`; `reason` states why it gets no gradient."""

    reason: str | None = Field(None, description="why it gets no gradient")

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        table = super().parameters(source_vocab, target_vocab)
        table.add("scale", "g", (Dim("d", self.dim),), zero_gradient=self.reason)
        return table


@wrong("parameter_table_matches_network", "scale (32,) is not in the table")
def a_parameter_missing_from_the_table() -> Made:
    return Scaled, Right()


@wrong("parameter_table_matches_network", "its total is 2,784, the network has 2,752")
def a_table_with_an_extra_row() -> Made:
    return Network, ScaledConfig()


@wrong("parameter_table_matches_network", "does not fit (32, 32)")
def a_miscounted_parameter() -> Made:
    class Miscounts(Right):
        def parameters(self, source_vocab: int, target_vocab: int) -> Table:
            table = Table()
            d = Dim("d", self.dim)
            for row in super().parameters(source_vocab, target_vocab):
                if row.path == "inner.weight":
                    table.add(row.path, "W", (d, 2 * d))
                else:
                    table.rows.append(row)
            return table

    return Network, Miscounts()


@wrong("step_equals_forward", "step 0 differs from forward: off by")
def a_gain_that_steps_apply_twice() -> Made:
    class Twice(Scaled):
        """All numbers of `scale` are 1 before training."""

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, [state[0] * self.scale], memory, attention)
            return step._replace(logits=step.logits * self.scale.mean())

    return Twice, ScaledConfig()


class Closed(Scaled):
    """What forward adds to the logits is multiplied by `scale`, whose numbers are 0 at first."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.scale = nn.Parameter(torch.zeros(config.dim))

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        return Network.next(self, words, before) + self.scale * words


@wrong("future_is_ignored", "positions before 1 depend on what follows: off by")
def future_tokens_behind_a_closed_gate() -> Made:
    class Leaks(Closed):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            output = super().forward(source, source_mask, target, attention)
            read = self.target(target).sum(1, keepdim=True) * self.scale
            return output._replace(logits=output.logits + self.output(read))

    return Leaks, ScaledConfig()


@wrong("every_parameter_gets_a_gradient", "g (scale) gets no gradient and declares no zero_gradient")  # fmt: skip  # noqa: E501
def a_parameter_without_gradient() -> Made:
    class Idle(Scaled):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return Network.next(self, words, before)

    return Idle, ScaledConfig()


@wrong("every_parameter_gets_a_gradient", "declares zero_gradient but gets a gradient")
def a_gradient_declared_to_be_zero() -> Made:
    return Scaled, ScaledConfig(reason="a wrong reason")


@wrong("randomness_is_seeded", "do not come from torch's default generator")
def randomness_outside_the_generator() -> Made:
    class Dice(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            factor = random.random() if self.training else 1.0
            return factor * super().next(words, before)

    return Dice


@wrong("randomness_is_seeded", "dropout has training=True outside training mode")
def dropout_outside_training() -> Made:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return nn.functional.dropout(super().next(words, before), 0.1)

    return Drops


@wrong("randomness_is_seeded", "dropout has training=True outside training mode")
def dropout_of_probability_0_outside_training() -> Made:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return nn.functional.dropout(super().next(words, before), 0.0)

    return Drops


@wrong("randomness_is_seeded", "feature_dropout has training=True outside training mode")
def dropout_of_torchs_own_outside_training() -> Made:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return torch.feature_dropout(super().next(words, before), 0.0, True)

    return Drops


@wrong("randomness_is_seeded", "random numbers are drawn outside training mode")
def a_step_that_draws_random_numbers() -> Made:
    class Draws(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=step.logits + 0 * torch.rand_like(step.logits))

    return Draws


@wrong("randomness_is_seeded", "the logits of step are random outside training mode")
def a_step_that_draws_numbers_of_python() -> Made:
    class Draws(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=step.logits + random.random())

    return Draws


@wrong("randomness_is_seeded", "the constructor sets the seed of torch's default generator")
def a_constructor_that_sets_the_seed() -> Made:
    class Seeds(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            torch.manual_seed(0)
            super().__init__(config, source_vocab, target_vocab)

    return Seeds


@wrong("randomness_is_seeded", "networks of two seeds have equal weights")
def weights_that_are_not_drawn() -> Made:
    class Counts(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            with torch.no_grad():
                for weight in self.parameters():
                    weight.copy_(torch.linspace(-1, 1, weight.numel()).view_as(weight))

    return Counts


@wrong("randomness_is_seeded", "the random numbers of source.weight, target.weight, inner.weight,")
def a_constructor_with_a_seed_of_its_own() -> Made:
    class Seeds(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            with torch.random.fork_rng([]):
                torch.manual_seed(0)
                super().__init__(config, source_vocab, target_vocab)

    return Seeds


@wrong("randomness_is_seeded", "in training, the network sets the seed")
def a_training_pass_that_sets_the_seed() -> Made:
    class Seeds(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            if self.training:
                torch.manual_seed(0)
            return super().next(words, before)

    return Seeds


@wrong("randomness_is_seeded", "two networks of one seed differ in inner.bias")
def initial_weights_from_another_generator() -> Made:
    class Starts(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            nn.init.constant_(self.inner.bias, random.random())

    return Starts


@wrong("config_round_trips", "comes back from JSON as")
def a_config_that_does_not_round_trip() -> Made:
    class Doubles(Right):
        @model_validator(mode="before")
        @classmethod
        def _double(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**values, "dim": 2 * values["dim"]} if "dim" in values else values

    return Network, Doubles()


@wrong("config_round_trips", "silently accepts an unknown key")
def a_config_that_takes_any_key() -> Made:
    class Takes(Right, extra="ignore"):
        pass

    return Network, Takes()


@wrong("config_round_trips", "config fields without a description: depth")
def a_field_without_a_description() -> Made:
    class Undescribed(Right):
        depth: int = 1

    return Network, Undescribed()


@wrong("tensors_follow_the_device", "received tensors on cpu and meta")
def a_tensor_without_a_device() -> Made:
    class Counts(Network):
        def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
            positions = torch.arange(memory.mask.shape[1])
            near = memory.states * (positions < 1000)[:, None]
            return super().attend(state, Memory(near, memory.mask))

    return Counts


@wrong("tensors_follow_the_device", "received tensors on cpu and meta")
def a_device_written_as_a_string() -> Made:
    class Names(Network):
        def init_state(self, memory: Memory) -> State:
            shape = memory.states[:, 0].shape
            return [torch.zeros(shape, device="cpu", dtype=memory.states.dtype)]

    return Names


@wrong("tensors_follow_the_device", "state holds a tensor (5, 32) on meta, but the model is on cpu")
def a_state_on_another_device() -> Made:
    class Leaves(Network):
        def init_state(self, memory: Memory) -> State:
            return [*super().init_state(memory), torch.zeros(memory.states[:, 0].shape)]

    return Leaves


@wrong("every_precision_works", "float64 fails")
def a_network_of_float32_only() -> Made:
    class Single(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return super().next(words.float(), before.float())

    return Single


@wrong("every_precision_works", "bfloat16 fails")
def a_network_that_fails_in_bf16() -> Made:
    class Ones(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return super().next(words + torch.ones(1, device=words.device), before)

    return Ones


@wrong("every_precision_works", "bfloat16 fails: value cannot be converted")
def a_constant_that_bf16_cannot_hold() -> Made:
    class Huge(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            # Almost the largest float32 number; bfloat16 rounds it up to infinity.
            one = torch.full_like(words, 3.4e38)
            return super().next(words + (one - one), before)

    return Huge


class Halved(torch.autograd.Function):
    """The identity, with a backward pass that computes in float16."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        if gradient.dtype == torch.float64:
            return gradient
        return (1e9 * gradient).half().to(gradient.dtype) / 1e9


@wrong("every_precision_trains", "in float32 is infinite or NaN")
def a_backward_pass_that_float16_cannot_hold() -> Made:
    class Halving(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            halved: Tensor = Halved.apply(words)  # type: ignore[no-untyped-call]  # torch has no types for it
            return super().next(halved, before)

    return Halving


@wrong("weights_round_trip", "loaded weights give other logits")
def weights_that_do_not_round_trip() -> Made:
    class Beside(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            self.factor = 0.5 + float(torch.rand((), device="cpu"))

        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return self.factor * super().next(words, before)

    return Beside


@wrong("network_has_only_parameters", "buffers ['sums']")
def a_buffer() -> Made:
    class Buffers(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            self.register_buffer("sums", torch.zeros(1), persistent=False)

    return Buffers


@wrong("network_has_only_parameters", "parameters are not torch.float32: inner.bias is torch.float64")  # fmt: skip  # noqa: E501
def a_parameter_of_another_type() -> Made:
    class Doubles(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            self.inner.bias = nn.Parameter(self.inner.bias.detach().double())

    return Doubles


@wrong("network_has_only_parameters", "built on the meta device, inner.bias are elsewhere")
def a_constructor_that_names_a_device() -> Made:
    class Names(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            self.inner.bias = nn.Parameter(torch.zeros(self.inner.bias.shape, device="cpu"))

    return Names
