"""A softmax for attention that is as fast over short rows as over long ones."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

VECTOR = 16
"""Float32 numbers in the widest vector register of a CPU."""

SMALL = 2048
"""Below this many numbers the method does not matter."""


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax of scores (…, m) over their last dimension.

    On a CPU, torch computes rows shorter than a vector register one number at a time, ten times
    slower than longer rows. Such rows are padded with −∞, which leaves the result unchanged.
    """
    m = scores.shape[-1]
    if not _has_short_rows(scores):
        return scores.softmax(-1)
    return F.pad(scores, (0, VECTOR - m), value=-math.inf).softmax(-1)[..., :m]


def softmax_gradient(gradient: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores, w ⊗ (g − Σ_j g_j w_j), for g and w (…, m) of one dtype.

    `weights` is what `softmax` returned and `gradient` the gradient of the loss by it.
    """
    if not _has_short_rows(gradient):
        # torch's own kernel makes one pass instead of four.
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)
    product = gradient * weights
    return product.sub_(weights * product.sum(-1, keepdim=True))


def _has_short_rows(scores: Tensor) -> bool:
    """Return whether torch would compute these rows one number at a time, and slowly."""
    return (
        scores.device.type == "cpu"
        and 1 < scores.shape[-1] < VECTOR
        and scores.numel() > SMALL
        and not torch.compiler.is_compiling()
    )
