"""Attention with position biases, and the biases (Raffel et al. 2020, section 2.1)."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import softmax
from zoo_t5.config import T5Config

MAX_KEYS = 512
"""With more keys than this, torch's own kernel is faster than plain products on a CPU."""

SMALL = 400
"""torch's batched product computes matrices with fewer multiplications one number at a time."""

TABLE_LENGTH = 64
"""Distances in the first table of buckets; it doubles when a text is longer."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    dropout: float = 0.0,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """Return softmax(q kᵀ + bias) v, (rows, heads, n, d_h); the scores are not divided by √d_h.

    Args:
        query: (rows, heads, n, d_h).
        key, value: (rows, heads, m, d_h).
        bias: added to the scores; it broadcasts to (rows, heads, n, m). None adds nothing.
        mask: bool, True where a query must not attend to a key; it broadcasts likewise.
        dropout: the probability of dropping a weight.
        weights: a list to which the attention weights, (rows, heads, n, m), are appended.
    """
    short = query.device.type == "cpu" and key.shape[2] <= MAX_KEYS
    if weights is None and (not short or torch.compiler.is_compiling()):
        added = _one_bias(bias, mask, query)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=added, dropout_p=dropout, scale=1.0
        )
    scores = query @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores.add_(bias)
    if mask is not None:
        scores = scores.masked_fill_(mask, -math.inf)
    given = softmax(scores)
    if weights is not None:
        weights.append(given)
    if dropout:
        given = F.dropout(given, dropout)
    if given.shape[2] == 1 and value.shape[2] * value.shape[3] < SMALL:
        # Three times as fast as a batched product this small.
        return (given.transpose(2, 3) * value).sum(2, keepdim=True)
    return given @ value


def _one_bias(bias: Tensor | None, mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the sum of a bias and −∞ where the mask is True, in the dtype of `like`."""
    if mask is None:
        return None if bias is None else bias.to(like.dtype)
    if bias is None:
        bias = torch.zeros((), dtype=like.dtype, device=like.device)
    return bias.to(like.dtype).masked_fill(mask, -math.inf)


class PositionBias(nn.Module):
    """A bias for each head and bucket of relative positions.

    Args:
        config: the number of buckets and heads, and the distance from which one bucket is used.
        bidirectional: half of the buckets are for keys after the query, as in the encoder.
            Otherwise all of them are for keys before it.
    """

    def __init__(self, config: T5Config, bidirectional: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.buckets, config.heads))
        self.max_distance, self.bidirectional = config.max_distance, bidirectional
        self._table: Tensor | None = None

    def forward(self, length: int) -> Tensor:
        """Return the biases of all queries and keys of a text, (1, heads, length, length)."""
        if torch.compiler.is_compiling():  # a window would fix the length
            positions = torch.arange(length, device=self.weight.device)
            biases = self._of_offsets(positions[None] - positions[:, None])
            return biases.permute(2, 0, 1)[None]
        zero, table = self._buckets(length)
        by_offset = F.embedding(table[zero - length + 1 : zero + length], self.weight)
        # Row i of the result is the window of `length` offsets that begins at offset −i.
        return by_offset.T.unfold(1, length, 1).flip(1)[None]

    def last_row(self, length: int) -> Tensor:
        """Return the biases of the last query of a text, (1, heads, 1, length)."""
        if torch.compiler.is_compiling():
            positions = torch.arange(length, device=self.weight.device)
            return self._of_offsets(positions - (length - 1)).T[None, :, None]
        zero, table = self._buckets(length)
        return F.embedding(table[zero - length + 1 : zero + 1], self.weight).T[None, :, None]

    def _of_offsets(self, offset: Tensor) -> Tensor:
        """Return the biases of each offset, (…, heads)."""
        buckets = bucket_of(offset, len(self.weight), self.max_distance, self.bidirectional)
        return F.embedding(buckets, self.weight)

    def _buckets(self, length: int) -> tuple[int, Tensor]:
        """Return buckets of enough offsets, and the index of offset 0 among them."""
        device, table = self.weight.device, self._table
        if table is None or len(table) < 2 * length - 1 or table.device != device:
            with torch.inference_mode(False):  # training may use the table later
                table = self._computed(max(2 * length, TABLE_LENGTH)).to(device)
            self._table = table
        return len(table) // 2, table

    def _computed(self, length: int) -> Tensor:
        """Return the buckets of offsets 1 − length … length − 1; they do not depend on a device."""
        offsets = torch.arange(1 - length, length, device="cpu")
        return bucket_of(offsets, len(self.weight), self.max_distance, self.bidirectional)


def bucket_of(offset: Tensor, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Return the bucket of each offset (position of the key minus position of the query), int64.

    Distances below half of the buckets of a direction have one bucket each. The others share
    buckets that grow logarithmically up to `max_distance`; larger distances are in the last bucket.
    Logarithms are in float32, as in the released code: the trained biases belong to its rounding.
    """
    if bidirectional:
        buckets //= 2
        first, distance = (offset > 0) * buckets, offset.abs()
    else:
        first, distance = torch.zeros_like(offset), (-offset).clamp(min=0)
    exact = buckets // 2
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    shared = exact + (ratio * (buckets - exact)).long()
    return first + torch.where(distance < exact, distance, shared.clamp(max=buckets - 1))


class RMSNorm(nn.Module):
    """γ x / √(mean(x²) + ε): no mean is subtracted and no bias is added."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.dim))
        self.epsilon = config.norm_epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (…, d) over its last dimension."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def activation(name: str) -> Any:  # a function of torch, from tensor to tensor
    """Return the function that `T5Config.activation` names."""
    return {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": _gelu_tanh, "silu": F.silu}[name]


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")
