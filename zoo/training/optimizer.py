"""Optimisers, and the first weights."""

from __future__ import annotations

import torch
from torch import nn

from zoo.nn.contract import Seq2Seq
from zoo.registry.parameters import Table
from zoo.registry.recipe import Recipe


def make_optimiser(model: Seq2Seq, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimiser, fused: one pass over all weights an update.

    Adam is of Kingma & Ba 2015, AdamW of Loshchilov & Hutter 2019. Weight decay is for matrices
    alone, not for biases and norms.
    """
    weights = list(model.parameters())
    groups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimiser]
    return kind(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=True,
    )


@torch.no_grad()
def draw_xavier(model: Seq2Seq, table: Table) -> None:
    """Draw each matrix uniformly within ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010).

    A tensor that holds several of the table's matrices is drawn one matrix at a time; vectors stay
    as they are.
    """
    for row in table:
        if len(row.shape) > 1:
            weight = model.get_parameter(row.path)
            nn.init.xavier_uniform_(weight[slice(*row.slice)] if row.slice else weight)
