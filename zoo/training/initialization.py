"""The network with its first weights, and the built-in ways to draw them."""

from __future__ import annotations

import torch
from torch import nn

from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.nn.faults import broken_network
from zoo.registry.config import parameters_of
from zoo.registry.open_shelf import name_of
from zoo.registry.parameters import Table
from zoo.registry.registry import Registry
from zoo.training.data import TrainingData
from zoo.training.plan import Plan


def build_network(registry: Registry, plan: Plan, data: TrainingData, rank: int = 0) -> Seq2Seq:
    """Build the network with its first weights, and seed torch's default generator for dropout.

    The weights are the same in every process; dropout differs by `rank`.

    Raises:
        PluginError: the recipe's initialization is broken, or leaves weights that are not finite;
            or a checkpoint could not hold all of the network.
    """
    recipe = plan.recipe
    torch.manual_seed(recipe.seed)
    sizes = (data.source_tokenizer.size, data.target_tokenizer.size)
    network = build(network_type(registry.architecture(plan.architecture)), plan.config, *sizes)
    _check_tensors(network)
    shelf, name = registry.initializations, name_of(recipe.initialization)
    drawn = dict(network.named_parameters())
    trained = {key: weight.requires_grad for key, weight in drawn.items()}
    with torch.no_grad():
        shelf.make(recipe.initialization, network, parameters_of(plan.config, *sizes))
    weights = dict(network.named_parameters())
    replaced = [key for key in drawn if weights.get(key) is not drawn[key]]
    if replaced:
        raise shelf.broken(name, f"weights are replaced, not changed: {', '.join(replaced[:3])}")
    frozen = [key for key in drawn if trained[key] and not weights[key].requires_grad]
    if frozen:
        raise shelf.broken(name, f"weights are frozen: {', '.join(frozen[:3])}")
    bad = [key for key, weight in weights.items() if not bool(weight.isfinite().all())]
    if bad:
        raise shelf.broken(name, f"weights are not finite: {', '.join(bad[:3])}")
    if rank:
        torch.manual_seed((recipe.seed + 2**32 * rank) % 2**63)
    return network


def _check_tensors(network: Seq2Seq) -> None:
    """Make sure that a checkpoint will hold all of a network: floating-point parameters alone."""
    faults = [f"{name} is a buffer" for name, _ in network.named_buffers()]
    faults += [
        f"{name} is {weight.dtype}"
        for name, weight in network.named_parameters()
        if not weight.is_floating_point()
    ]
    if faults:
        listed = "; ".join(faults[:5])
        raise broken_network(
            type(network),
            f"a checkpoint holds floating-point parameters, and {listed}",
            "Compute a table where it is used, from the configuration",
        )


def own(model: Seq2Seq, table: Table) -> None:
    """Keep the weights as the network has drawn them."""


@torch.no_grad()
def xavier_uniform(model: Seq2Seq, table: Table) -> None:
    """Draw each matrix uniformly within ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010, eq. 16).

    A tensor that holds several of the table's matrices is drawn one matrix at a time. Vectors are
    not changed.
    """
    for row in table:
        if len(row.shape) > 1:
            weight = model.get_parameter(row.path)
            nn.init.xavier_uniform_(weight[slice(*row.slice)] if row.slice else weight)
