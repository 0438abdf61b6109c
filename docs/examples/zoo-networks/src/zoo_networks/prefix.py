"""A decoder alone: source and target are one sequence, and the source is its prefix.

The layers are those of a Transformer with norms before each part. A source token attends to the
source, in both directions; a target token attends to the source and to the target so far, in one
softmax. Positions are rotary (Su et al. 2021): the source has 0 … m − 1, and the target goes on at
m, the sentence's own length, whatever the padding. Nothing is computed twice: the memory holds the
source's keys and values of every layer, the state those of the target.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from zoo.nn import Encoded, KeyValueCache, Output, Seq2Seq, Step

from zoo_networks.configs import MaskedConfig, PrefixConfig
from zoo_networks.rotary import rotate


class Memory(NamedTuple):
    """Each layer's keys and values, (sentences, heads, m, d_h), and the source mask, (sentences, m)."""

    keys: list[Tensor]
    values: list[Tensor]
    mask: Tensor


def attend(query: Tensor, key: Tensor, allowed: Tensor) -> Tensor:
    """Return softmax(q kᵀ / √d_h), (rows, heads, n, keys); `allowed` is bool and broadcasts."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)


class Layer(nn.Module):
    """Attention and a feed-forward network, each x + f(norm(x))."""

    def __init__(self, config: PrefixConfig | MaskedConfig) -> None:
        super().__init__()
        d, self.heads = config.dim, config.heads
        self.attention_norm, self.inner_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.project = nn.Linear(d, 3 * d, bias=False)
        self.output = nn.Linear(d, d, bias=False)
        self.inner, self.outer = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def heads_of(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of (rows, n, d), each (rows, heads, n, d_h)."""
        parts = self.project(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        return rotate(q, positions), rotate(k, positions), v

    def close(self, x: Tensor, contexts: Tensor) -> Tensor:
        """Return the layer's output, given the contexts of its heads, (rows, heads, n, d_h)."""
        x = x + self.output(contexts.transpose(1, 2).flatten(2))
        return x + self.outer(gelu(self.inner(self.inner_norm(x))))


class Prefix(Seq2Seq[Memory, KeyValueCache]):
    """One stack of layers reads source and target."""

    def __init__(self, config: PrefixConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.embedding = nn.Embedding(target_vocab, config.dim)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.output = nn.Linear(config.dim, target_vocab, bias=False)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the prefix; its last layer's output is not needed, only its keys and values."""
        x, memory, maps = self.embedding(source), Memory([], [], source_mask), []
        positions = torch.arange(source.shape[1], device=source.device)
        for layer in cast("Iterable[Layer]", self.layers):
            q, k, v = layer.heads_of(x, positions)
            weights = attend(q, k, source_mask[:, None, None])
            x = layer.close(x, weights @ v)
            memory.keys.append(k)
            memory.values.append(v)
            maps.append(weights)
        return Encoded(memory, {"encoder": torch.stack(maps, 1)} if attention else {})

    def init_state(self, memory: Memory) -> KeyValueCache:
        """Return an empty cache."""
        return KeyValueCache(len(memory.mask))

    def step(
        self, token: Tensor, state: KeyValueCache, memory: Memory, attention: bool = False
    ) -> Step[KeyValueCache]:
        """Read one token per row; a beam's rows are queries to one memory and one cache."""
        state = state.extended()
        lengths = memory.mask.sum(1).repeat_interleave(state.beam)
        positions = lengths[:, None] + state.length - 1
        x, maps = self.embedding(token)[:, None], []
        m = memory.mask.shape[1]
        for number, layer in enumerate(cast("Iterable[Layer]", self.layers)):
            q, k, v = layer.heads_of(x, positions)
            keys, values = state.write(number, k, v)
            allowed = memory.mask[:, None, None].expand(-1, 1, state.beam, -1)
            written = state.mask
            if written is None:
                written = allowed.new_ones(len(allowed), 1, state.beam, keys.shape[2])
            weights = attend(
                state.fold_beam(q),
                torch.cat([memory.keys[number], keys], 2),
                torch.cat([allowed, written], 3),
            )
            contexts = weights @ torch.cat([memory.values[number], values], 2)
            x = layer.close(x, state.unfold_beam(contexts))
            of_source = state.unfold_beam(weights[..., :m])
            maps.append(torch.cat([of_source, state.prefix_weights(weights[..., m:])], 3))
        kinds = {"joint": torch.stack(maps, 1)} if attention else {}
        return Step(self.output(self.norm(x[:, 0])), state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory, kinds = self.encode(source, source_mask, attention)
        n = target.shape[1]
        positions = source_mask.sum(1)[:, None] + torch.arange(n, device=target.device)
        causal = torch.ones(n, n, dtype=torch.bool, device=target.device).tril()
        allowed = torch.cat(
            [source_mask[:, None].expand(-1, n, -1), causal.expand(len(source), -1, -1)], 2
        )[:, None]
        x, maps = self.embedding(target), []
        for number, layer in enumerate(cast("Iterable[Layer]", self.layers)):
            q, k, v = layer.heads_of(x, positions)
            weights = attend(q, torch.cat([memory.keys[number], k], 2), allowed)
            x = layer.close(x, weights @ torch.cat([memory.values[number], v], 2))
            maps.append(weights)
        joint = {**kinds, "joint": torch.stack(maps, 1)} if attention else {}
        return Output(self.output(self.norm(x)), joint)
