"""The laws of optimizers, for the tests of a plugin that brings one.

test_law = zoo.testing.optimizer_conformance({"name": "sgd", "momentum": 0.8})
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zoo.registry.open_shelf import Named
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test
from zoo.training.optimizer import make_optimizer
from zoo.training.parts import load_optimizer_state, optimizer_state

SHAPES = {"matrix": (4, 3), "vector": (5,), "kernel": (3, 2, 2), "single": (1,), "square": (6, 6)}
DECAY = 0.1
UPDATES = 200
LEFT = 0.5
"""The part of the loss that may be left after 200 updates."""
RESUMED = 12
"""Updates before a run is saved, and after it: some optimizers do more every ten updates."""

Weights = dict[str, nn.Parameter]


@dataclass(frozen=True)
class OptimizerCase:
    """An optimizer, by name and options, and the rate of its updates."""

    named: Named
    registry: Registry
    rate: float

    def make(self, decay: float = 0.0) -> tuple[Weights, torch.optim.Optimizer]:
        """Return weights, the same at each call, and an optimizer of them."""
        draw = torch.Generator().manual_seed(4)
        weights = {
            name: nn.Parameter(torch.randn(shape, generator=draw)) for name, shape in SHAPES.items()
        }
        values = {"optimizer": self.named, "learning_rate": self.rate, "weight_decay": decay}
        recipe = Recipe.parse(values, "the optimizer")
        return weights, make_optimizer(self.registry, recipe, weights.values())


def update(weights: Weights, optimizer: torch.optim.Optimizer, rate: float, seed: int = 0) -> float:
    """Make an update of the loss Σ (w − 1)² / 2, as the trainer does, and return the loss.

    Torch's default generator has a seed.
    """
    torch.manual_seed(seed)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = torch.stack([(weight - 1).square().sum() / 2 for weight in weights.values()]).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def copies(weights: Weights) -> dict[str, Tensor]:
    """Return copies of weights."""
    return {name: weight.detach().clone() for name, weight in weights.items()}


def optimizer_case(
    named: Named, registry: Registry | None = None, rate: float = 0.01
) -> OptimizerCase:
    """Return the case of an optimizer; `rate` is a sensible one for it."""
    return OptimizerCase(named, registry or default_registry(), rate)


@law_of(causes="groups that are joined into one list; a group or a kind of weight left out")
def groups_are_kept(case: OptimizerCase) -> None:
    """Every weight is in one group, with the weight decay that was given for it."""
    weights, optimizer = case.make(DECAY)
    for name, weight in weights.items():
        of = [
            group for group in optimizer.param_groups if any(w is weight for w in group["params"])
        ]
        if len(of) != 1:
            raise BrokenLawError(f"the {name} {SHAPES[name]} is in {len(of)} groups, not in one")
        given = DECAY if weight.dim() > 1 else 0.0
        if of[0].get("weight_decay", given) != given:
            raise BrokenLawError(
                f"the {name} {SHAPES[name]} has the weight decay {of[0]['weight_decay']}, "
                f"not {given}"
            )


@law_of(
    causes="`recipe.learning_rate` in place of the group's `lr`; weights of some shape left out",
    requires="groups_are_kept",
)
def rate_of_the_group_counts(case: OptimizerCase) -> None:
    """An update changes every weight that has a gradient, and none at a rate of 0."""
    for rate in (0.0, case.rate):
        weights, optimizer = case.make()
        before = copies(weights)
        update(weights, optimizer, rate)
        for name, weight in weights.items():
            changed = not torch.equal(weight.detach(), before[name])
            if changed != (rate > 0):
                does = "changes" if changed else "does not change"
                raise BrokenLawError(f"an update at rate {rate} {does} the {name} {SHAPES[name]}")


@law_of(
    causes="no check of `weight.grad is None`; weight decay of weights without a gradient",
    requires="groups_are_kept",
)
def weights_without_a_gradient_stay(case: OptimizerCase) -> None:
    """A weight that has no gradient is not changed."""
    weights, optimizer = case.make(DECAY)
    before = copies(weights)
    update({"vector": weights["vector"]}, optimizer, case.rate)
    changed = [
        name
        for name, weight in weights.items()
        if name != "vector" and not torch.equal(weight.detach(), before[name])
    ]
    if changed:
        raise BrokenLawError(f"without a gradient, {', '.join(changed)} changed")


@law_of(
    causes="a sign that is wrong; a mean that is never filled; a rate that fits no network: give "
    "`rate` to the test",
    requires="rate_of_the_group_counts",
)
def loss_falls(case: OptimizerCase) -> None:
    """Two hundred updates lower a convex loss to half of it or less."""
    weights, optimizer = case.make()
    first = update(weights, optimizer, case.rate)
    last = first
    for seed in range(UPDATES):
        last = update(weights, optimizer, case.rate, seed)
    if not last <= LEFT * first:
        raise BrokenLawError(
            f"{UPDATES} updates at rate {case.rate} change the loss from {first:.3g} to "
            f"{last:.3g}; the threshold is {LEFT * first:.3g}"
        )


@law_of(
    causes="values kept on the object in place of `state` or the groups; Python's or numpy's "
    "random numbers; values that are neither tensors nor numbers, texts, lists or tables",
    requires="groups_are_kept",
)
def resumed_run_makes_the_same_updates(case: OptimizerCase) -> None:
    """An optimizer that is saved and read back makes the same updates, bit for bit."""
    weights, optimizer = case.make(DECAY)
    for step in range(RESUMED):
        update(weights, optimizer, case.rate, step)
    tensors, values = optimizer_state(optimizer, weights)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    values = json.loads(json.dumps(values))
    others, resumed = case.make(DECAY)
    for name, weight in weights.items():
        others[name].data.copy_(weight.data)
    load_optimizer_state(resumed, others, tensors, values)
    for step in range(RESUMED, 2 * RESUMED):
        update(weights, optimizer, case.rate, step)
        update(others, resumed, case.rate, step)
    differ = [name for name in weights if not torch.equal(weights[name], others[name])]
    if differ:
        raise BrokenLawError(f"{RESUMED} updates after it is read back, {', '.join(differ)} differ")


OPTIMIZER_LAWS = [
    groups_are_kept,
    rate_of_the_group_counts,
    weights_without_a_gradient_stay,
    loss_falls,
    resumed_run_makes_the_same_updates,
]
"""All laws of optimizers, the most basic first."""


def optimizer_conformance(
    named: Named, registry: Registry | None = None, rate: float = 0.01
) -> Callable[[LawOf[OptimizerCase]], None]:
    """Return a test of every law of optimizers, for one that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe; `rate` a sensible learning
    rate.
    """
    return conformance_test(OPTIMIZER_LAWS, lambda: optimizer_case(named, registry, rate))
