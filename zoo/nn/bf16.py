"""Products with weights in bfloat16."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn import onednn
from zoo.nn.cached_weights import CachedWeights, float32_weights
from zoo.nn.kernel_structures import Packed
from zoo.nn.kernels import FEW_ROWS, Kernels, kernels
from zoo.nn.processor import emulates_bf16, has, is_slow_in_bf16


def bf16_weights() -> CachedWeights[Any]:
    """Return the cache for products in bfloat16.

    On a processor that would emulate them, only the weights are rounded, and the products are
    those of float32: four times as fast in batches, and twelve times for single sentences. So it is
    without the kernels where torch's products in bfloat16 are the slower ones.
    """
    if emulates_bf16() or (is_slow_in_bf16() and kernels() is None):
        return float32_weights(lambda weight: weight.to(torch.bfloat16).to(torch.float32))
    return BFloat16()


class Rounded(NamedTuple):
    """A weight in bfloat16, (outputs, inputs), as oneDNN or torch reads it, and for the kernels."""

    weight: Tensor
    packed: Packed | None


class BFloat16(CachedWeights[Rounded]):
    """Both operands rounded to bfloat16, which has the range of float32 and 8 binary digits.

    Sums are accumulated in float32. The kernels return these; torch rounds each to bfloat16 once
    more. Everything else is float32.
    """

    def convert(self, weight: Tensor) -> Rounded:
        """Return the weight in bfloat16."""
        rounded, compiled = weight.to(torch.bfloat16), kernels()
        packed = None if compiled is None else compiled.pack(rounded)
        is_packed = onednn.packs_bf16() and not is_slow_in_bf16()
        return Rounded(onednn.pack(rounded) if is_packed else rounded, packed)

    def packed(self, weight: Tensor) -> Packed | None:
        """Return the converted weight as the kernels read it, if they can."""
        return self.form(weight).packed

    def kernels_for(self, rows: int) -> Kernels | None:
        """Return the kernels if they are the fastest way for products of so many rows.

        For many rows torch's product is, where only it can use the matrix unit (AMX).
        """
        compiled = super().kernels_for(rows)
        if compiled is None or compiled.has_tiles or rows <= FEW_ROWS:
            return compiled
        return None if has("amx_bf16") else compiled

    def product(self, x: Tensor, form: Rounded, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        if form.packed is not None and (one_call := self.kernels_for(len(rows))) is not None:
            product = one_call.product(rows, form.packed, bias)
        elif is_slow_in_bf16():
            product = F.linear(rows.to(torch.bfloat16).float(), form.weight.float(), bias)
        else:
            multiply = onednn.product if onednn.packs_bf16() else F.linear
            rounded = multiply(rows.to(torch.bfloat16), form.weight)
            product = rounded.float() if bias is None else rounded + bias
        return product.view(*x.shape[:-1], product.shape[1])
