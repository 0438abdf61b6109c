"""Scores of the weights that a run releases, on held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.training.trainer import Trainer
from zoo.training.validation import validate

PAIRS = 500
"""The most pairs that are translated."""


@dataclass(frozen=True)
class HeldOutScores:
    """The loss per target token in nats, and scores of the translations of `pairs` pairs.

    `exact` is the percentage of them that equal their references.
    """

    loss: float
    bleu: float | None
    chrf: float | None
    exact: float | None
    pairs: int


def score_held_out(trainer: Trainer, weights: Mapping[str, Tensor]) -> HeldOutScores | None:
    """Score weights on the validation set.

    Returns None if there is no validation set, or several processes train together.
    """
    validation = trainer.data.validation
    if trainer.group.size > 1 or not len(validation):
        return None
    trained = {name: w.detach().clone() for name, w in trainer.model.named_parameters()}
    pairs = min(len(validation), PAIRS)
    recipe = trainer.plan.recipe.model_copy(update={"bleu_sentences": pairs, "samples": 0})
    trainer.model.eval()
    try:
        _put(trainer, weights)
        result = validate(trainer.model, validation, recipe, trainer.group)
    finally:
        _put(trainer, trained)
    bleu, chrf = result.scores.get("bleu"), result.scores.get("chrf")
    return HeldOutScores(result.loss, bleu, chrf, result.exact, pairs)


def _put(trainer: Trainer, weights: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            parameter.copy_(weights[name])
