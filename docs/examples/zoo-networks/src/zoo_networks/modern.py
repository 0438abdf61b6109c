"""A Transformer with rotary positions, RMS norms, SwiGLU and grouped queries.

Each layer is x + f(norm(x)) for self-attention, in the decoder cross-attention, and a feed-forward
network W_2 (silu(W_g x) ⊗ W_1 x) (Shazeer 2020). One product gives the queries of h heads and the keys
and values of g < h heads, each of which h / g query heads share (Ainslie et al. 2023). The position of
a decoded token is read off the cache.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from zoo.nn import Encoded, KeyValueCache, Output, Seq2Seq, Step

from zoo_networks.configs import ModernConfig
from zoo_networks.prefix import attend
from zoo_networks.rotary import rotate


class Memory(NamedTuple):
    """Keys and values of each decoder layer, (sentences, g, m, d_h), and the mask, (sentences, m)."""

    keys: list[Tensor]
    values: list[Tensor]
    mask: Tensor


class Layer(nn.Module):
    """A layer of the encoder, or, with the second attention, of the decoder."""

    def __init__(self, config: ModernConfig, cross: bool) -> None:
        super().__init__()
        d, self.head = config.dim, config.head
        q, kv = config.heads * config.head, config.groups * config.head
        self.sizes, self.shared = (q, kv, kv), config.heads // config.groups
        self.attention_norm, self.inner_norm = nn.RMSNorm(d, 1e-6), nn.RMSNorm(d, 1e-6)
        self.project = nn.Linear(d, q + 2 * kv, bias=False)
        self.output = nn.Linear(q, d, bias=False)
        self.inner, self.outer = nn.Linear(d, 4 * d, bias=False), nn.Linear(2 * d, d, bias=False)
        if cross:
            self.cross_norm = nn.RMSNorm(d, 1e-6)
            self.cross_query = nn.Linear(d, q, bias=False)
            self.cross_project = nn.Linear(d, 2 * kv, bias=False)
            self.cross_output = nn.Linear(q, d, bias=False)

    def heads(self, x: Tensor) -> Tensor:
        """Turn (rows, n, heads × d_h) into (rows, heads, n, d_h)."""
        return x.unflatten(2, (-1, self.head)).transpose(1, 2)

    def parts(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of (rows, n, d); the first two have their positions."""
        parts = self.project(self.attention_norm(x)).split(self.sizes, 2)
        q, k, v = (self.heads(part) for part in parts)
        return rotate(q, positions), rotate(k, positions), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts, (rows, h, n, d_h), and weights, (rows, h, n, keys)."""
        k, v = (x.repeat_interleave(self.shared, 1) for x in (k, v))
        weights = attend(q, k, allowed)
        return weights @ v, weights

    def close(self, x: Tensor, contexts: Tensor) -> Tensor:
        """Return x after the output of self-attention."""
        return x + self.output(contexts.transpose(1, 2).flatten(2))

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return x after the feed-forward network."""
        inner, gate = self.inner(self.inner_norm(x)).chunk(2, 2)
        return x + self.outer(silu(gate) * inner)


class Modern(Seq2Seq[Memory, KeyValueCache]):
    """Encoder and decoder stacks of such layers."""

    def __init__(self, config: ModernConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        d, count = config.dim, config.layers
        self.source_embedding = nn.Embedding(source_vocab, d)
        self.target_embedding = nn.Embedding(target_vocab, d)
        encoder, decoder = ([Layer(config, cross) for _ in range(count)] for cross in (False, True))
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.encoder_norm, self.decoder_norm = nn.RMSNorm(d, 1e-6), nn.RMSNorm(d, 1e-6)
        self.output = nn.Linear(d, target_vocab, bias=False)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources up to the keys and values of every decoder layer."""
        x, maps = self.source_embedding(source), []
        positions = torch.arange(source.shape[1], device=source.device)
        for layer in self.encoder:
            assert isinstance(layer, Layer)
            contexts, weights = layer.attend(*layer.parts(x, positions), source_mask[:, None, None])
            x = layer.feed_forward(layer.close(x, contexts))
            maps.append(weights)
        x, keys, values = self.encoder_norm(x), [], []
        for layer in self.decoder:
            assert isinstance(layer, Layer)
            key, value = (layer.heads(part) for part in layer.cross_project(x).chunk(2, 2))
            keys.append(key)
            values.append(value)
        kinds = {"encoder": torch.stack(maps, 1)} if attention else {}
        return Encoded(Memory(keys, values, source_mask), kinds)

    def init_state(self, memory: Memory) -> KeyValueCache:
        """Return an empty cache."""
        return KeyValueCache(len(memory.mask))

    def decode(
        self, target: Tensor, cache: KeyValueCache | None, memory: Memory, attention: bool
    ) -> Output:
        """Return the logits of targets, (rows, n): all positions, or the last one of a cache."""
        n = target.shape[1]
        first = 0 if cache is None else cache.length - 1  # where the cache's new token stands
        positions = first + torch.arange(n, device=target.device)
        causal = torch.ones(n, n, dtype=torch.bool, device=target.device).tril()
        of_source = memory.mask[:, None, None]
        x, selves, crosses = self.target_embedding(target), [], []
        for number, layer in enumerate(self.decoder):
            assert isinstance(layer, Layer)
            q, k, v = layer.parts(x, positions)
            if cache is None:
                contexts, own = layer.attend(q, k, v, causal)
            else:
                allowed = causal if cache.mask is None else cache.mask
                keys, values = cache.write(number, k, v)
                contexts, own = layer.attend(cache.fold_beam(q), keys, values, allowed)
                contexts, own = cache.unfold_beam(contexts), cache.prefix_weights(own)
            x = layer.close(x, contexts)
            query = layer.heads(layer.cross_query(layer.cross_norm(x)))
            query = query if cache is None else cache.fold_beam(query)
            contexts, cross = layer.attend(
                query, memory.keys[number], memory.values[number], of_source
            )
            if cache is not None:
                contexts, cross = cache.unfold_beam(contexts), cache.unfold_beam(cross)
            x = x + layer.cross_output(contexts.transpose(1, 2).flatten(2))
            x = layer.feed_forward(x)
            selves.append(own)
            crosses.append(cross)
        kinds = {"decoder": torch.stack(selves, 1), "cross": torch.stack(crosses, 1)}
        return Output(self.output(self.decoder_norm(x)), kinds if attention else {})

    def step(
        self, token: Tensor, state: KeyValueCache, memory: Memory, attention: bool = False
    ) -> Step[KeyValueCache]:
        """Read one token per row."""
        state = state.extended()
        logits, kinds, _ = self.decode(token[:, None], state, memory, attention)
        return Step(logits[:, 0], state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory, kinds = self.encode(source, source_mask, attention)
        output = self.decode(target, None, memory, attention)
        return output._replace(attention={**kinds, **output.attention})
