"""A network that satisfies every law, and the list of faulty networks that break one law each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn

from zoo import Config, Dim, Table
from zoo.nn import Encoded, Output, Seq2Seq, Step


class Right(Config):
    """The config of the correct network, and of most faulty ones."""

    dim: int = Field(32, description="width d")

    @classmethod
    def example(cls) -> Self:
        return cls()

    @property
    def width(self) -> int:
        return self.dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        table.add("source.weight", "W_i", (vs, d))
        table.add("target.weight", "W_o", (vt, d))
        table.add("inner.weight", "W", (d, d))
        table.add("inner.bias", "b", (d,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        return table


class Memory(NamedTuple):
    states: Tensor
    mask: Tensor


State: TypeAlias = list[Tensor]


class Network(Seq2Seq[Memory, State]):
    """A tanh recurrence that attends to the embedded source: the correct network."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.source = nn.Embedding(source_vocab, config.dim)
        self.target = nn.Embedding(target_vocab, config.dim)
        self.inner = nn.Linear(config.dim, config.dim)
        self.output = nn.Linear(config.dim, target_vocab, bias=False)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        return Encoded(Memory(self.source(source), source_mask))

    def init_state(self, memory: Memory) -> State:
        return [torch.zeros_like(memory.states[:, 0])]

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        return torch.tanh(self.inner(words + before))

    def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        scores = state.unflatten(0, (len(memory.mask), -1)) @ memory.states.mT
        scores = (scores / state.shape[-1] ** 0.5).masked_fill(~memory.mask[:, None], -torch.inf)
        weights = scores.softmax(-1)
        return (weights @ memory.states).flatten(0, 1), weights.flatten(0, 1)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        after = self.next(self.target(token), state[0])
        context, weights = self.attend(after, memory)
        kinds = {"cross": weights[:, None, None, None]} if attention else {}
        return Step(self.output(after + context), [after], kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        # Calls the methods of this class, so that a subclass's step may differ from its forward.
        memory = Network.encode(self, source, source_mask).memory
        state, logits, weights = Network.init_state(self, memory), [], []
        for token in target.T:
            step = Network.step(self, token, state, memory, attention=True)
            state = step.state
            logits.append(step.logits)
            weights.append(step.attention["cross"])
        kinds = {"cross": torch.cat(weights, 3)} if attention else {}
        return Output(torch.stack(logits, 1), kinds)


Made: TypeAlias = type[Network] | tuple[type[Network], Config]


class Wrong(NamedTuple):
    """A fault: the law that must detect it, a part of the message, and the faulty network."""

    law: str
    message: str
    make: Callable[[], Made]

    def build(self) -> tuple[type[Network], Config]:
        made = self.make()
        return made if isinstance(made, tuple) else (made, Right())


WRONG: dict[str, Wrong] = {}
"""Every fault by name."""


def wrong(law: str, message: str) -> Callable[[Callable[[], Made]], None]:
    """Add a fault under the name of the function that makes its network."""

    def add(make: Callable[[], Made]) -> None:
        WRONG[make.__name__] = Wrong(law, message, make)

    return add
