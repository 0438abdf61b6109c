"""The processes that train one model together, through torch.distributed; most often there is one.

`torchrun … -m zoo train …` starts them. The first process writes and prints; each computes its rows
of every batch. Each process holds all weights (DistributedDataParallel), or shards of them (FSDP2).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from zoo.errors import ConfigError, PluginError, ZooError
from zoo.nn.contract import Seq2Seq
from zoo.nn.device import pick_device
from zoo.training.sharding import is_sharded_tensor, shard


class ProcessGroup:
    """This process among those that train together: `rank` of `size`."""

    def __init__(
        self,
        device: torch.device,
        rank: int = 0,
        size: int = 1,
        sharded: bool = False,
        store: PrefixStore | None = None,
    ) -> None:
        self.device, self.rank, self.size, self.sharded = device, rank, size, sharded
        self._store = store
        self._parallel: DistributedDataParallel | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    # --- weights --------------------------------------------------------------------------------

    def move(self, model: Seq2Seq) -> None:
        """Move a model to its device, or shard it."""
        if self.sharded:
            shard(model, self.device)
        else:
            model.to(self.device)

    def distribute(self, loss: nn.Module) -> Callable[..., Any]:
        """Return the function to call in training, which exchanges the gradients of a module.

        Raises:
            PluginError: the module's parameters have another order in another process.
        """
        if self.size == 1:
            return loss
        self._require_one_order(loss)
        if self.sharded:
            return loss
        devices = [self.device] if self.device.type == "cuda" else None
        self._parallel = DistributedDataParallel(
            loss, device_ids=devices, gradient_as_bucket_view=True
        )
        return self._forward

    def _require_one_order(self, loss: nn.Module) -> None:
        """Raise in every process if one has another order: gradients are exchanged by it."""
        names = " ".join(name for name, _ in loss.named_parameters())
        order = torch.tensor(zlib.crc32(names.encode()))
        if any(not torch.equal(order, other) for other in self.all_gather(order)):
            raise PluginError(
                "several processes cannot train this network",
                "its parameters have another order in each process, as if its constructor looped "
                "over a set",
                "Train in one process. Its author can make the modules in a loop over a tuple",
            )

    def _forward(self, *inputs: Any) -> Any:
        assert self._parallel is not None
        return self._parallel(*inputs)

    @contextlib.contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        """Do not exchange gradients unless they are of an update's last batch."""
        if self._parallel is not None and not last:
            with self._parallel.no_sync():
                yield
        else:
            yield

    def full_tensor(self, weight: Tensor) -> Tensor:
        """Return a tensor that may be in shards as a whole tensor on the CPU.

        All processes must call it; the first gets the tensor, the others an empty one.
        """
        weight = weight.detach()
        full = weight.full_tensor() if is_sharded_tensor(weight) else weight
        return full.cpu() if self.is_first else torch.empty(0, device="cpu")

    def to_local(self, value: Tensor) -> Tensor:
        """Return a value that may be in shards as a plain tensor.

        A scalar is reduced to its full value; of a weight, the result is this process's shard.
        """
        if not is_sharded_tensor(value):
            return value.detach()
        return (value.full_tensor() if value.dim() == 0 else value.to_local()).detach()

    def local_rows(self, indices: Tensor) -> tuple[Tensor, float]:
        """Return this process's rows of a batch, and their weight.

        If there are fewer rows than processes, some processes compute a row with weight 0: all must
        take part in each update.
        """
        mine = indices[self.rank :: self.size]
        return (mine, 1.0) if len(mine) else (indices[:1], 0.0)

    # --- collectives ----------------------------------------------------------------------------

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of every process's values."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return the first process's value, which must be representable as JSON."""
        if self.size == 1:
            return value
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        content = content.to(self.device)
        length = torch.tensor(len(content), device=self.device)
        dist.broadcast(length, 0)
        if not self.is_first:
            content = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        dist.broadcast(content, 0)
        return json.loads(content.cpu().numpy().tobytes())

    def all_gather(self, values: Tensor) -> list[Tensor]:
        """Return every process's values, which have one shape, on the CPU."""
        if self.size == 1:
            return [values.cpu()]
        here = values.to(self.device)
        gathered = [torch.empty_like(here) for _ in range(self.size)]
        dist.all_gather(gathered, here)
        return [each.cpu() for each in gathered]

    def barrier(self) -> None:
        """Wait until every process has called this."""
        self.all_reduce(torch.zeros((), device=self.device))

    def mark_error(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Mark an error of one of several processes, or of all of them, so that one reports it."""
        if self.size == 1 or not isinstance(error, ZooError):
            return
        try:
            first = self._store.add("errors", 1) == 1 if self._store else self.is_first
        except RuntimeError:  # the process that has the store reported its error, and ended
            first = self.is_first
        error.quiet = not first

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1 and dist.is_initialized():
            # The wrapper must be destroyed before the group it communicates through. In the other
            # order its destructor holds Python's lock and waits for a thread that needs that lock.
            self._parallel = None
            gc.collect()
            dist.destroy_process_group()


def join_process_group(device: str, shard: bool = False) -> ProcessGroup:
    """Return the group that torchrun's environment variables describe, or one of this process.

    In a group on GPUs, torch's current device is set to the one of this process.

    Raises:
        ConfigError: there is no such device; or `shard` is set and there is one process.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        if shard:
            raise ConfigError(
                "--shard needs several processes",
                "it splits the weights among them, and there is one",
                "Start it by torchrun --nproc-per-node N -m zoo train …",
            )
        return ProcessGroup(pick_device(device))
    picked = pick_device(device)
    if picked.type == "cuda":
        picked = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(picked)
    store: PrefixStore | None = None
    if not dist.is_initialized():
        # After a restart, the keys of the earlier processes in torchrun's store are out of date.
        everyone, rank, _ = next(rendezvous("env://"))
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), everyone)
        backend = "nccl" if picked.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    return ProcessGroup(picked, dist.get_rank(), size, shard, store)


def was_restarted() -> bool:
    """Return whether torchrun restarted this process after one of the group had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
