"""The network: layers of diagonal state spaces, each of the decoder's followed by attention.

A layer reads u and keeps a state x, which decays at a rate of its own in every dimension:

    x_t = a ⊙ x_{t−1} + √(1 − a²) ⊙ (W_b u_t + b_b),   a = exp(−exp(ρ))
    y_t = u_t + W_c (x_t ⊙ silu(W_g u_t + b_g)) + b_c

The recurrence is linear and the same at all times, so training computes all positions at once by
doubling; decoding takes one step.
"""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo.nn import Encoded, Output, Seq2Seq, Step

from zoo_statespace.config import StateSpaceConfig


class Memory(NamedTuple):
    """The source's states, (sentences, m, d), and its mask."""

    states: Tensor
    mask: Tensor


def scan(decay: Tensor, inputs: Tensor) -> Tensor:
    """Return x with x_t = decay ⊙ x_{t−1} + inputs_t, from x_0 = 0; inputs (rows, length, n)."""
    span = 1
    while span < inputs.shape[1]:
        inputs = torch.cat([inputs[:, :span], inputs[:, span:] + decay * inputs[:, :-span]], 1)
        decay, span = decay * decay, 2 * span
    return inputs


class Layer(nn.Module):
    """One state space with its gate, added to what came in."""

    def __init__(self, config: StateSpaceConfig) -> None:
        super().__init__()
        # Memories from one token to some fifty, at the start.
        self.log_rate = nn.Parameter(torch.linspace(-4.0, 0.0, config.states))
        self.project = nn.Linear(config.dim, 2 * config.states)
        self.output = nn.Linear(config.states, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def parts(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return decay (n,), what enters the state and the gate, (…, n) each."""
        decay = torch.exp(-self.log_rate.exp())
        new, gate = self.project(inputs).chunk(2, -1)
        return decay, (1 - decay * decay).sqrt() * new, F.silu(gate)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Read (rows, length, d) from the left; where the mask is False nothing enters a state."""
        decay, new, gate = self.parts(inputs)
        if mask is not None:
            new = new * mask[..., None]
        return inputs + self.dropout(self.output(scan(decay, new) * gate))

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read (rows, d) in state (rows, n); return what comes out and the state that follows."""
        decay, new, gate = self.parts(inputs)
        state = decay * state + new
        return inputs + self.dropout(self.output(state * gate)), state


class StateSpace(Seq2Seq[Memory, list[Tensor]]):
    """An encoder–decoder of diagonal state spaces."""

    def __init__(self, config: StateSpaceConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.states = config.states
        self.source_embedding = nn.Embedding(source_vocab, config.dim)
        self.target_embedding = nn.Embedding(target_vocab, config.dim)
        layers = range(config.layers)
        self.onward = nn.ModuleList(Layer(config) for _ in layers)
        self.backward = nn.ModuleList(Layer(config) for _ in layers)
        self.decoder = nn.ModuleList(Layer(config) for _ in layers)
        self.queries = nn.ModuleList(nn.Linear(config.dim, config.dim, bias=False) for _ in layers)
        self.output = nn.Linear(config.dim, target_vocab)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources in both directions."""
        states = self.source_embedding(source)
        for onward, backward in zip(self.onward, self.backward, strict=True):
            # Backwards the padding comes first: nothing enters there, so the state stays 0.
            back = backward(states.flip(1), source_mask.flip(1)).flip(1)
            states = (onward(states, source_mask) + back) / 2
        return Encoded(Memory(states, source_mask))

    def attend(self, states: Tensor, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """Add contexts to (sentences, queries, d); return weights (sentences, queries, m) too."""
        scores = self.queries[layer](states) @ memory.states.mT / states.shape[-1] ** 0.5
        weights = scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(-1)
        return states + weights @ memory.states, weights

    def init_state(self, memory: Memory) -> list[Tensor]:
        """Return zeros, (sentences, n) for each layer."""
        sentences = len(memory.mask)
        return [memory.states.new_zeros(sentences, self.states) for _ in self.decoder]

    def step(
        self, token: Tensor, state: list[Tensor], memory: Memory, attention: bool = False
    ) -> Step[list[Tensor]]:
        """Read one token a row. A sentence's rows are queries to one memory, never copied."""
        inputs, after, weights = self.target_embedding(token), [], []
        for number, layer in enumerate(self.decoder):
            inputs, kept = cast(Layer, layer).step(inputs, state[number])
            beams = inputs.unflatten(0, (len(memory.mask), -1))
            beams, seen = self.attend(beams, memory, number)
            inputs = beams.flatten(0, 1)
            after.append(kept)
            weights.append(seen.flatten(0, 1)[:, None])
        logits = self.output(inputs)
        return Step(logits, after, {"cross": _by_layer(weights)} if attention else {})

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory = self.encode(source, source_mask).memory
        inputs, weights = self.target_embedding(target), []
        for number, layer in enumerate(self.decoder):
            inputs, seen = self.attend(layer(inputs), memory, number)
            weights.append(seen)
        logits = self.output(inputs)
        return Output(logits, {"cross": _by_layer(weights)} if attention else {})


def _by_layer(weights: list[Tensor]) -> Tensor:
    """Return (rows, layers, 1 head, queries, keys) from each layer's (rows, queries, keys)."""
    return torch.stack(weights, 1)[:, :, None]
