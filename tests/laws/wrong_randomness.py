"""Faults of dropout whose probability is in the config, of seeds, and of what is kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from pydantic import Field
from torch import Tensor, nn

from tests.laws.networks import Made, Memory, Network, Right, wrong

TABLES: dict[int, Tensor] = {}


class Dropping(Right):
    """A config of dropout, which is off in its example."""

    dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention")


class Dropped(Network):
    """Keeps the probability of its config."""

    def __init__(self, config: Dropping, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.probability = config.dropout


class Fused(Dropped):
    """Attends by torch's fused attention, with dropout of `dropout`."""

    @property
    def dropout(self) -> float:
        """The probability."""
        return self.probability if self.training else 0.0

    def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        query = state.unflatten(0, (len(memory.mask), -1))
        mask = memory.mask[:, None].expand(-1, query.shape[1], -1)
        context = F.scaled_dot_product_attention(
            query, memory.states, memory.states, mask, self.dropout
        )
        return context.flatten(0, 1), super().attend(state, memory)[1]


@wrong("randomness_is_seeded", "random numbers are drawn outside training mode")
def attention_with_dropout_outside_training() -> Made:
    class Always(Fused):
        @property
        def dropout(self) -> float:
            return self.probability

    return Always, Dropping()


@wrong("randomness_is_seeded", "random numbers are drawn outside training mode")
def dropout_by_hand_outside_training() -> Made:
    class Draws(Dropped):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            after = super().next(words, before)
            if self.probability:
                after = after * (torch.rand_like(after) > self.probability)
            return after

    return Draws, Dropping()


def of_one_seed(method: str) -> type[Network]:
    """Return a network that draws some of its weights with a seed of its own."""

    class Seeds(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            if method == "generator":
                generator = torch.Generator(self.inner.weight.device).manual_seed(0)
                nn.init.normal_(self.inner.weight, generator=generator)
            else:
                with torch.random.fork_rng([]):
                    torch.manual_seed(0)
                    nn.init.normal_(self.inner.weight)

    return Seeds


@wrong("randomness_is_seeded", "the random numbers of inner.weight do not depend on the seed")
def some_weights_of_a_generator_with_a_seed() -> Made:
    return of_one_seed("generator")


@wrong("randomness_is_seeded", "the random numbers of inner.weight do not depend on the seed")
def some_weights_of_one_seed() -> Made:
    return of_one_seed("manual_seed")


def of_numbers(draw: Callable[[int], Any]) -> type[Network]:
    """Return a network some of whose weights are numbers that `draw` returns."""

    class Seeds(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            weight = self.inner.weight
            numbers = torch.tensor(draw(weight.numel())).view_as(weight)
            with torch.no_grad():
                weight.copy_(numbers)

    return Seeds


@wrong("randomness_is_seeded", "numpy.random.default_rng gets the seed 3, whatever torch's")
def some_weights_of_one_seed_of_numpy() -> Made:
    return of_numbers(lambda count: np.random.default_rng(3).normal(size=count))


@wrong("randomness_is_seeded", "numpy.random.RandomState gets the seed 4, whatever torch's")
def some_weights_of_a_state_of_numpy() -> Made:
    return of_numbers(lambda count: np.random.RandomState(4).normal(size=count))


@wrong("randomness_is_seeded", "random.Random gets the seed 5, whatever torch's")
def some_weights_of_one_seed_of_python() -> Made:
    return of_numbers(lambda count: [*map(random.Random(5).gauss, [0.0] * count, [1.0] * count)])


@wrong("randomness_is_seeded", "in training, random.Random gets the seed 6, whatever torch's")
def one_seed_of_python_in_training() -> Made:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            after = super().next(words, before)
            if self.training:
                drawn = random.Random(6)
                after = after * torch.tensor([drawn.random() > 0.1 for _ in range(after.shape[-1])])
            return after

    return Drops


@wrong("randomness_is_seeded", "in training, random numbers of shape")
def masks_of_a_generator_with_a_seed() -> Made:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            after = super().next(words, before)
            if self.training:
                drawn = torch.Generator().manual_seed(0)
                after = after * torch.full_like(after, 0.5).bernoulli(generator=drawn)
            return after

    return Drops


@wrong("batches_are_independent", "the module keeps a tensor of the batch as `last`")
def a_tensor_that_the_module_keeps() -> Made:
    class Keeps(Network):
        last: Any = None

        def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
            encoded = super().encode(source, source_mask, attention)
            self.last = [encoded.memory.states]
            return encoded

    return Keeps


@wrong("weights_round_trip", "outside training, a method of the network changes target.weight")
def an_embedding_that_changes_its_weights() -> Made:
    class Bounded(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            self.target = nn.Embedding(target_vocab, config.dim, max_norm=1.0)

    return Bounded


@wrong("training_follows_translation", "the network raised RuntimeError: Inference tensors cannot")
def tables_that_the_module_keeps_by_length() -> Made:
    class Keeps(Network):
        def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
            length = memory.states.shape[1]
            if not memory.states.is_meta and memory.states.dtype is torch.float64:
                table = TABLES.setdefault(length, memory.states.new_ones(length, 1))
                memory = memory._replace(states=memory.states * table)
            return super().attend(state, memory)

    return Keeps


def fixed() -> tuple[type[Network], Dropping]:
    """Return a network whose fixed, not random, weights are allowed, as is its dropout."""

    class Fixed(Fused):
        def __init__(self, config: Dropping, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            with torch.no_grad():
                self.inner.weight.copy_(torch.linspace(-1, 1, config.dim**2).view(config.dim, -1))

    return Fixed, Dropping()
