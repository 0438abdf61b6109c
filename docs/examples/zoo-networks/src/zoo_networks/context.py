"""Two sources: a text and its context, each with an encoder, and a gate between them.

The decoder's state h attends to the states of each encoder by a softmax of its own, which gives the
contexts c of the text and e of the other source. The gate decides how much of e is read (Voita et al.
2018, section 4.2):

    g = σ(W_g [h; c; e] + b_g),   h̃ = tanh(W_m [h; c; g ⊗ e] + b_m)
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from zoo.nn import AttentionKind, Encoded, Output, Seq2Seq, Step, run_padded, split_sources

from zoo_networks.configs import ContextConfig


class Memory(NamedTuple):
    """The states of each source, (sentences, m_k, 2 d), and its mask, (sentences, m_k)."""

    states: list[Tensor]
    masks: list[Tensor]


class Context(Seq2Seq[Memory, Tensor]):
    """The state is that of the decoder's GRU, (rows, d)."""

    def __init__(self, config: ContextConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        d = config.dim
        # Keys are the tokens of the text and then those of its context, each padded: `cross` has
        # the two softmaxes, halved, side by side, and its columns are no positions of the source.
        self.attention_kinds = {"cross": AttentionKind(stride=None)}
        self.source_embedding = nn.Embedding(source_vocab, d)
        self.encoders = nn.ModuleList(
            nn.GRU(d, d, bidirectional=True, batch_first=True) for _ in config.sources
        )
        self.target_embedding = nn.Embedding(target_vocab, d)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.queries = nn.ModuleList(nn.Linear(d, 2 * d, bias=False) for _ in config.sources)
        self.gate, self.mix = nn.Linear(5 * d, 2 * d), nn.Linear(5 * d, d)
        self.output = nn.Linear(d, target_vocab, bias=False)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read each source by its own encoder."""
        parts = split_sources(source, source_mask, len(self.encoders))
        states = []
        for encoder, (tokens, mask) in zip(self.encoders, parts, strict=True):
            assert isinstance(encoder, nn.GRU)
            states.append(run_padded(encoder, self.source_embedding(tokens), mask)[0])
        return Encoded(Memory(states, [mask for _, mask in parts]))

    def predict(self, states: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return logits of (sentences, n, d), and the attention, (sentences, n, keys)."""
        contexts, maps = [], []
        for query, keys, mask in zip(self.queries, memory.states, memory.masks, strict=True):
            scores = query(states) @ keys.mT / keys.shape[-1] ** 0.5
            weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
            contexts.append(weights @ keys)
            maps.append(weights / len(memory.states))
        text, context = contexts
        gate = self.gate(torch.cat([states, text, context], -1)).sigmoid()
        mixed = self.mix(torch.cat([states, text, gate * context], -1)).tanh()
        return self.output(mixed), torch.cat(maps, -1)

    def init_state(self, memory: Memory) -> Tensor:
        """Return zeros, one row per sentence."""
        keys = memory.states[0]
        return keys.new_zeros(len(keys), keys.shape[2] // 2)

    def step(
        self, token: Tensor, state: Tensor, memory: Memory, attention: bool = False
    ) -> Step[Tensor]:
        """Read one token per row; the rows of a sentence are queries to one memory."""
        _, states = self.decoder(self.target_embedding(token)[:, None], state[None])
        rows = states[0].unflatten(0, (len(memory.masks[0]), -1))
        logits, weights = self.predict(rows, memory)
        kinds = {"cross": weights.flatten(0, 1)[:, None, None, None]} if attention else {}
        return Step(logits.flatten(0, 1), states[0], kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory = self.encode(source, source_mask).memory
        states, _ = self.decoder(self.target_embedding(target))
        logits, weights = self.predict(states, memory)
        return Output(logits, {"cross": weights[:, None, None]} if attention else {})

    def onnx_reasons(self) -> list[str]:
        """Return why this network cannot be exported: where a source ends depends on its tokens."""
        return ["its two sources are divided by their end tokens"]
