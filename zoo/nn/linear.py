"""The product with a weight matrix, by the fastest kernel for the operands."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import onednn
from zoo.nn.cached_weights import ACTIVE

ROWS = 256
"""With at least this many rows, copying a slice of a matrix first pays off."""


class Linear(nn.Linear):
    """torch's linear layer, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inputs) to (…, outputs)."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b like `torch.nn.functional.linear`, by the fastest available kernel.

    x: (…, inputs); weight: (outputs, inputs); bias: (outputs,).
    """
    cached = None if torch.compiler.is_compiling() else ACTIVE.get()
    if cached is not None and cached.supports(x, weight):
        return cached.linear(x, weight, bias)
    if not onednn.supports(x, weight) or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if not weight.is_contiguous():  # oneDNN is slowest with a slice of a matrix
        if x.numel() < ROWS * weight.shape[1]:
            return F.linear(x, weight, bias)
        weight = weight.contiguous()
    operands = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in operands):
        return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]  # torch has no types for it
    return onednn.product(x, weight, bias)


class _Linear(torch.autograd.Function):
    """y = x Wᵀ + b with its derivative, by oneDNN: dx = dy W, dW = dyᵀ x, db = Σ dy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return onednn.product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows, drows = x.flatten(0, -2), dy.flatten(0, -2)
        dx = input_gradient(dy, weight) if needs_x else None
        dw = weight_gradient(rows, drows) if needs_weight else None
        db = drows.sum(0) if ctx.has_bias and needs_bias else None
        return dx, dw, db


def input_gradient(dy: Tensor, weight: Tensor) -> Tensor:
    """Return dy W, the gradient of x in x Wᵀ, for dy (…, outputs)."""
    if weight.dim() > 2 or not _by_onednn(dy, weight):
        return dy @ weight
    return onednn.product(dy, weight.t())


def weight_gradient(x: Tensor, dy: Tensor) -> Tensor:
    """Return dyᵀ x, the gradient of W in x Wᵀ; x (…, rows, inputs), dy (…, rows, outputs)."""
    if x.dim() > 2 or not _by_onednn(x, dy):
        return dy.transpose(-1, -2) @ x
    if dy.shape[1] < x.shape[1]:
        return onednn.product(dy.t(), x.t())
    return onednn.product(x.t(), dy.t()).t()  # faster with the longer side as the second


def _by_onednn(a: Tensor, b: Tensor) -> bool:
    """Return whether oneDNN computes a gradient: 0.6 to 0.9 times as fast as MKL where MKL is."""
    # oneDNN refuses a sum over no rows, such as those of an expert to which no token is routed.
    if a.numel() == 0:
        return False
    # With gradients enabled, a second derivative may follow: oneDNN's operator has none.
    return onednn.supports(a, b) and not torch.is_grad_enabled() and not onednn.mkl_is_fast()
