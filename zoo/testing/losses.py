"""The law of a network's own losses, which training adds to the cross-entropy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn.contract import PADDING, Seq2Seq
from zoo.registry.builtin import zoo_objectives
from zoo.testing.case import Case, pad
from zoo.testing.law import BrokenLawError, law, require_close
from zoo.training.training_batch import may_name_a_loss

PADDED = 3
"""Columns of padding that are added to sources and targets."""


def own_losses(
    model: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor, seed: int = 14
) -> Mapping[str, Tensor]:
    """Return a network's own losses of a batch in training mode, which it then leaves."""
    torch.manual_seed(seed)
    model.train()
    try:
        return model(source, mask, target).losses
    finally:
        model.eval()


def loss_of(model: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy of a batch's targets, without padding, in nats per token."""
    logits = model(source, mask, target[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)


@law(
    causes="a mean over the batch in place of a sum; padding that counts, of the source or of the "
    "target; .detach() or .item(); no check of self.training; .float() of the float64 in which the "
    "law computes; a name that a built-in objective has, or one with spaces",
    requires="shapes randomness_is_seeded",
)
def losses_are_sums_of_training(case: Case) -> None:
    """A network's own losses are finite sums over the batch with a gradient, in training only."""
    batch = case.source, case.mask, case.target
    if case.model(*batch).losses:
        raise BrokenLawError("forward gives losses in evaluation mode")
    losses = own_losses(case.model, *batch)
    other = own_losses(case.model, *batch, seed=15)
    source, mask, target = (torch.cat([part, part]) for part in batch)
    twice = own_losses(case.model, source, mask, target)
    padded = own_losses(case.model, *_padded(case))
    objectives = {objective.name for objective in zoo_objectives()}
    for name, loss in losses.items():
        if not may_name_a_loss(name):
            raise BrokenLawError(f"a loss is named {name!r}: use letters, digits, _, - and .")
        if name in objectives:
            raise BrokenLawError(f"loss {name!r} has the name of a built-in objective")
        if not isinstance(loss, Tensor):
            kind = type(loss).__name__
            raise BrokenLawError(f"loss {name!r} is a {kind}, not a tensor of one number")
        if loss.dim() or not loss.isfinite():
            raise BrokenLawError(f"loss {name!r} is {loss.detach()}, not one finite number")
        if not loss.requires_grad:
            raise BrokenLawError(f"loss {name!r} has no gradient")
    if not set(losses) == set(other) == set(twice) == set(padded):
        raise BrokenLawError("the names of the losses differ between two batches")
    for name, loss in losses.items():
        # With dropout, the two halves of a batch that is given twice differ.
        if torch.equal(loss, other[name]):
            scale = max(1.0, float(loss.detach().abs()))
            what = f"loss {name!r} of a batch that is given twice is not twice the batch's"
            require_close(twice[name].detach() / scale, 2 * loss.detach() / scale, what)
            what = f"more padding changes loss {name!r}"
            require_close(padded[name].detach() / scale, loss.detach() / scale, what)


def _padded(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Return the batch with more columns of padding, as many as the config allows of a target."""
    limit = case.config.length_limits.target
    width = case.target.shape[1]
    columns = PADDED if limit is None else max(0, min(PADDED, limit - 1 - width))
    return pad(case.source, PADDED), pad(case.mask, PADDED), pad(case.target, columns)
