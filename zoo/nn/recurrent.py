"""The product with a weight matrix at every step of a recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.nn import onednn
from zoo.nn.linear import input_gradient, linear, weight_gradient
from zoo.nn.once import once_differentiable


def recurrent_linear(
    weight: Tensor, bias: Tensor | None, rows: int, steps: int
) -> Callable[[Tensor], Tensor]:
    """Return the map x ↦ x Wᵀ + b for at most `steps` steps of a recurrence, called in order.

    weight: (…, outputs, inputs); bias: (outputs,); each x: (…, rows, inputs).

    The results are those of `linear`. The gradient of W is computed by one product over all steps
    instead of one product per step, which is several times as fast for the few rows of a batch.
    It can be differentiated once.
    """
    if not (torch.is_grad_enabled() and weight.requires_grad) or torch.compiler.is_compiling():
        return lambda x: _product(x, weight, bias)
    device = weight.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    inputs: list[Tensor] = []
    slots = iter(_AllSteps.apply(weight, bias, inputs, (steps, rows), dtype).unbind(-3))  # type: ignore[no-untyped-call]  # torch has no types for it
    detached = weight.detach().to(dtype).contiguous()
    detached_bias = None if bias is None else bias.detach().to(dtype)
    transposed = None
    if weight.dim() == 2 and onednn.supports(detached, detached) and onednn.mkl_is_fast():
        transposed = detached.t().contiguous()  # with few rows, up to 1.6 times as fast

    def step(x: Tensor) -> Tensor:
        weights = detached, transposed, detached_bias
        return _OneStep.apply(x.to(dtype), *weights, next(slots), inputs)  # type: ignore[no-untyped-call]  # torch has no types for it

    return step


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x Wᵀ + b; leading dimensions of W are batch dimensions, which x shares."""
    if weight.dim() == 2:
        return linear(x, weight, bias)
    product = x @ weight.transpose(-1, -2)
    return product if bias is None else product + bias


class _AllSteps(torch.autograd.Function):
    """Zeros, (…, steps, rows, outputs), that collect the gradients of every step's result.

    The backward pass computes the gradients of W and b from them and from the steps' inputs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor | None,
        inputs: list[Tensor],
        size: tuple[int, int],
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.inputs, ctx.dtype, ctx.has_bias = inputs, weight.dtype, bias is not None
        *batch, outputs, _ = weight.shape
        return weight.new_zeros((), dtype=dtype).expand(*batch, *size, outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        rows, drows = torch.cat(ctx.inputs, -2), dy[..., : len(ctx.inputs), :, :].flatten(-3, -2)
        dw = weight_gradient(rows, drows) if ctx.needs_input_grad[0] else None
        db = drows.flatten(0, -2).sum(0) if ctx.has_bias and ctx.needs_input_grad[1] else None
        in_weight_dtype = tuple(None if d is None else d.to(ctx.dtype) for d in (dw, db))
        return (*in_weight_dtype, None, None, None)


class _OneStep(torch.autograd.Function):
    """y = x Wᵀ + b at one step; the gradients of W and b go through `_AllSteps`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        transposed: Tensor | None,
        bias: Tensor | None,
        slot: Tensor,
        inputs: list[Tensor],
    ) -> Tensor:
        inputs.append(x.detach())
        ctx.save_for_backward(weight)
        if transposed is None:
            return _product(x, weight, bias)
        return x @ transposed if bias is None else torch.addmm(bias, x, transposed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        dx = input_gradient(dy, weight) if ctx.needs_input_grad[0] else None
        return dx, None, None, None, dy, None
