"""The built-in optimizers, and the one that a recipe names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from zoo.registry.open_shelf import name_of
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.sharding import is_sharded_tensor

ParameterGroups = list[dict[str, Any]]


class Adam(torch.optim.Adam):
    """torch's Adam without the import of torch's compiler, which takes two seconds.

    torch wraps these methods so that its compiler leaves them alone, and the wrapper imports it.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


def make_optimizer(
    registry: Registry, recipe: Recipe, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the recipe's optimizer. Weight decay applies to matrices alone.

    Frozen weights are left out.

    Raises:
        UnknownNameError: there is no optimizer of that name.
        ConfigError: its options are not valid.
        PluginError: it is broken.
    """
    weights = [weight for weight in parameters if weight.requires_grad]
    groups: ParameterGroups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizer = registry.optimizers.make(recipe.optimizer, groups, recipe)
    if not isinstance(optimizer, torch.optim.Optimizer):
        reason = f"it made {optimizer!r}, which is no torch.optim.Optimizer"
        raise registry.optimizers.broken(name_of(recipe.optimizer), reason)
    return optimizer


def adam(groups: ParameterGroups, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam (Kingma & Ba 2015, algorithm 1); weight decay is added to the gradient."""
    return Adam(groups, **_options(recipe))


def adamw(groups: ParameterGroups, recipe: Recipe) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov & Hutter 2019, algorithm 2): weight decay beside the gradient.

    As in torch, a weight w decays by lr · weight_decay · w, with the rate of the schedule. In the
    paper only the schedule's multiplier scales the decay, not the learning rate α.
    """
    return Adam(groups, **_options(recipe), decoupled_weight_decay=True)


def clip_gradients(weights: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale gradients so that their norm is at most `most`; return the norm before, a scalar.

    As `torch.nn.utils.clip_grad_norm_`, which also multiplies by 1. A CPU saves that pass.
    """
    weights = list(weights)
    norm = get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    is_known = norm.device.type == "cpu" and not is_sharded_tensor(norm)
    if not (is_known and most / (norm + 1e-6) >= 1):  # as torch computes the factor
        clip_grads_with_norm_(weights, most, norm)
    return norm


def _options(recipe: Recipe) -> dict[str, Any]:
    # Fused: one pass over all weights an update.
    return {
        "lr": recipe.learning_rate,
        "betas": (recipe.beta1, recipe.beta2),
        "eps": recipe.epsilon,
        "fused": True,
    }
