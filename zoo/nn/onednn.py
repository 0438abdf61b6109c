"""oneDNN's product with a weight matrix, called directly.

oneDNN uses the full vector width of every processor. MKL, the library behind `F.linear`, takes a
narrower path on AMD's with AVX-512: 0.45 of the speed has been measured. The operator called here
has no derivative; `zoo.nn.linear` defines one.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from zoo.nn.processor import has, processor

_AVAILABLE = torch.backends.mkldnn.is_available()
_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _AVAILABLE else None
_REORDER = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None) if _AVAILABLE else None

CAN_PACK = _REORDER is not None
"""Whether this build of torch can reorder a weight into oneDNN's layout."""


@functools.cache
def packs_bf16() -> bool:
    """Return whether bfloat16 weights can be packed: oneDNN refuses them on some processors."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return CAN_PACK and supported is not None and bool(supported())


def supports(x: Tensor, weight: Tensor) -> bool:
    """Return whether both are float32 on a CPU where oneDNN is present and enabled."""
    return (
        _LINEAR is not None
        and x.dim() > 1
        and bool(torch.backends.mkldnn.enabled)
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.compiler.is_compiling()
    )


def mkl_is_fast() -> bool:
    """Return whether torch multiplies by MKL, on a processor where MKL uses all instructions.

    On others than Intel's it uses AVX2, not AVX-512.
    """
    uses_all = "Intel" in processor("vendor_id") or (has("avx2") and not has("avx512f"))
    return torch.backends.mkl.is_available() and uses_all


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b for x (…, inputs); `weight` is (outputs, inputs), packed or not."""
    assert _LINEAR is not None
    result: Tensor = _LINEAR(x, weight, bias, "none", [], "")
    return result


def pack(weight: Tensor) -> Tensor:
    """Return the weight in oneDNN's layout, a tensor that only oneDNN can read."""
    assert _REORDER is not None
    packed: Tensor = _REORDER(weight.contiguous(), None)
    return packed
