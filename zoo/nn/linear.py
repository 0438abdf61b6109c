"""The product with a weight matrix, which is most of what any network does, in the fastest way."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# oneDNN's float32 product runs at the processor's full width whoever made it; the library behind
# F.linear takes a narrower path on some (0.45 of the speed was seen). One of torch's operators
# calls it directly. It has no derivative: `_Linear` is that.
_AVAILABLE = torch.backends.mkldnn.is_available()
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _AVAILABLE else None
_PACK = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None) if _AVAILABLE else None
ROWS = 256
"""From so many rows on it pays to copy a part of a matrix first."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b, as `torch.nn.functional.linear` does, in the fastest way for where it runs.

    x: (…, inputs); weight: (outputs, inputs); bias: (outputs,).
    """
    kept = _KEPT.get()
    if kept is not None and kept.takes(x, weight):
        return kept.linear(x, weight, bias)
    if not _ours(x, weight) or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if not weight.is_contiguous():  # a part of a matrix takes oneDNN's slowest way
        if x.numel() < ROWS * weight.shape[1]:
            return F.linear(x, weight, bias)
        weight = weight.contiguous()
    parts = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(part.requires_grad for part in parts):
        return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]  # torch has no types for it
    return _times(x, weight, bias)


def _ours(x: Tensor, weight: Tensor) -> bool:
    """Tell whether both are float32 on a processor where oneDNN is, and on."""
    return (
        _ONEDNN is not None
        and x.dim() > 1
        and bool(torch.backends.mkldnn.enabled)
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.compiler.is_compiling()
    )


def _times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b by oneDNN, both in float32."""
    assert _ONEDNN is not None
    product: Tensor = _ONEDNN(x, weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    """y = x Wᵀ + b with its derivative: dx = dy W, dW = dyᵀ x, db = Σ dy, each by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _times(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        rows, drows = x.flatten(0, -2), dy.flatten(0, -2)
        dx = _back(dy, weight) if for_x else None
        dw = _outer(rows, drows) if for_weight else None
        db = drows.sum(0) if ctx.has_bias and for_bias else None
        return dx, dw, db


def _back(dy: Tensor, weight: Tensor) -> Tensor:
    """Return dy W, the gradient of x in x Wᵀ."""
    if weight.dim() > 2 or not _ours(dy, weight) or torch.is_grad_enabled():
        return dy @ weight
    return _times(dy, weight.t())


def _outer(x: Tensor, dy: Tensor) -> Tensor:
    """Return dyᵀ x, the gradient of W in x Wᵀ; x (…, rows, inputs), dy (…, rows, outputs)."""
    # Where gradients are on, one of this one may be wanted.
    if x.dim() > 2 or not _ours(x, dy) or torch.is_grad_enabled():
        return dy.transpose(-1, -2) @ x
    if dy.shape[1] < x.shape[1]:
        return _times(dy.t(), x.t())
    return _times(x.t(), dy.t()).t()  # oneDNN prefers the longer side as the second


def recurrent_linear(
    weight: Tensor, bias: Tensor | None, rows: int, steps: int
) -> Callable[[Tensor], Tensor]:
    """Return x ↦ x Wᵀ + b for the steps of a recurrence, each x (…, rows, inputs), in their order.

    weight: (…, outputs, inputs); bias: (outputs,).

    It gives what `linear` gives. But where each step of `linear` adds a product of its own to the
    gradient of W, here that gradient is one product over all steps, which is several times as fast
    for a batch's few rows. It can be differentiated once.
    """
    if not (torch.is_grad_enabled() and weight.requires_grad) or torch.compiler.is_compiling():
        return lambda x: _product(x, weight, bias)
    device = weight.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    inputs: list[Tensor] = []
    slots = iter(_Gather.apply(weight, bias, inputs, (steps, rows), dtype).unbind(-3))  # type: ignore[no-untyped-call]  # torch has no types for it
    fixed = weight.detach().to(dtype).contiguous()
    added = None if bias is None else bias.detach().to(dtype)

    def step(x: Tensor) -> Tensor:
        return _Step.apply(x.to(dtype), fixed, added, next(slots), inputs)  # type: ignore[no-untyped-call]  # torch has no types for it

    return step


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x Wᵀ + b; where W has dimensions before its last two, so has x."""
    if weight.dim() == 2:
        return linear(x, weight, bias)
    product = x @ weight.transpose(-1, -2)
    return product if bias is None else product + bias


class _Gather(torch.autograd.Function):
    """Zeros, (…, steps, rows, outputs), of the steps' results; their gradient is that of all.

    From that and the steps' inputs come the gradients of W and b.
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
        *before, outputs, _ = weight.shape
        return weight.new_zeros((), dtype=dtype).expand(*before, *size, outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        rows, drows = torch.cat(ctx.inputs, -2), dy[..., : len(ctx.inputs), :, :].flatten(-3, -2)
        dw = _outer(rows, drows) if ctx.needs_input_grad[0] else None
        db = drows.flatten(0, -2).sum(0) if ctx.has_bias and ctx.needs_input_grad[1] else None
        wide = tuple(None if d is None else d.to(ctx.dtype) for d in (dw, db))
        return (*wide, None, None, None)


class _Step(torch.autograd.Function):
    """y = x Wᵀ + b at one step; W and b are given their gradients by `_Gather`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        slot: Tensor,
        inputs: list[Tensor],
    ) -> Tensor:
        inputs.append(x.detach())
        ctx.save_for_backward(weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        dx = _back(dy, weight) if ctx.needs_input_grad[0] else None
        return dx, None, None, dy, None


class CachedWeights:
    """Has `linear` multiply by whole weights in a form made for it, while it is `on`.

    For many products with weights that do not change: a weight's form is made when it is first
    used and kept while the weight is, and made again if that was written to. Whole weights are
    `nn.Parameter`s; products with a part of one, with any other tensor, or where something is
    learnt are as ever.
    """

    def __init__(self) -> None:
        self._forms: dict[int, tuple[weakref.ref[Tensor], tuple[int, int], Any]] = {}

    @contextmanager
    def on(self) -> Iterator[None]:
        """Compute so in this block, of this thread alone."""
        before = _KEPT.set(self)
        try:
            yield
        finally:
            _KEPT.reset(before)

    def takes(self, x: Tensor, weight: Tensor) -> bool:
        """Tell whether this is a product that is computed so."""
        return (
            isinstance(weight, nn.Parameter)
            and x.dtype == weight.dtype == torch.float32
            and x.device.type == weight.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
        )

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        key = id(weight)
        made_of = 0 if weight.is_inference() else weight._version, weight.data_ptr()
        found = self._forms.get(key)
        if found is None or found[0]() is not weight or found[1] != made_of:
            forget = weakref.ref(weight, lambda _: self._forms.pop(key, None))
            found = self._forms[key] = forget, made_of, self.form(weight.detach())
        return self.times(x, found[2], bias)

    def form(self, weight: Tensor) -> Any:
        """Return what is kept of a weight, (outputs, inputs)."""
        raise NotImplementedError

    def times(self, x: Tensor, form: Any, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b of what `form` returned."""
        raise NotImplementedError


class PackedWeights(CachedWeights):
    """Float32, the weights in the order in which oneDNN reads them, which it else makes anew.

    That is what most of the time goes into where a weight meets the few rows of a step.
    """

    def takes(self, x: Tensor, weight: Tensor) -> bool:
        """Tell whether this is a product that is computed so."""
        return _PACK is not None and super().takes(x, weight) and _ours(x, weight)

    def form(self, weight: Tensor) -> Tensor:
        """Return the weight reordered, a tensor that oneDNN alone can read."""
        assert _PACK is not None
        packed: Tensor = _PACK(weight.contiguous(), None)
        return packed

    def times(self, x: Tensor, form: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        return _times(x, form, bias)


_KEPT: ContextVar[CachedWeights | None] = ContextVar("kept", default=None)


class Linear(nn.Linear):
    """torch's linear layer, by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inputs) to (…, outputs)."""
        return linear(x, self.weight, self.bias)
