"""The product with a weight matrix, which is most of what any network does, in the fastest way."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

# oneDNN's float32 product runs at the processor's full width whoever made it; the library behind
# F.linear takes a narrower path on some (0.45 of the speed was seen). One of torch's operators
# calls it directly. It has no derivative.
_PRODUCT = (
    getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if torch.backends.mkldnn.is_available()
    else None
)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b, as `torch.nn.functional.linear` does, in the fastest way for where it runs.

    x: (…, inputs); weight: (outputs, inputs); bias: (outputs,).
    """
    if (
        _PRODUCT is None
        or x.dtype != torch.float32
        or x.device.type != "cpu"
        or not weight.is_contiguous()  # a part of a matrix takes oneDNN's slowest way
        or torch.is_grad_enabled()
        or not weight.is_contiguous()  # oneDNN is a hundred times slower there
    ):
        return F.linear(x, weight, bias)
    return _PRODUCT(x, weight, bias, "none", [], "")


class Linear(nn.Linear):
    """torch's linear layer, by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inputs) to (…, outputs)."""
        return linear(x, self.weight, self.bias)
