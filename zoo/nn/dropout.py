"""Dropout whose masks are cheap to draw on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

_VALUES = 1 << 16
"""Each entry of a mask is decided by 16 random bits."""


class Dropout(nn.Module):
    """Zero each value with probability p during training, and scale the rest by 1 / (1 − p).

    On a CPU torch draws one random number per value, up to a tenth of a small model's training
    step. Here one draw of 64 bits decides four values; p is therefore exact to within 1 / 131,072.
    The random numbers come from torch's default generator.

    Args:
        p: the probability of dropping a value, from 0 to 1.

    Raises:
        ValueError: p is outside that range.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a dropout probability is from 0 to 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return x, of any shape, with values dropped; outside training, x itself."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return _Drop.apply(x, self.p)  # type: ignore[no-untyped-call]  # torch has no types for it

    def extra_repr(self) -> str:
        """Return p, for printing."""
        return f"p={self.p}"


class _Drop(torch.autograd.Function):
    """Multiply by a mask of zeros and 1 / (1 − p), in the values' type.

    A boolean mask would be converted to that type first, in each direction. In types of 16 bits the
    factor would be off by up to 1 / 256: there the mask has ones, and another pass scales.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        count, dropped = x.numel(), round(p * _VALUES)  # out of the 65,536 values of 16 bits
        drawn = x.new_empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        words = drawn.view(torch.int16)[:count].view(x.shape)
        if 0 < dropped < _VALUES:
            first = dropped - _VALUES // 2  # the smallest value that is kept
            words = words.clamp_(first - 1, first).sub_(first - 1)
        else:
            words.fill_(0 if dropped else 1)
        mask, scale = words.to(x.dtype), _VALUES / max(_VALUES - dropped, 1)
        ctx.scale = scale if x.element_size() < 4 else 1.0
        if ctx.scale == 1:
            mask *= scale
        ctx.save_for_backward(mask)
        return _scaled(x * mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _scaled(gradients[0] * mask, ctx.scale), None


def _scaled(x: Tensor, scale: float) -> Tensor:
    """Return x multiplied in place."""
    return x if scale == 1 else x.mul_(scale)
