"""The scores of attention."""

import math

import torch
from torch import Tensor


def energies(kind: str, query: Tensor, keys: Tensor, weight: Tensor | None) -> Tensor:
    """Return e_ij, (sentences, beam, m), up to a constant, which a softmax ignores.

    Args:
        kind: the configuration's `score`.
        query: (sentences, beam, a).
        keys: (sentences, m, a).
        weight: v of the score `additive`, (a,).
    """
    if kind == "additive":
        assert weight is not None
        return _additive(query, keys, weight)
    if kind == "sigmoid":
        return (keys[:, None] + query[:, :, None]).squeeze(-1).sigmoid()
    product = query @ keys.transpose(1, 2)
    return product / math.sqrt(keys.shape[2]) if kind == "dot" else product


def _additive(query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    """Return vᵀ tanh(k_j + q); in float32 plus Σ v.

    That is 2 vᵀ σ(2 k_j + 2 q), which torch computes five times as fast on AMD's processors
    (`zoo.nn.tanh`), and as fast on Intel's.
    """
    query = query.to(keys.dtype)[:, :, None]
    if keys.dtype is not torch.float32:  # near zero, tanh is more exact than σ
        return (keys[:, None] + query).tanh() @ weight
    total = torch.add(2 * query, keys[:, None], alpha=2)  # (sentences, beam, m, a)
    # Unlike `@`, this product is not rounded to bfloat16.
    return torch.mv(total.sigmoid_().flatten(0, 2), 2 * weight).view(total.shape[:3])
