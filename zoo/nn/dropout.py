"""Dropout with masks that are cheap to draw."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

_VALUES = 1 << 16
"""A mask's entry is kept or not by 16 random bits."""

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The type of a value's bits, by its bytes."""


class Dropout(nn.Module):
    """Zeroes each value with probability p while training, and scales the rest by 1 / (1 − p).

    On the processor torch draws one random number for each value, up to a tenth of a small
    model's training step; here one draw of 64 bits serves four values, so that p is met to within
    1 / 131,072. The draws are from torch's default generator.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a dropout probability is from 0 to 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return (…) with some values dropped; x itself when not training."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return _Drop.apply(x, self.p)  # type: ignore[no-untyped-call]  # torch has no types for it

    def extra_repr(self) -> str:
        """Return p, for printing."""
        return f"p={self.p}"


class _Drop(torch.autograd.Function):
    """Values are dropped by their bits: what has none is zero, in every floating type.

    A mask of 16-bit words, all ones or all zeros, is made in two passes and joined in one. Boolean
    masks are turned into the values' type first, which took half of a layer's dropout.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        count, dropped = x.numel(), round(p * _VALUES)  # of the 65,536 values that 16 bits have
        drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        kept = drawn.view(torch.int16)[:count].view(x.shape)
        first = dropped - _VALUES // 2  # of the values that are kept
        if 0 < dropped < _VALUES:
            kept = torch.rsub(kept.clamp_(first - 1, first), first - 1)
        else:
            kept.fill_(0 if dropped else -1)
        ctx.save_for_backward(kept)
        ctx.scale = _VALUES / max(_VALUES - dropped, 1)
        return _joined(x, kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _joined(gradients[0], kept).mul_(ctx.scale), None


def _joined(x: Tensor, kept: Tensor) -> Tensor:
    """Return x where the words of `kept` are ones, and else 0."""
    return torch.bitwise_and(x.view(_BITS[x.element_size()]), kept).view(x.dtype)
