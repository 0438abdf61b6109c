"""The hyperbolic tangent, by the faster of two formulas."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from zoo.nn.processor import processor

SMALL = 4096
"""Below this many numbers, torch's own operator is as fast."""


@functools.cache
def is_fast_in_torch() -> bool:
    """Return whether torch's own tanh is fast: it is MKL's, which is so on Intel's processors."""
    return "Intel" in processor("vendor_id")


def tanh(x: Tensor) -> Tensor:
    """Return tanh x, in float32 on a CPU as 2 σ(2x) − 1, but on Intel's processors.

    On AMD's, torch computes this five times as fast as its tanh; on Intel's, that is faster. The
    two differ by 2 × 10⁻⁷ at most.
    """
    is_slow = x.dtype is torch.float32 and x.device.type == "cpu" and x.numel() >= SMALL
    if not is_slow or is_fast_in_torch() or torch.compiler.is_compiling():
        return x.tanh()
    doubled = 2 * x
    if torch.is_grad_enabled() and x.requires_grad:
        return 2 * doubled.sigmoid() - 1
    return doubled.sigmoid_().mul_(2).sub_(1)
