"""Products with weights in int8."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.cached_weights import CachedWeights
from zoo.nn.kernel_structures import Packed
from zoo.nn.kernels import kernels
from zoo.nn.processor import emulates_int8


class Quantized(NamedTuple):
    """A weight in int8: q_Wᵀ, (inputs, outputs), s_W, (outputs,), and q_W for the kernels.

    Where torch has no fast product in int8 and there are no kernels, q_Wᵀ is in float32.
    """

    weight: Tensor
    scales: Tensor
    packed: Packed | None


class Int8(CachedWeights[Quantized]):
    """Both operands in int8; each row of W and of x is scaled by its largest absolute value.

    The result for a sentence therefore does not depend on the rest of the batch:

        x Wᵀ ≈ s_x ∘ (q_x q_Wᵀ) ∘ s_W,   q = round(127 v / max |v|),   s = max |v| / 127

    Sums are accumulated in int32; everything else is float32. On a processor without
    instructions for products in int8, the same integers are multiplied as int16 by the kernels,
    and as float32 without them or by several threads; then sums of more than 1,040 products may
    be rounded.
    """

    def convert(self, weight: Tensor) -> Quantized:
        """Return q_W and s_W."""
        quantized, scales = _quantize(weight)
        compiled = kernels()
        packed = None if compiled is None else compiled.pack_int8(quantized, scales[:, 0])
        dtype = torch.float32 if packed is None and emulates_int8() else torch.int8
        # Of one input, Wᵀ counts as contiguous, but `_int_mm` reads it by its other strides.
        transposed = quantized.new_empty(quantized.t().shape, dtype=dtype).copy_(quantized.t())
        return Quantized(transposed, scales[:, 0].contiguous(), packed)

    def packed(self, weight: Tensor) -> Packed | None:
        """Return the converted weight as the kernels read it, if they can."""
        return self.form(weight).packed

    def product(self, x: Tensor, form: Quantized, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        rows, compiled = x.reshape(-1, x.shape[-1]).contiguous(), kernels()
        if form.packed is not None and (one_call := self.kernels_for(len(rows))) is not None:
            product = one_call.product(rows, form.packed, bias)
        elif compiled is not None and not emulates_int8():
            quantized, scales = compiled.quantize(rows)
            sums = torch._int_mm(quantized, form.weight)
            product = compiled.dequantize(sums, scales, form.scales, bias)
        else:
            quantized, scales = _quantize(rows)
            product = _sums(quantized, form.weight).mul_(scales)
            if bias is None:
                product.mul_(form.scales)
            else:
                torch.addcmul(bias, product, form.scales, out=product)
        return product.view(*x.shape[:-1], product.shape[1])


def _quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as int8 and the scale of each, (rows, 1)."""
    scales = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).mul_(1 / 127)
    return (rows * scales.reciprocal()).round_().to(torch.int8), scales


def _sums(rows: Tensor, weight: Tensor) -> Tensor:
    """Return q_x q_Wᵀ, (rows, outputs), in float32, for rows in int8."""
    if emulates_int8():
        return rows.float() @ weight.float()
    return torch._int_mm(rows, weight).float()
