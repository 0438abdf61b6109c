"""The loss of teacher forcing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.data import Batch
from zoo.model import PADDING


class Loss(NamedTuple):
    """Sums over a batch's real target tokens, in nats; `tokens` is their number."""

    total: Tensor
    tokens: Tensor


def teacher_forcing(model: Callable[..., Any], batch: Batch, smoothing: float = 0.0) -> Loss:
    """Return −Σ_i Σ_y q_i(y) log p(y | y_1 … y_{i−1}, x) over real target tokens.

    q puts 1 − `smoothing` on the reference and spreads the rest evenly over the whole vocabulary
    (Szegedy et al. 2016, section 7). The network reads the target without its last token and is
    to give it without its first.
    """
    logits = model(batch.source, batch.source_mask, batch.target[:, :-1])
    wanted = batch.target[:, 1:]
    total = cross_entropy(logits.flatten(0, 1), wanted.flatten(), smoothing)
    return Loss(total, (wanted != PADDING).sum())


def cross_entropy(logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the sum of `teacher_forcing` of logits (tokens, vocab) and ids (tokens,).

    The sum is in float32 or wider, whatever the logits are in.
    """
    return _CrossEntropy.apply(logits, wanted, smoothing)  # type: ignore[no-untyped-call]  # torch has no types for it


class _CrossEntropy(torch.autograd.Function):
    """The loss from the probabilities, which its gradient needs and nothing else.

    With x the logits, p their softmax, s the smoothing and V the vocabulary's size:

        log Σ_y e^{x_y} = x_top − log p_top
        loss = log Σ_y e^{x_y} − (1 − s) x_wanted − s / V Σ_y x_y
        d loss / d x_y = p_y − (1 − s) [y = wanted] − s / V

    Two tensors of the size of the logits are made, in the logits' own type. A probability in
    bfloat16 is right to 1 / 256, so that no token's loss is off by much more; the logarithm of a
    small one in bfloat16, which torch's own takes, is off by several times that.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        ids = wanted[:, None]
        probability = logits.softmax(-1, dtype=logits.dtype)
        # The largest cannot have vanished, as that of the token wanted could.
        loss = logits.amax(1, keepdim=True) - probability.amax(1, keepdim=True).to(wide).log()
        loss -= (1 - smoothing) * logits.gather(1, ids)
        if smoothing:
            loss -= smoothing / logits.shape[1] * logits.sum(1, keepdim=True)
        real = ids != PADDING
        if ctx.needs_input_grad[0]:
            rows = torch.arange(len(wanted), device=wanted.device)
            probability[rows, wanted] -= 1 - smoothing
            ctx.save_for_backward(probability, real)
            ctx.spread = smoothing / logits.shape[1]
        return loss.masked_fill_(~real, 0.0).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        pull, real = ctx.saved_tensors
        scale = (gradients[0] * real).to(pull.dtype)
        return (pull * scale).sub_(scale * ctx.spread), None, None
