"""The layers of T5: attention, feed-forward and residual connections.

A mask is True where a query must not attend to a key (see `attend`).
"""

from typing import NamedTuple

from torch import Tensor, nn

from zoo.nn import Dropout, KeyValueCache, Linear, Source
from zoo_t5.attention import RMSNorm, activation, attend
from zoo_t5.config import T5Config

Weights = list[Tensor] | None
"""Where attention is requested: each layer's weights in turn, (rows, heads, queries, keys)."""


class Scored(NamedTuple):
    """What changes the scores of a layer's self-attention: (…, heads, n, m) and (…, 1, n, m)."""

    bias: Tensor
    mask: Tensor | None


class Attention(nn.Module):
    """Multi-head self-attention; q, k and v come from one product."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.heads, self.p = config.heads, config.dropout
        inner = config.heads * config.head_dim
        self.project = Linear(config.dim, 3 * inner, bias=False)
        self.out = Linear(inner, config.dim, bias=False)

    @property
    def dropout(self) -> float:
        """The probability of dropping an attention weight now."""
        return self.p if self.training else 0.0

    def split_heads(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Split (rows, n, parts × k) into parts of (rows, heads, n, d_h)."""
        rows, n, width = x.shape
        head_dim = width // (parts * self.heads)  # -1 would be ambiguous without rows
        return x.view(rows, n, parts, self.heads, head_dim).permute(2, 0, 3, 1, 4).unbind(0)

    def merge_heads(self, x: Tensor) -> Tensor:
        """Concatenate the heads of (rows, heads, n, d_h) and map them by W_h: (rows, n, d)."""
        return self.out(x.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, scored: Scored, weights: Weights) -> Tensor:
        """Attend from every position of x, (rows, n, d), to all that the mask allows."""
        query, key, value = self.split_heads(self.project(x), 3)
        return self.merge_heads(attend(query, key, value, *scored, self.dropout, weights))

    def attend_to_prefix(
        self, x: Tensor, cache: KeyValueCache, layer: int, scored: Scored, weights: Weights
    ) -> Tensor:
        """Attend from the last position, x (rows, 1, d), to the prefix, and add it to the cache."""
        query, key, value = self.split_heads(self.project(x), 3)
        keys, values = cache.write(layer, key, value)
        query = cache.fold_beam(query)
        attended = attend(query, keys, values, *scored, self.dropout, weights)
        if weights is not None:
            weights.append(cache.prefix_weights(weights.pop()))
        return self.merge_heads(cache.unfold_beam(attended))


class CrossAttention(Attention):
    """Attention from the target to the source, without position biases."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        inner = config.heads * config.head_dim
        self.query = Linear(config.dim, inner, bias=False)
        self.project = Linear(config.dim, 2 * inner, bias=False)

    def attend_to_source(self, x: Tensor, source: Source, weights: Weights) -> Tensor:
        """Attend from x, (rows, n, d), to the source.

        The rows of a sentence's beam are further queries to one copy of its keys and values.
        """
        (rows, n, d), sentences = x.shape, len(source.keys)
        queries = self.query(x).view(sentences, rows // sentences * n, -1)
        query = self.split_heads(queries, 1)[0]
        keys, values, mask = source
        attended = attend(query, keys, values, None, mask, self.dropout, weights)
        if weights is not None:  # (sentences, heads, beam × n, m) to (rows, heads, n, m)
            parts = weights.pop().unflatten(2, (rows // sentences, n))
            weights.append(parts.transpose(1, 2).flatten(0, 1))
        return self.merge_heads(attended).view(rows, n, d)


class Layer(nn.Module):
    """What both stacks share: each sublayer f computes x + dropout(f(norm(x)))."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.gated, self.activation = config.gated, activation(config.activation)
        self.attention, self.attention_norm = Attention(config), RMSNorm(config)
        hidden = config.feedforward_dim * (2 if config.gated else 1)
        self.inner = Linear(config.dim, hidden, bias=False)
        self.outer = Linear(config.feedforward_dim, config.dim, bias=False)
        self.feedforward_norm = RMSNorm(config)
        self.dropout = Dropout(config.dropout)

    def feedforward(self, x: Tensor) -> Tensor:
        """Return the feed-forward sublayer with its residual connection."""
        inner = self.inner(self.feedforward_norm(x))
        if self.gated:
            gate, linear = inner.chunk(2, -1)
            inner = self.activation(gate) * linear
        else:
            inner = self.activation(inner)
        return x + self.dropout(self.outer(self.dropout(inner)))


class EncoderLayer(Layer):
    """Self-attention, then feed-forward."""

    def forward(self, x: Tensor, scored: Scored, weights: Weights) -> Tensor:
        """Run the layer over the source, (sentences, m, d)."""
        attended = self.attention(self.attention_norm(x), scored, weights)
        return self.feedforward(x + self.dropout(attended))


class DecoderLayer(Layer):
    """Self-attention to the prefix, attention to the source, then feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.cross, self.cross_norm = CrossAttention(config), RMSNorm(config)

    def keys_and_values(self, encoded: Tensor) -> tuple[Tensor, ...]:
        """Return the source's keys and values from the encoder's output, (sentences, m, d)."""
        # Contiguous, since every step reads them again.
        parts = self.cross.split_heads(self.cross.project(encoded), 2)
        return tuple(x.contiguous() for x in parts)

    def forward(
        self,
        x: Tensor,
        cache: tuple[KeyValueCache, int] | None,
        scored: Scored,
        source: Source,
        weights: tuple[Weights, Weights],
    ) -> Tensor:
        """Run the layer over x, (rows, n, d).

        Args:
            x: every position of the target, or only the last one if there is a cache.
            cache: the cache, and the number of this layer in it.
            scored: the position biases and the mask of self-attention.
            source: the source's keys and values.
            weights: where self-attention's and cross-attention's weights are appended.
        """
        of_self, of_cross = weights
        before = self.attention_norm(x)
        if cache is None:
            attended = self.attention(before, scored, of_self)
        else:
            attended = self.attention.attend_to_prefix(before, *cache, scored, of_self)
        x = x + self.dropout(attended)
        attended = self.cross.attend_to_source(self.cross_norm(x), source, of_cross)
        return self.feedforward(x + self.dropout(attended))
