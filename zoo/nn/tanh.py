"""The hyperbolic tangent, by the faster of two formulas."""

from __future__ import annotations

import torch
from torch import Tensor

SMALL = 4096
"""Below this many numbers, torch's own operator is as fast."""


def tanh(x: Tensor) -> Tensor:
    """Return tanh x, in float32 on a CPU as 2 σ(2x) − 1, which torch computes five times as fast.

    The two differ by 2 × 10⁻⁷ at most.
    """
    is_slow = x.dtype is torch.float32 and x.device.type == "cpu" and x.numel() >= SMALL
    if not is_slow or torch.compiler.is_compiling():
        return x.tanh()
    doubled = 2 * x
    if torch.is_grad_enabled() and x.requires_grad:
        return 2 * doubled.sigmoid() - 1
    return doubled.sigmoid_().mul_(2).sub_(1)
