"""Attention whose weights need not sum to one, over fewer keys than the source has tokens.

A bidirectional GRU reads the source, and a convolution of kernel and stride s makes one key k_j of
s states. The decoder's state q_i attends by

    α_ij = σ(q_i · k_j / √d − log m'),   c_i = Σ_j α_ij k_j

with m' the number of keys (Ramapuram et al. 2025, section 3).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from zoo.nn import AttentionKind, Encoded, Output, Seq2Seq, Step, run_padded

from zoo_networks.configs import PooledConfig


class Memory(NamedTuple):
    """The keys, (sentences, keys, d), and which of them are real, (sentences, keys)."""

    keys: Tensor
    mask: Tensor


class Pooled(Seq2Seq[Memory, Tensor]):
    """The state is that of the decoder's GRU, (rows, d)."""

    def __init__(self, config: PooledConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        d, self.stride = config.dim, config.stride
        self.attention_kinds = {"cross": AttentionKind(sums_to_one=False, stride=self.stride)}
        self.source_embedding: nn.Module = nn.Embedding(source_vocab, d)
        self.encoder = nn.GRU(d, d, bidirectional=True, batch_first=True)
        self.pool = nn.Linear(2 * self.stride * d, d)
        self.target_embedding = nn.Embedding(target_vocab, d)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.query = nn.Linear(d, d)
        self.mix = nn.Linear(2 * d, d)
        self.output = nn.Linear(d, target_vocab)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources in both directions, and pool them; padding is zero on the way."""
        states, _ = run_padded(self.encoder, self.source_embedding(source), source_mask)
        states = pad(states, (0, 0, 0, -states.shape[1] % self.stride))
        pooled = states.unflatten(1, (-1, self.stride)).flatten(2)
        return Encoded(Memory(self.pool(pooled).tanh(), source_mask[:, :: self.stride]))

    def attend(self, states: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return what predicts, (sentences, queries, d), and weights, (sentences, queries, keys)."""
        bias = memory.mask.sum(1).to(states.dtype).log()[:, None, None]
        scores = self.query(states) @ memory.keys.mT / states.shape[-1] ** 0.5 - bias
        weights = scores.sigmoid() * memory.mask[:, None]
        return self.mix(torch.cat([states, weights @ memory.keys], -1)).tanh(), weights

    def init_state(self, memory: Memory) -> Tensor:
        """Return zeros, one row per sentence."""
        return torch.zeros_like(memory.keys[:, 0])

    def step(
        self, token: Tensor, state: Tensor, memory: Memory, attention: bool = False
    ) -> Step[Tensor]:
        """Read one token per row; the rows of a sentence are queries to one memory."""
        _, states = self.decoder(self.target_embedding(token)[:, None], state[None])
        mixed, weights = self.attend(states[0].unflatten(0, (len(memory.mask), -1)), memory)
        kinds = {"cross": weights.flatten(0, 1)[:, None, None, None]} if attention else {}
        return Step(self.output(mixed.flatten(0, 1)), states[0], kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        return self.decode(self.encode(source, source_mask).memory, target, attention)

    def decode(self, memory: Memory, target: Tensor, attention: bool) -> Output:
        """Return the logits of all positions of targets, given the memory."""
        states, _ = self.decoder(self.target_embedding(target))
        mixed, weights = self.attend(states, memory)
        return Output(self.output(mixed), {"cross": weights[:, None, None]} if attention else {})
