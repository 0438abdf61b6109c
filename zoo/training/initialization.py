"""The network with its first weights, and the built-in ways to draw them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from zoo.errors import ZooError
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.nn.faults import broken_network
from zoo.registry.config import Config, parameters_of
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
    sizes = (data.source_tokenizer.size, data.target_tokenizer.size)
    kind = network_type(registry.architecture(plan.architecture))
    torch.manual_seed(recipe.seed)
    network = build(kind, plan.config, *sizes)
    _check_tensors(network)
    with torch.random.fork_rng(devices=()):
        _check_loading(kind, plan.config, *sizes)
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


def table_notes(network: Seq2Seq, plan: Plan, data: TrainingData) -> list[str]:
    """Return a note for the user if the parameter table has another size than the network."""
    sizes = (data.source_tokenizer.size, data.target_tokenizer.size)
    table = parameters_of(plan.config, *sizes).total
    total = sum(weight.numel() for weight in network.parameters())
    if table == total:
        return []
    return [
        f"the parameter table of {plan.architecture} has {table:,} parameters, the network "
        f"{total:,}: `zoo info` and cards show the table. Its author should run "
        f"pytest --pyargs zoo.testing --zoo-architecture {plan.architecture}"
    ]


def _check_tensors(network: Seq2Seq) -> None:
    """Make sure that a checkpoint will hold all of a network: floating-point parameters alone."""
    faults = [f"{name} is a buffer" for name, _ in network.named_buffers()]
    for name, weight in network.named_parameters():
        if is_lazy(weight):
            faults.append(f"{name} has no shape before the first batch")
        elif not weight.is_floating_point():
            faults.append(f"{name} is {weight.dtype}")
    for name, module in network.named_modules():
        faults += [
            f"{name}.{key}".lstrip(".") + " is a plain tensor"
            for key, value in vars(module).items()
            if isinstance(value, Tensor)
        ]
    if faults:
        listed = "; ".join(faults[:5])
        raise broken_network(
            type(network),
            f"a checkpoint holds floating-point parameters, and {listed}",
            "Compute a table where it is used, and give each layer its sizes",
        )


def _check_loading(kind: type[Seq2Seq], config: Config, source: int, target: int) -> None:
    """Make sure that the network can be built as a checkpoint is loaded: without values."""
    try:
        build(kind, config, source, target, "meta")
    except ZooError as error:
        raise broken_network(
            kind,
            "no checkpoint of it could be loaded, which needs its constructor to work on the meta "
            f"device: {error}",
            "Read no values in the constructor, and name no device",
        ) from error


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
