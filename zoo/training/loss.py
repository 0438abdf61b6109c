"""The loss of teacher forcing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F  # noqa: N812  # the field's name for it
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
    total = F.cross_entropy(
        logits.flatten(0, 1),
        wanted.flatten(),
        ignore_index=PADDING,
        label_smoothing=smoothing,
        reduction="sum",
    )
    return Loss(total, (wanted != PADDING).sum())
