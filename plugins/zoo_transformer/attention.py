"""Scaled dot-product attention (section 3.2.1), by whatever way is fastest where it runs."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn import softmax, softmax_gradient

MOST_KEYS = 512
"""With more keys than this the weights of all queries are never in memory at once."""

FEW = 400
"""Torch's batched product goes number by number where one has fewer multiplications than this."""


def attend(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, weights: list[Tensor] | None
) -> Tensor:
    """Return softmax(q kᵀ / √d_h) v, section 3.2.1.

    query (rows, heads, n, d_h), key and value (rows, heads, m, d_h); hidden is bool and broadcasts
    to (rows, heads, n, m), True where a query may not look. The weights are appended to `weights`.
    """
    if weights is not None:
        weights.append(_weigh(query, key, hidden))
        return _mix(weights[-1], value)
    # Torch's kernels for the processor cut long sentences into blocks. On those of a few dozen
    # words that costs twice as much as two plain products, and in bfloat16 7 times as much.
    short = query.device.type == "cpu" and key.shape[2] <= MOST_KEYS
    if not short or torch.compiler.is_compiling():
        mask = None if hidden is None else ~hidden
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    if query.requires_grad:
        return _Attend.apply(query, key, value, hidden)  # type: ignore[no-untyped-call]  # torch has no types for it
    return _mix(_weigh(query, key, hidden), value)


def _weigh(query: Tensor, key: Tensor, hidden: Tensor | None) -> Tensor:
    """Return softmax(q kᵀ / √d_h), (rows, heads, n, m)."""
    scores = (query @ key.transpose(-2, -1)).div_(math.sqrt(query.shape[-1]))
    if hidden is not None:
        scores.masked_fill_(hidden, -math.inf)
    return softmax(scores)


def _mix(weights: Tensor, value: Tensor) -> Tensor:
    """Return w v, (rows, heads, n, d_h)."""
    if weights.shape[2] == 1 and value.shape[2] * value.shape[3] < FEW:
        # A third of the time of a product that goes number by number.
        return (weights.transpose(2, 3) * value).sum(2, keepdim=True)
    return weights @ value


class _Attend(torch.autograd.Function):
    """`attend` as four products, the weights being kept for the backward pass.

    Products are in the query's type, the softmax in float32 or wider. With g the gradient of the
    output, w the weights and s the scores:

        dv = wᵀ g,   dw = g vᵀ,   ds = w ⊗ (dw − Σ_j dw_j w_j),   dq = ds k / √d,   dk = dsᵀ q / √d
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        ctx.shapes = q.shape, k.shape
        q, k, v = (x.reshape(-1, *x.shape[2:]) for x in (q, k.to(q.dtype), v.to(q.dtype)))
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = torch.bmm(q, k.transpose(1, 2)).to(wide).mul_(q.shape[-1] ** -0.5)
        if hidden is not None:
            rows, heads, n, _ = ctx.shapes[0]
            scores.view(rows, heads, n, -1).masked_fill_(hidden, -math.inf)
        weights = softmax(scores).to(q.dtype)
        ctx.save_for_backward(q, k, v, weights)
        return torch.bmm(weights, v).view(ctx.shapes[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, weights = ctx.saved_tensors
        g = gradients[0].reshape(q.shape)
        of_value = torch.bmm(weights.transpose(1, 2), g)
        wide = torch.promote_types(q.dtype, torch.float32)
        given, kept = torch.bmm(g, v.transpose(1, 2)).to(wide), weights.to(wide)
        scores = softmax_gradient(given, kept).mul_(q.shape[-1] ** -0.5).to(q.dtype)
        of_query, of_key = torch.bmm(scores, k), torch.bmm(scores.transpose(1, 2), q)
        queries, keys = ctx.shapes
        return of_query.view(queries), of_key.view(keys), of_value.view(keys), None
