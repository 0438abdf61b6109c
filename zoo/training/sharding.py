"""Weights in shards: each process holds a part of every weight (FSDP2)."""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from typing_extensions import TypeIs

from zoo.nn.contract import END, PADDING, Seq2Seq

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

CONTRACT_METHODS = ("encode", "init_state", "step")
"""The methods of a network that are called besides `forward`."""

# FSDP and DTensor take a fifth of the time in which `zoo train` starts: only `shard` imports them.
# Before their import, nothing is in shards.


def is_sharded_model(model: nn.Module) -> TypeGuard[FSDPModule]:
    """Return whether a network's weights are in shards."""
    module = sys.modules.get("torch.distributed.fsdp")
    return module is not None and isinstance(model, module.FSDPModule)


def is_sharded_tensor(value: Tensor) -> TypeIs[DTensor]:
    """Return whether a tensor is in shards."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def shard(model: Seq2Seq, device: torch.device) -> None:
    """Shard a model's weights, and so their gradients and moments, among the processes.

    Each layer of a stack is gathered for its own computation alone, if the network accesses the
    layer's weights only through the layer's methods. All other weights are gathered together.
    """
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    layers = _layers(model)
    if layers:
        trial = copy.deepcopy(model).eval()
        _shard_by_layers(trial, _layers(trial), mesh)
        if not _computes(trial, device):
            layers = []
    _shard_by_layers(model, layers, mesh)


def reshard(model: Seq2Seq) -> None:
    """Free weights that were gathered for a computation, so that only shards are left."""
    if is_sharded_model(model):
        model.reshard()


def distribute_like(whole: Tensor, weight: Tensor) -> Tensor:
    """Return a whole tensor on the device of `weight`, in shards if that is in shards."""
    whole = whole.to(weight.device)
    if is_sharded_tensor(weight):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(whole, weight.device_mesh, weight.placements, src_data_rank=None)
    return whole


def _shard_by_layers(model: Seq2Seq, layers: list[nn.Module], mesh: DeviceMesh) -> None:
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for layer in layers:
        methods = _methods(layer)
        fully_shard(layer, mesh=mesh)
        for method in methods:
            register_fsdp_forward_method(layer, method)
    fully_shard(model, mesh=mesh)
    for method in CONTRACT_METHODS:
        register_fsdp_forward_method(model, method)


@torch.no_grad()
def _computes(model: Seq2Seq, device: torch.device) -> bool:
    """Return whether a network in shards computes: it may access its layers' weights directly."""
    source = torch.full((1, 3), END, device=device)
    try:
        model(source, source != PADDING, source)
        memory = model.encode(source, source != PADDING).memory
        model.step(source[:, 0], model.init_state(memory), memory)
    except RuntimeError as error:
        if "DTensor" in str(error):
            return False
        raise
    return True


def _layers(model: nn.Module) -> list[nn.Module]:
    """Return the elements of a network's outermost lists of layers."""
    layers: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            layers += [layer for layer in child if any(True for _ in layer.parameters())]
        else:
            layers += _layers(child)
    return layers


def _methods(module: nn.Module) -> list[str]:
    """Return the names of the public methods that a module adds to those of `nn.Module`."""
    inherited = set(dir(nn.Module))
    return [
        name
        for name in dir(type(module))
        if name not in inherited and not name.startswith("_") and callable(getattr(module, name))
    ]
