"""Products with weights in int8."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.cached_weights import CachedWeights
from zoo.nn.kernels import Packed, kernels


class Quantized(NamedTuple):
    """A weight in int8: q_Wᵀ, (inputs, outputs), s_W, (outputs,), and q_W for the kernels."""

    weight: Tensor
    scales: Tensor
    packed: Packed | None


class Int8(CachedWeights[Quantized]):
    """Both operands in int8; each row of W and of x is scaled by its largest absolute value.

    The result for a sentence therefore does not depend on the rest of the batch:

        x Wᵀ ≈ s_x ∘ (q_x q_Wᵀ) ∘ s_W,   q = round(127 v / max |v|),   s = max |v| / 127

    Sums are accumulated in int32; everything else is float32.
    """

    def convert(self, weight: Tensor) -> Quantized:
        """Return q_W and s_W."""
        quantized, scales = _quantize(weight)
        compiled = kernels()
        packed = None if compiled is None else compiled.pack_int8(quantized, scales[:, 0])
        # Of one input, Wᵀ counts as contiguous, but `_int_mm` reads it by its other strides.
        transposed = quantized.new_empty(quantized.t().shape).copy_(quantized.t())
        return Quantized(transposed, scales[:, 0].contiguous(), packed)

    def packed(self, weight: Tensor) -> Packed | None:
        """Return the converted weight as the kernels read it, if they can."""
        return self.form(weight).packed

    def product(self, x: Tensor, form: Quantized, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        rows, compiled = x.reshape(-1, x.shape[-1]).contiguous(), kernels()
        if form.packed is not None and (one_call := self.kernels_for(len(rows))) is not None:
            product = one_call.product(rows, form.packed, bias)
        elif compiled is not None:
            quantized, scales = compiled.quantize(rows)
            sums = torch._int_mm(quantized, form.weight)
            product = compiled.dequantize(sums, scales, form.scales, bias)
        else:
            quantized, scales = _quantize(rows)
            product = torch._int_mm(quantized, form.weight).float().mul_(scales)
            if bias is None:
                product.mul_(form.scales)
            else:
                torch.addcmul(bias, product, form.scales, out=product)
        return product.view(*x.shape[:-1], product.shape[1])


def _quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as int8 and the scale of each, (rows, 1)."""
    scales = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).mul_(1 / 127)
    return (rows * scales.reciprocal()).round_().to(torch.int8), scales
