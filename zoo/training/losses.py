"""Losses of logits, with gradients that need little memory: cross-entropy and divergences."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from zoo.nn.contract import PADDING
from zoo.nn.kernels import kernels
from zoo.nn.once import once_differentiable

TOKENS = 16
"""How many tokens a CPU computes at a time; a GPU computes all at once."""


def _rows_at_a_time(rows: Tensor) -> int:
    return TOKENS if rows.device.type == "cpu" else max(len(rows), 1)


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the summed loss of logits (tokens, vocab) and labels (tokens,), without padding.

    The sum is in float32, or in the logits' type if that is wider.
    """
    function = _CompiledCrossEntropy if _is_compiled(logits, labels) else _CrossEntropy
    return function.apply(logits, labels, smoothing)  # type: ignore[no-untyped-call]  # torch has no types for it


def _is_compiled(logits: Tensor, labels: Tensor) -> bool:
    """Return whether there are compiled kernels, which read these operands."""
    return (
        kernels() is not None
        and logits.is_cpu
        and logits.dtype in (torch.float32, torch.bfloat16)
        and logits.is_contiguous()
        and labels.dtype is torch.int64
        and labels.is_contiguous()
        and 0 < len(labels) == len(logits)
        and not torch.compiler.is_compiling()
        and int(labels.min()) >= 0
        and int(labels.max()) < logits.shape[1]
    )


class _CompiledCrossEntropy(torch.autograd.Function):
    """The loss as `_CrossEntropy` defines it, computed by `kernels.c` in float32.

    Only log Σ_y e^{x_y} of each token is kept. The backward pass computes p_y from it again, which
    costs less than another pass over a tensor of the size of the logits.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        log_sums, losses = logits.new_empty(2, len(logits), dtype=torch.float32)
        _run(logits, labels, smoothing, log_sums, losses)
        ctx.save_for_backward(logits, labels, log_sums)
        ctx.smoothing = smoothing
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, log_sums = ctx.saved_tensors
        factor, out = float(gradients[0]), torch.empty_like(logits)
        if not math.isfinite(factor):
            return out.fill_(factor), None, None
        _run(logits, labels, ctx.smoothing, log_sums, log_sums, factor, out)
        return out, None, None


def _run(
    logits: Tensor,
    labels: Tensor,
    smoothing: float,
    log_sums: Tensor,
    losses: Tensor,
    factor: float = 1.0,
    out: Tensor | None = None,
) -> None:
    """Call the kernel with equal parts of the rows, one for each of torch's threads."""
    compiled = kernels()
    assert compiled is not None

    def run(rows: slice) -> None:
        x, ids, sums, each = (part[rows] for part in (logits, labels, log_sums, losses))
        compiled.cross_entropy(
            x.data_ptr(), *x.shape, x.dtype is torch.bfloat16, ids.data_ptr(), PADDING, smoothing,
            sums.data_ptr(), each.data_ptr(), factor, None if out is None else out[rows].data_ptr(),
        )  # fmt: skip

    size = -(-len(logits) // torch.get_num_threads())
    parts = [slice(start, start + size) for start in range(0, len(logits), size)]
    if len(parts) == 1:
        return run(parts[0])
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(run, parts))
    return None


class _CrossEntropy(torch.autograd.Function):
    """The loss from the probabilities, which are all that its gradient needs.

    With x the logits, p their softmax, s the smoothing and V the vocabulary's size:

        log Σ_y e^{x_y} = x_max − log p_max
        loss = log Σ_y e^{x_y} − (1 − s) x_label − s / V Σ_y x_y
        d loss / d x_y = p_y − (1 − s) [y = label] − s / V

    Two tensors of the size of the logits are allocated, in the logits' own type. A probability in
    bfloat16 has a relative error of at most 1 / 256, so no token's loss is off by much more. The
    logarithm of a small probability in bfloat16, which torch's own loss takes, is off by several
    times that. A CPU computes a few tokens at a time, which stay in its caches.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        spread = smoothing / logits.shape[1]
        difference = torch.empty_like(logits, memory_format=torch.contiguous_format)
        loss = logits.new_empty(len(logits), 1, dtype=wide)
        size = _rows_at_a_time(logits)
        for x, p, total in zip(*(t.split(size) for t in (logits, difference, loss)), strict=True):
            torch.softmax(x, -1, out=p)
            # The largest probability cannot underflow, as that of the label could.
            torch.sub(x.amax(1, keepdim=True), p.amax(1, keepdim=True).to(wide).log_(), out=total)
            if smoothing:
                total -= spread * x.sum(1, keepdim=True)
                p -= spread
        ids = labels[:, None]
        loss -= (1 - smoothing) * logits.gather(1, ids)
        padding = ids == PADDING
        if ctx.needs_input_grad[0]:
            difference[torch.arange(len(labels), device=labels.device), labels] -= 1 - smoothing
            # By indices on a CPU, where a mask takes a pass over everything; they wait for a GPU.
            rows = padding[:, 0]
            difference[rows.nonzero()[:, 0] if rows.device.type == "cpu" else rows] = 0.0
            ctx.save_for_backward(difference)
            ctx.factor = 1.0
        return loss.masked_fill_(padding, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (difference,), (gradient,) = ctx.saved_tensors, gradients
        if difference.device.type != "cpu":
            return difference * (gradient / ctx.factor).to(difference.dtype), None, None
        factor = float(gradient)
        if factor == 0 or not math.isfinite(factor):
            return torch.full_like(difference, factor), None, None
        # In place, as this is the largest tensor; a second backward pass divides by this factor.
        # Autograd adds nothing to a tensor that it keeps for a second pass.
        scaled = difference.data.mul_(factor / ctx.factor)
        ctx.factor = factor
        return scaled, None, None


def symmetric_kl(logits: Tensor, labels: Tensor) -> Tensor:
    """Return Σ ½ (KL(p‖q) + KL(q‖p)) over the real tokens of labels (tokens,).

    logits is (2 × tokens, vocab): the first half gives p, the second q. The sum is in float32, or
    in the logits' type if that is wider.
    """
    return _SymmetricKL.apply(logits, labels)  # type: ignore[no-untyped-call]  # torch has no types for it


class _SymmetricKL(torch.autograd.Function):
    """The divergence of a few tokens at a time, so that only its gradient leaves the caches.

    p is the softmax of the logits x, q that of z; with r = x − z, from which log p − log q differs
    by a constant, and Σ_y p_y − q_y = 0:

        ½ (KL(p‖q) + KL(q‖p)) = ½ Σ_y (p_y − q_y) r_y
        d / d x_y = ½ (p_y − q_y + p_y (r_y − Σ_w p_w r_w))
        d / d z_y = ½ (q_y − p_y − q_y (r_y − Σ_w q_w r_w))
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        gradient = torch.empty_like(logits)
        total = torch.zeros((), dtype=wide, device=logits.device)
        real = (labels != PADDING)[:, None].to(wide)
        size = _rows_at_a_time(labels)
        parts = [x.split(size) for x in (*logits.chunk(2), *gradient.chunk(2), real)]
        for x, z, x_gradient, z_gradient, weight in zip(*parts, strict=True):
            p, q = x.softmax(-1, dtype=wide), z.softmax(-1, dtype=wide)
            difference, r = (p - q).mul_(weight / 2), (x.to(wide) - z).mul_(weight / 2)
            mean_p, mean_q = ((each * r).sum(-1, keepdim=True) for each in (p, q))
            total += (mean_p - mean_q).sum()
            x_gradient.copy_(p.mul_(r - mean_p).add_(difference))
            z_gradient.copy_(q.mul_(mean_q - r).sub_(difference))
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None
