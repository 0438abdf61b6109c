"""Products with weights in int8."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.linear import CachedWeights


class Int8(CachedWeights):
    """Both sides in int8, each row of W and each row of x scaled by its own largest value.

    So what a sentence gets does not depend on its batch mates:

        x Wᵀ ≈ s_x ∘ (q_x q_Wᵀ) ∘ s_W,   q = round(127 v / max |v|),   s = max |v| / 127

    with sums in int32 and all else in float32.
    """

    def form(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return q_Wᵀ, (inputs, outputs), and s_W, (outputs,)."""
        numbers, scales = _in_int8(weight)
        return numbers.t().contiguous(), scales[:, 0]

    def times(self, x: Tensor, form: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        whole, scale = form
        numbers, scales = _in_int8(x.reshape(-1, x.shape[-1]))
        product = torch._int_mm(numbers, whole).float().mul_(scales)
        if bias is None:
            product.mul_(scale)
        else:
            torch.addcmul(bias, product, scale, out=product)
        return product.view(*x.shape[:-1], -1)


def _in_int8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as int8, and what to multiply each by, (rows, 1)."""
    scales = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).mul_(1 / 127)
    return (rows / scales).round_().to(torch.int8), scales
