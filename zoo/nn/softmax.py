"""Attention's softmax, as fast over a few words as over many."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

VECTOR = 16
"""Float32 numbers that a processor's widest vector holds."""

FEW = 2048
"""Numbers for which it does not matter how it is done."""


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax of scores (…, m) over their last dimension.

    On a processor torch takes rows that are shorter than a vector number by number, ten times as
    long as longer ones: these are filled up with −∞, which adds nothing.
    """
    m = scores.shape[-1]
    if not _slow(scores):
        return scores.softmax(-1)
    return F.pad(scores, (0, VECTOR - m), value=-math.inf).softmax(-1)[..., :m]


def softmax_gradient(given: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores, w ⊗ (g − Σ_j g_j w_j), both (…, m) and of one type."""
    if not _slow(given):
        # Torch's own kernel for it: one pass instead of four.
        return torch._softmax_backward_data(given, weights, -1, weights.dtype)
    product = given * weights
    return product.sub_(weights * product.sum(-1, keepdim=True))


def _slow(scores: Tensor) -> bool:
    """Tell whether torch would go number by number, and there are many."""
    return (
        scores.device.type == "cpu"
        and 1 < scores.shape[-1] < VECTOR
        and scores.numel() > FEW
        and not torch.compiler.is_compiling()
    )
