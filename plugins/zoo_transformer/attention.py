"""Scaled dot-product attention (section 3.2.1), by the fastest method for the device and size."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn import few_queries, once_differentiable, softmax, softmax_gradient

MAX_KEYS = 512
"""With more keys than this, the weights of all queries are never in memory at once."""

FEW_QUERIES = 16
"""With more queries than this, a GPU's time goes to computation rather than to calls."""

SMALL = 400
"""torch's batched product computes matrices with fewer multiplications one number at a time."""


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, weights: list[Tensor] | None
) -> Tensor:
    """Return softmax(q kᵀ / √d_h) v, (rows, heads, n, d_h), section 3.2.1.

    Args:
        query: (rows, heads, n, d_h).
        key, value: (rows, heads, m, d_h).
        mask: bool, True where a query must not attend to a key, as in `nn.MultiheadAttention`; it
            broadcasts to (rows, heads, n, m). None masks nothing. Every mask of this package has
            this polarity.
        weights: a list to which the attention weights, (rows, heads, n, m), are appended.
    """
    if weights is not None:
        weights.append(_weights(query, key, mask))
        return _weighted_sum(weights[-1], value)
    by_kernel = few_queries(query, key, value, mask)
    if by_kernel is not None:
        return by_kernel
    # torch's CPU kernels cut long sentences into blocks. For a few dozen words that takes twice as
    # long as two plain products, and in bfloat16 seven times as long.
    if query.device.type == "cpu":
        plain = key.shape[2] <= MAX_KEYS
    else:  # there it converts and pads a mask each time, in more calls than two products
        few = query.shape[2] <= FEW_QUERIES and not torch.is_grad_enabled()
        plain = mask is not None and few
    if not plain or torch.compiler.is_compiling():
        allowed = None if mask is None else ~mask  # this function of torch has the other polarity
        return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    if query.requires_grad:
        return _Attend.apply(query, key, value, mask)  # type: ignore[no-untyped-call]  # torch has no types for it
    return _weighted_sum(_weights(query, key, mask), value)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(q kᵀ / √d_h), (rows, heads, n, m)."""
    scores = (query @ key.transpose(-2, -1)).div_(math.sqrt(query.shape[-1]))
    if mask is not None:
        scores.masked_fill_(mask, -math.inf)
    return softmax(scores)


def _weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return w v, (rows, heads, n, d_h)."""
    if weights.shape[2] == 1 and value.shape[2] * value.shape[3] < SMALL:
        # Three times as fast as a batched product this small.
        return (weights.transpose(2, 3) * value).sum(2, keepdim=True)
    return weights @ value


class _Attend(torch.autograd.Function):
    """`attend` as four products; the backward pass reuses the weights.

    Products are in the query's dtype, the softmax in float32 or wider. With g the gradient of the
    output, w the weights and s the scores:

        dv = wᵀ g,  dw = g vᵀ,  ds = w ⊗ (dw − Σ_j dw_j w_j),  dq = ds k / √d_h,  dk = dsᵀ q / √d_h
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        ctx.shapes = q.shape, k.shape
        q, k, v = (x.reshape(-1, *x.shape[2:]) for x in (q, k.to(q.dtype), v.to(q.dtype)))
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = torch.bmm(q, k.transpose(1, 2)).to(wide).mul_(q.shape[-1] ** -0.5)
        if mask is not None:
            rows, heads, n, _ = ctx.shapes[0]
            scores.view(rows, heads, n, k.shape[1]).masked_fill_(mask, -math.inf)
        weights = softmax(scores).to(q.dtype)
        ctx.save_for_backward(q, k, v, weights)
        return torch.bmm(weights, v).view(ctx.shapes[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, weights = ctx.saved_tensors
        g = gradients[0].reshape(q.shape)
        dv = torch.bmm(weights.transpose(1, 2), g)
        wide = torch.promote_types(q.dtype, torch.float32)
        dw, wide_weights = torch.bmm(g, v.transpose(1, 2)).to(wide), weights.to(wide)
        ds = softmax_gradient(dw, wide_weights).mul_(q.shape[-1] ** -0.5).to(q.dtype)
        dq, dk = torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q)
        queries, keys = ctx.shapes
        return dq.view(queries), dk.view(keys), dv.view(keys), None
