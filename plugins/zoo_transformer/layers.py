"""The layers of the Transformer: multi-head attention, feed-forward, residuals and norms.

Section numbers are those of Vaswani et al. 2017. A mask is True where a query must not attend to a
key (see `attend`).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import (
    Dropout,
    KeyValueCache,
    LayerParts,
    Linear,
    Source,
    add_norm,
    attention_sublayer,
    feedforward_sublayer,
)
from zoo_transformer.attention import attend
from zoo_transformer.config import TransformerConfig

Weights = list[Tensor] | None
"""Where attention is requested: each layer's weights in turn, (rows, heads, queries, keys)."""


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": F.silu,
    "tanh": torch.tanh,
}


class Attention(nn.Module):
    """Multi-head self-attention (section 3.2.2); q, k and v come from one product."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.project = Linear(config.dim, 3 * config.dim, bias=config.attention_bias)
        self.out = Linear(config.dim, config.dim, bias=config.attention_bias)

    def split_heads(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Split (rows, n, parts × d) into parts of (rows, heads, n, d_h)."""
        rows, n, width = x.shape
        head_dim = width // (parts * self.heads)  # -1 would be ambiguous without rows
        return x.view(rows, n, parts, self.heads, head_dim).permute(2, 0, 3, 1, 4).unbind(0)

    def merge_heads(self, x: Tensor) -> Tensor:
        """Concatenate the heads of (rows, heads, n, d_h) and map them by W_h: (rows, n, d)."""
        return self.out(x.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, mask: Tensor | None, weights: Weights) -> Tensor:
        """Attend from every position of x, (rows, n, d), to all that the mask allows."""
        query, key, value = self.split_heads(self.project(x), 3)
        return self.merge_heads(attend(query, key, value, mask, weights))

    def attend_to_prefix(
        self, x: Tensor, cache: KeyValueCache, layer: int, mask: Tensor | None, weights: Weights
    ) -> Tensor:
        """Attend from the last position, x (rows, 1, d), to the prefix, and add it to the cache."""
        query, key, value = self.split_heads(self.project(x), 3)
        keys, values = cache.write(layer, key, value)
        attended = attend(cache.fold_beam(query), keys, values, mask, weights)
        if weights is not None:
            weights.append(cache.prefix_weights(weights.pop()))
        return self.merge_heads(cache.unfold_beam(attended))


class CrossAttention(Attention):
    """Attention from the target to the source; `project` gives the source's k and v."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.query = Linear(config.dim, config.dim, bias=config.attention_bias)
        self.project = Linear(config.dim, 2 * config.dim, bias=config.attention_bias)

    def attend_to_source(self, x: Tensor, source: Source, weights: Weights) -> Tensor:
        """Attend from x, (rows, n, d), to the source.

        The rows of a sentence's beam are further queries to one copy of its keys and values.
        """
        (rows, n, d), sentences = x.shape, len(source.keys)
        queries = self.query(x).view(sentences, -1, d)  # (sentences, beam × n, d)
        query = self.split_heads(queries, 1)[0]
        attended = attend(query, *source, weights)
        if weights is not None:  # (sentences, heads, beam × n, m) to (rows, heads, n, m)
            parts = weights.pop().unflatten(2, (rows // sentences, n))
            weights.append(parts.transpose(1, 2).flatten(0, 1))
        return self.merge_heads(attended).view(rows, n, d)


class UnbiasedNorm(nn.Module):
    """γ (x − mean) / (deviation + ε) + β, with the unbiased standard deviation."""

    def __init__(self, dim: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (…, d) over its last dimension."""
        deviation = x.std(-1, keepdim=True) + self.epsilon
        return self.weight * (x - x.mean(-1, keepdim=True)) / deviation + self.bias


def make_norm(config: TransformerConfig) -> nn.Module:
    """Return the layer norm that the config names (Ba et al. 2016, or the unbiased one)."""
    kind = UnbiasedNorm if config.unbiased_norm else nn.LayerNorm
    return kind(config.dim, config.epsilon)


def is_idle(dropout: nn.Module) -> bool:
    """Return whether this is dropout that changes nothing."""
    return type(dropout) is Dropout and not dropout.training


class Layer(nn.Module):
    """What both stacks share: self-attention, feed-forward, residual connections and norms."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = config.norm
        self.attention = Attention(config)
        self.attention_norm = make_norm(config)
        self.inner = Linear(config.dim, config.feedforward_dim)
        self.activation = config.activation
        self.outer = Linear(config.feedforward_dim, config.dim)
        self.feedforward_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def has_kernel(self, *called: nn.Module) -> bool:
        """Return whether the kernels may know this sublayer, which calls these modules.

        They know how it is added, except in training, and call no hooks.
        """
        if self.norm == "branch" or self.training or not is_idle(self.dropout):
            return False
        modules = (*called, self.dropout)
        return not any(module._forward_hooks or module._forward_pre_hooks for module in modules)

    def self_attention(
        self,
        x: Tensor,
        mask: Tensor | None,
        weights: Weights,
        cache: tuple[KeyValueCache, int] | None = None,
    ) -> Tensor:
        """Return the self-attention sublayer with its residual connection."""
        attention, norm = self.attention, self.attention_norm
        is_known = type(attention) is Attention and weights is None
        if is_known and self.has_kernel(attention):
            parts, pre = (attention.project, attention.out, norm), self.norm == "pre"
            by_kernel = attention_sublayer(
                x, *parts, pre=pre, heads=attention.heads, cache=cache, mask=mask
            )
            if by_kernel is not None:
                return by_kernel
        before = self.sublayer_input(x, norm)
        if cache is None:
            return self.add(x, attention(before, mask, weights), norm)
        return self.add(x, attention.attend_to_prefix(before, *cache, mask, weights), norm)

    def sublayer_input(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return the input of a sublayer: x, normalized in a pre-norm Transformer."""
        return norm(x) if self.norm == "pre" else x

    def add(self, x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
        """Add a sublayer's output y to x, by the residual connection of the config."""
        y = self.dropout(y)
        if self.norm == "branch":
            return x + norm(y)
        return x + y if self.norm == "pre" else add_norm(x, y, norm)

    def feedforward(self, x: Tensor) -> Tensor:
        """Return the feed-forward sublayer with its residual connection, section 3.3."""
        if self.has_kernel() and self.activation == "relu":
            parts = (self.inner, self.outer, self.feedforward_norm)
            by_kernel = feedforward_sublayer(x, *parts, pre=self.norm == "pre")
            if by_kernel is not None:
                return by_kernel
        inner = self.inner(self.sublayer_input(x, self.feedforward_norm))
        if self.activation != "relu" or inner.requires_grad:
            inner = ACTIVATIONS[self.activation](inner)
        else:
            inner.relu_()  # in place: it is the largest tensor
        return self.add(x, self.outer(inner), self.feedforward_norm)

    def parts(self) -> LayerParts | None:
        """Return the sublayers for the kernels; None if they do not know them."""
        attention = self.attention
        is_known = type(attention) is Attention and self.activation == "relu"
        if not is_known or not self.has_kernel(attention):
            return None
        return LayerParts(
            (attention.project, attention.out, self.attention_norm),
            None,
            (self.inner, self.outer, self.feedforward_norm),
        )


class EncoderLayer(Layer):
    """Self-attention, then feed-forward."""

    def forward(self, x: Tensor, key_padding_mask: Tensor, weights: Weights) -> Tensor:
        """Run the layer over the source, (sentences, m, d)."""
        return self.feedforward(self.self_attention(x, key_padding_mask, weights))


class DecoderLayer(Layer):
    """Self-attention to the prefix, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.cross = CrossAttention(config)
        self.cross_norm = make_norm(config)

    def keys_and_values(self, encoded: Tensor) -> tuple[Tensor, ...]:
        """Return the source's keys and values from the encoder's output, (sentences, m, d)."""
        # Contiguous, since every step reads them again.
        parts = self.cross.split_heads(self.cross.project(encoded), 2)
        return tuple(x.contiguous() for x in parts)

    def forward(
        self,
        x: Tensor,
        cache: tuple[KeyValueCache, int] | None,
        mask: Tensor | None,
        source: Source,
        weights: tuple[Weights, Weights],
    ) -> Tensor:
        """Run the layer over x, (rows, n, d).

        Args:
            x: every position of the target, or only the last one if there is a cache.
            cache: the cache, and the number of this layer in it.
            mask: what self-attention must not attend to.
            source: the source's keys and values.
            weights: where self-attention's and cross-attention's weights are appended.
        """
        of_self, of_cross = weights
        x = self.self_attention(x, mask, of_self, cache)
        return self.feedforward(self.cross_attention(x, source, of_cross))

    def parts(self) -> LayerParts | None:
        """Return the sublayers for the kernels; None if they do not know them."""
        parts, cross = super().parts(), self.cross
        if parts is None or not self.has_known_cross() or cross.heads != self.attention.heads:
            return None
        return parts._replace(cross=(cross.query, cross.out, self.cross_norm))

    def has_known_cross(self) -> bool:
        """Return whether the kernels know the attention to the source."""
        cross = self.cross
        return type(cross) is CrossAttention and type(cross.project) is Linear

    def cross_attention(self, x: Tensor, source: Source, weights: Weights) -> Tensor:
        """Return the sublayer of attention to the source with its residual connection."""
        cross, norm = self.cross, self.cross_norm
        if type(cross) is CrossAttention and weights is None and self.has_kernel():
            parts, pre = (cross.query, cross.out, norm), self.norm == "pre"
            by_kernel = attention_sublayer(x, *parts, pre=pre, heads=cross.heads, source=source)
            if by_kernel is not None:
                return by_kernel
        before = self.sublayer_input(x, norm)
        return self.add(x, cross.attend_to_source(before, source, weights), norm)
