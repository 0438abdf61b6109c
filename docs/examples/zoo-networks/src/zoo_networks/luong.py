"""Attention with input feeding (Luong et al. 2015, sections 3.1 and 3.3).

With h_t the decoder's LSTM state and s_j the encoder's,

    α_tj = softmax_j(h_t · W_a s_j),   c_t = Σ_j α_tj s_j,   h̃_t = tanh(W_c [c_t; h_t]),

the logits are W_s h̃_t, and the LSTM reads [E y_{t−1}; h̃_{t−1}]. So training goes step by step, too.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from zoo.nn import Encoded, Output, Seq2Seq, Step, run_padded

from zoo_networks.configs import LuongConfig


class Memory(NamedTuple):
    """The encoder's states, (sentences, m, d), the last hidden state and cell, and the mask."""

    states: Tensor
    hidden: Tensor
    cell: Tensor
    mask: Tensor


class State(NamedTuple):
    """The LSTM's state and cell, and h̃, which is fed to the next step; all (rows, d)."""

    hidden: Tensor
    cell: Tensor
    fed: Tensor


class Luong(Seq2Seq[Memory, State]):
    """An LSTM on each side; the decoder begins with the encoder's last state."""

    def __init__(self, config: LuongConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        d = config.dim
        self.encoder_embedding = nn.Embedding(source_vocab, d)
        self.encoder = nn.LSTM(d, d, batch_first=True)
        self.decoder_embedding = nn.Embedding(target_vocab, d)
        self.decoder = nn.LSTMCell(2 * d, d)
        self.score = nn.Linear(d, d, bias=False)
        self.mix = nn.Linear(2 * d, d, bias=False)
        self.output = nn.Linear(d, target_vocab, bias=False)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources from left to right."""
        embedded = self.encoder_embedding(source)
        states, (hidden, cell) = run_padded(self.encoder, embedded, source_mask)
        return Encoded(Memory(states, hidden[0], cell[0], source_mask))

    def init_state(self, memory: Memory) -> State:
        """Return the encoder's last state, and zeros in place of h̃."""
        return State(memory.hidden, memory.cell, torch.zeros_like(memory.hidden))

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; the rows of a sentence are queries to one memory."""
        read = torch.cat([self.decoder_embedding(token), state.fed], 1)
        hidden, cell = self.decoder(read, (state.hidden, state.cell))
        queries = hidden.unflatten(0, (len(memory.mask), -1))
        scores = queries @ self.score(memory.states).mT
        weights = scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(-1)
        contexts = (weights @ memory.states).flatten(0, 1)
        fed = self.mix(torch.cat([contexts, hidden], 1)).tanh()
        kinds = {"cross": weights.flatten(0, 1)[:, None, None, None]} if attention else {}
        return Step(self.output(fed), State(hidden, cell, fed), kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions: input feeding leaves no other way than steps."""
        memory = self.encode(source, source_mask).memory
        state, logits = self.init_state(memory), []
        maps: list[Tensor] = []
        for token in target.unbind(1):
            step = self.step(token, state, memory, attention)
            state = step.state
            logits.append(step.logits)
            maps.extend(step.attention.values())
        return Output(torch.stack(logits, 1), {"cross": torch.cat(maps, 3)} if attention else {})
