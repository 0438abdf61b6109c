"""Optimizers by name. A new one is a function here, with an entry on the shelf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from zoo.nn.contract import Seq2Seq
from zoo.registry.recipe import Recipe
from zoo.registry.shelf import Shelf

ParameterGroups = list[dict[str, Any]]
MakeOptimizer = Callable[[ParameterGroups, Recipe], torch.optim.Optimizer]

OPTIMIZERS: Shelf[MakeOptimizer] = Shelf("optimizer")
"""Each makes an optimizer of groups of parameters, which have their own weight decay."""


def make_optimizer(model: Seq2Seq, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimizer for a model. Weight decay applies to matrices alone.

    Frozen weights are left out.

    Raises:
        UnknownNameError: there is no optimizer of that name.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups: ParameterGroups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
    ]
    make = OPTIMIZERS.find(recipe.optimizer)
    return make([group for group in groups if group["params"]], recipe)


def adam(groups: ParameterGroups, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam (Kingma & Ba 2015, algorithm 1); weight decay is added to the gradient."""
    return torch.optim.Adam(groups, **_options(recipe))


def adamw(groups: ParameterGroups, recipe: Recipe) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov & Hutter 2019, algorithm 2): weight decay beside the gradient."""
    return torch.optim.AdamW(groups, **_options(recipe))


def _options(recipe: Recipe) -> dict[str, Any]:
    # Fused: one pass over all weights an update.
    return {
        "lr": recipe.learning_rate,
        "betas": (recipe.beta1, recipe.beta2),
        "eps": recipe.epsilon,
        "fused": True,
    }


OPTIMIZERS.add("adam", adam)
OPTIMIZERS.add("adamw", adamw)
