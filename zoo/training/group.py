"""The processes that train one model together, by torch.distributed; most often there is one.

`torchrun … -m zoo train …` starts them. The first writes and prints, and each computes its rows of
every batch. Weights are whole on each (DistributedDataParallel), or in shards (FSDP2).
"""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from zoo.errors import ConfigError
from zoo.nn.contract import END, PADDING, Seq2Seq
from zoo.nn.device import pick_device

CONTRACT = ("encode", "init_state", "step")
"""What is called of a network besides `forward`."""


class Group:
    """This process among those that train together."""

    def __init__(
        self, device: torch.device, rank: int = 0, size: int = 1, sharded: bool = False
    ) -> None:
        self.device, self.rank, self.size, self.sharded = device, rank, size, sharded
        self._parallel: DistributedDataParallel | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    # --- weights --------------------------------------------------------------------------------

    def place(self, model: Seq2Seq) -> Callable[..., Any]:
        """Bring a model to its device, or its shards to theirs; return what to call in training."""
        if self.sharded:
            _shard(model, self.device)
            return model
        model.to(self.device)
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        self._parallel = DistributedDataParallel(
            model, device_ids=devices, gradient_as_bucket_view=True
        )
        return self._forward

    def _forward(self, *inputs: Tensor) -> Any:
        assert self._parallel is not None
        return self._parallel(*inputs)

    @contextlib.contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        """Keep gradients to this process unless they are of an update's last batch."""
        if self._parallel is not None and not last:
            with self._parallel.no_sync():
                yield
        else:
            yield

    def whole(self, weight: Tensor) -> Tensor:
        """Return a tensor that may be in shards as one, on the processor.

        All processes must ask; the first gets it, the others an empty one.
        """
        weight = weight.detach()
        full = weight.full_tensor() if isinstance(weight, DTensor) else weight
        return full.cpu() if self.first else torch.empty(0)

    def local(self, value: Tensor) -> Tensor:
        """Return a value that may be in shards as this process can compute with it.

        A norm becomes whole; of a weight, it is this process's shard.
        """
        if not isinstance(value, DTensor):
            return value.detach()
        return (value.full_tensor() if value.dim() == 0 else value.to_local()).detach()

    def like(self, whole: Tensor, weight: Tensor) -> Tensor:
        """Return a whole tensor as `weight` is: on its device, or in shards as it is."""
        whole = whole.to(weight.device)
        if isinstance(weight, DTensor):
            return distribute_tensor(
                whole, weight.device_mesh, weight.placements, src_data_rank=None
            )
        return whole

    # --- talk -----------------------------------------------------------------------------------

    def share(self, indices: Tensor) -> tuple[Tensor, float]:
        """Return this process's rows of a batch, and their weight.

        Where there are fewer rows than processes, some compute a row for nothing: all must take
        part in each update.
        """
        mine = indices[self.rank :: self.size]
        return (mine, 1.0) if len(mine) else (indices[:1], 0.0)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of every process's values."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def tell(self, value: Any) -> Any:
        """Return the first process's value, which JSON must be able to hold."""
        if self.size == 1:
            return value
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        content = content.to(self.device)
        length = torch.tensor(len(content), device=self.device)
        dist.broadcast(length, 0)
        if not self.first:
            content = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        dist.broadcast(content, 0)
        return json.loads(content.cpu().numpy().tobytes())

    def collect(self, values: Tensor) -> list[Tensor]:
        """Return every process's values, of one shape, on the processor."""
        if self.size == 1:
            return [values.cpu()]
        here = values.to(self.device)
        found = [torch.empty_like(here) for _ in range(self.size)]
        dist.all_gather(found, here)
        return [each.cpu() for each in found]

    def wait(self) -> None:
        """Wait for every process to come here."""
        self.sum(torch.zeros((), device=self.device))

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1 and dist.is_initialized():
            # Nothing else may hold the wrapper, which must end before what it talks through: the
            # other way round its end waits, with Python's lock, for a thread that wants that lock.
            self._parallel = None
            gc.collect()
            dist.destroy_process_group()


def join(device: str, shard: bool = False) -> Group:
    """Return the group that torchrun's environment tells of, or one of this process alone.

    Raises:
        ConfigError: there is no such device; or `shard` is set and there is one process.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        if shard:
            raise ConfigError(
                "one process has nothing to share",
                "--shard parts the weights among several",
                "Start it by torchrun --nproc-per-node N -m zoo train …",
            )
        return Group(pick_device(device))
    where = pick_device(device)
    if where.type == "cuda":
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(where)
    if not dist.is_initialized():
        # A process that dies must end the others, not leave them waiting.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
        # After a restart, what the processes before left in torchrun's store leads nowhere.
        store, rank, _ = next(rendezvous("env://"))
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        backend = "nccl" if where.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    return Group(where, dist.get_rank(), size, shard)


def restarted() -> bool:
    """Tell whether torchrun started this process again after one had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _shard(model: Seq2Seq, device: torch.device) -> None:
    """Part a model's weights, gradients and all that is kept of them among the processes.

    Each layer of a stack is gathered for its own computation alone, where the network asks a layer
    for nothing but what its methods return; any other weight with the network as a whole.
    """
    # An output that is a view may not be changed in place; no network of the contract does so to
    # what it is given, and the tests compare gradients.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    layers = _layers(model)
    if layers:
        trial = copy.deepcopy(model).eval()
        _shard_by(trial, _layers(trial), mesh)
        if not _computes(trial, device):
            layers = []
    _shard_by(model, layers, mesh)


def _shard_by(model: Seq2Seq, layers: list[nn.Module], mesh: DeviceMesh) -> None:
    for layer in layers:
        methods = _own_methods(layer)
        fully_shard(layer, mesh=mesh)
        for method in methods:
            register_fsdp_forward_method(layer, method)
    fully_shard(model, mesh=mesh)
    for method in CONTRACT:
        register_fsdp_forward_method(model, method)


@torch.no_grad()
def _computes(model: Seq2Seq, device: torch.device) -> bool:
    """Tell whether a network in shards computes: it may reach into its layers' weights."""
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
    """Return the elements of a network's lists of layers, the outermost lists'."""
    found: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            found += [layer for layer in child if any(True for _ in layer.parameters())]
        else:
            found += _layers(child)
    return found


def _own_methods(module: nn.Module) -> list[str]:
    """Return the names of a module's methods that are not every module's."""
    known = set(dir(nn.Module))
    return [
        name
        for name in dir(type(module))
        if name not in known and not name.startswith("_") and callable(getattr(module, name))
    ]


def settle(model: Seq2Seq) -> None:
    """Give up weights that were gathered for a computation, so that only shards are left."""
    if isinstance(model, FSDPModule):
        model.reshard()
