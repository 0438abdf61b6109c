"""The network: layers of diagonal state spaces, in the decoder each followed by attention.

A layer reads u and updates a state x, whose dimensions decay at different rates:

    x_t = a ⊙ x_{t−1} + √(1 − a²) ⊙ (W_b u_t + b_b),   a = exp(−exp(ρ))
    y_t = u_t + W_c (x_t ⊙ silu(W_g u_t + b_g)) + b_c

The recurrence is linear and does not change over time, so training computes all positions at once,
in spans of doubling length. Decoding computes one step.
"""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo.nn import Encoded, Output, Seq2Seq, Step

from zoo_statespace.config import StateSpaceConfig


class Memory(NamedTuple):
    """The encoder's states, (sentences, m, d), and the source mask, (sentences, m)."""

    states: Tensor
    mask: Tensor


def scan(decay: Tensor, inputs: Tensor) -> Tensor:
    """Return x with x_t = decay ⊙ x_{t−1} + inputs_t and x_0 = 0; inputs are (rows, length, n)."""
    span = 1
    while span < inputs.shape[1]:
        inputs = torch.cat([inputs[:, :span], inputs[:, span:] + decay * inputs[:, :-span]], 1)
        decay, span = decay * decay, 2 * span
    return inputs


class Layer(nn.Module):
    """One gated state space with a residual connection."""

    def __init__(self, config: StateSpaceConfig) -> None:
        super().__init__()
        # Initially, half-lives from less than one token to about forty.
        self.log_rate = nn.Parameter(torch.linspace(-4.0, 0.0, config.states))
        self.project = nn.Linear(config.dim, 2 * config.states)
        self.output = nn.Linear(config.states, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def parts(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the decay, (n,), and the state's input and the gate, (…, n) each."""
        decay = torch.exp(-self.log_rate.exp())
        new, gate = self.project(inputs).chunk(2, -1)
        return decay, (1 - decay * decay).sqrt() * new, F.silu(gate)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (rows, length, d) from left to right; positions with a False mask do not enter states."""
        decay, new, gate = self.parts(inputs)
        if mask is not None:
            new = new * mask[..., None]
        return inputs + self.dropout(self.output(scan(decay, new) * gate))

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Map (rows, d), given a state (rows, n); return the output and the next state."""
        decay, new, gate = self.parts(inputs)
        state = decay * state + new
        return inputs + self.dropout(self.output(state * gate)), state


State = list[Tensor]
"""The state of each decoder layer, (rows, n)."""


class StateSpace(Seq2Seq[Memory, State]):
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
            # In reverse, padding comes first and does not enter the state, which stays 0.
            back = backward(states.flip(1), source_mask.flip(1)).flip(1)
            states = (onward(states, source_mask) + back) / 2
        return Encoded(Memory(states, source_mask))

    def attend(self, states: Tensor, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """Return states, (sentences, queries, d), plus contexts; and weights (sentences, queries, m)."""
        scores = self.queries[layer](states) @ memory.states.mT / states.shape[-1] ** 0.5
        weights = scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(-1)
        return states + weights @ memory.states, weights

    def init_state(self, memory: Memory) -> State:
        """Return zeros, one row per sentence."""
        sentences = len(memory.mask)
        return [memory.states.new_zeros(sentences, self.states) for _ in self.decoder]

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; the rows of a sentence are queries to one memory."""
        inputs, next_state, weights = self.target_embedding(token), [], []
        for number, layer in enumerate(self.decoder):
            inputs, layer_state = cast(Layer, layer).step(inputs, state[number])
            queries = inputs.unflatten(0, (len(memory.mask), -1))
            outputs, layer_weights = self.attend(queries, memory, number)
            inputs = outputs.flatten(0, 1)
            next_state.append(layer_state)
            weights.append(layer_weights.flatten(0, 1)[:, None])
        kinds = {"cross": _by_layer(weights)} if attention else {}
        return Step(self.output(inputs), next_state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory = self.encode(source, source_mask).memory
        inputs, weights = self.target_embedding(target), []
        for number, layer in enumerate(self.decoder):
            inputs, layer_weights = self.attend(layer(inputs), memory, number)
            weights.append(layer_weights)
        kinds = {"cross": _by_layer(weights)} if attention else {}
        return Output(self.output(inputs), kinds)


def _by_layer(weights: list[Tensor]) -> Tensor:
    """Stack each layer's (rows, queries, keys) to (rows, layers, 1 head, queries, keys)."""
    return torch.stack(weights, 1)[:, :, None]
