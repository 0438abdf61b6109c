"""Products with weights in int8."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.cached_weights import CachedWeights
from zoo.nn.kernels import kernels


class Int8(CachedWeights[tuple[Tensor, Tensor]]):
    """Both operands in int8; each row of W and of x is scaled by its largest absolute value.

    The result for a sentence therefore does not depend on the rest of the batch:

        x Wᵀ ≈ s_x ∘ (q_x q_Wᵀ) ∘ s_W,   q = round(127 v / max |v|),   s = max |v| / 127

    Sums are accumulated in int32; everything else is float32.
    """

    def convert(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return q_Wᵀ, (inputs, outputs), and s_W, (outputs,)."""
        quantized, scales = _quantize(weight)
        return quantized.t().contiguous(), scales[:, 0]

    def product(self, x: Tensor, form: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        weight, weight_scales = form
        rows, compiled = x.reshape(-1, x.shape[-1]), kernels()
        if compiled is not None and rows.is_contiguous():
            quantized, scales = compiled.quantize(rows)
            sums = torch._int_mm(quantized, weight)
            product = compiled.dequantize(sums, scales, weight_scales, bias)
            return product.view(*x.shape[:-1], product.shape[1])
        quantized, scales = _quantize(rows)
        product = torch._int_mm(quantized, weight).float().mul_(scales)
        if bias is None:
            product.mul_(weight_scales)
        else:
            torch.addcmul(bias, product, weight_scales, out=product)
        return product.view(*x.shape[:-1], product.shape[1])


def _quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as int8 and the scale of each, (rows, 1)."""
    scales = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).mul_(1 / 127)
    return (rows * scales.reciprocal()).round_().to(torch.int8), scales
