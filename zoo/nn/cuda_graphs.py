"""Recording what a function does on an NVIDIA GPU, to repeat it at once: CUDA graphs.

A small network is a hundred or more short computations. To start them one by one from Python takes
a GPU several times as long as to compute them; a CUDA graph starts all of them together. It repeats
the same operations on the same memory, whatever Python has decided: what is recorded may depend on
shapes and settings, not on values.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from zoo.errors import FAILURES
from zoo.nn.cached_weights import version
from zoo.nn.stack_parts import Watched


def can_record(device: torch.device) -> bool:
    """Return whether a device can repeat what it has recorded."""
    return device.type == "cuda" and torch.version.hip is None


def declares_recordable(network: nn.Module) -> bool:
    """Return whether a network's own class, not one that it inherits from, is `recordable`."""
    return bool(vars(type(network)).get("recordable", False))


def record(
    function: Callable[[], None], pool: Any, stream: torch.cuda.Stream
) -> Callable[[], None]:
    """Call a function, and record what it does on the GPU; return what repeats it.

    The function is called twice: the first time it computes, and libraries prepare themselves,
    which cannot be recorded; the second time nothing is computed.

    Args:
        function: it does not wait for the GPU.
        pool: the memory for what it allocates, from `new_pool`. Functions that share it are
            repeated in turn, each after the results of the last one have been used.
        stream: from `new_stream`; the same for all functions that share the memory.
    """
    with _RECORDING, on_stream(stream):
        function()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                function()
            finally:
                graph.capture_end()
        except FAILURES:
            _stop_recording(pool, stream.device)
            raise
    return graph.replay


@contextlib.contextmanager
def on_stream(stream: torch.cuda.Stream) -> Iterator[torch.cuda.Stream]:
    """Compute the block on a stream, after what was begun before and before what follows."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            yield stream
    finally:
        current.wait_stream(stream)


def fetch(values: Tensor) -> Callable[[], list[Any]]:
    """Begin to copy values from their device; return what waits for them, as `tolist` does.

    What the GPU is given in between, it computes while the processor goes on.
    """
    if not values.is_cuda:
        return values.tolist
    copy = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
    copy.copy_(values, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(values.device))

    def wait() -> list[Any]:
        event.synchronize()
        numbers: list[Any] = copy.tolist()
        return numbers

    return wait


def new_pool() -> Any:
    """Return memory for recorded functions; it is gone with the last of them."""
    return torch.cuda.graph_pool_handle()


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """Return a stream of a device, on which functions are recorded."""
    return torch.cuda.Stream(device)


def failures() -> int:
    """Return how many recordings have failed: with a new one, earlier ones must be forgotten."""
    return _FAILED[0]


_RECORDING = threading.Lock()
"""torch records one function at a time."""

_FAILED = [0]


def _stop_recording(pool: Any, device: torch.device) -> None:
    """Let the random generator and the memory leave a recording that failed.

    torch leaves both in it, and the next random number, of any computation, would fail. What was
    recorded before still draws from the generator's old state: its owners forget it.
    """
    _FAILED[0] += 1
    index = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[index]
    generator.graphsafe_set_state(generator.clone_state())
    with contextlib.suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)


class Snapshot(NamedTuple):
    """Networks as they were when something was recorded of them.

    Attributes:
        watched: their modules.
        parts: what these hold.
    """

    watched: list[Watched]
    parts: list[_Part]

    @classmethod
    def of(cls, networks: list[nn.Module]) -> Snapshot | None:
        """Return how networks are now; None if a method is replaced, or there are hooks."""
        parts = [_Part.of(module) for network in networks for module in network.modules()]
        watched = [Watched.of(network) for network in networks]
        if None in watched or _have_hooks(parts):
            return None
        return cls([one for one in watched if one is not None], parts)

    def has_same_modules(self, networks: list[nn.Module]) -> bool:
        """Return whether the modules and their settings are as they were."""
        pairs = list(zip(self.watched, networks, strict=True))
        if not all(watched.is_current(network) for watched, network in pairs):
            return False
        known = [
            attributes["_parameters"]
            for watched, network in pairs
            for attributes in (network.__dict__, *(within for _, _, within in watched.inside))
        ]
        same = (now is part.parameters for now, part in zip(known, self.parts, strict=True))
        return all(same) and not _have_hooks(self.parts)

    def has_same_weights(self) -> bool:
        """Return whether no weight was written to, or replaced."""
        return all(part.has_same_weights() for part in self.parts)


class _Part(NamedTuple):
    """What a module holds, without the module: what holds that may keep it from being freed.

    weights: of `parameters`, where these are, and how often they were written to.
    """

    hooks: tuple[Mapping[int, Any], Mapping[int, Any]]
    parameters: Mapping[str, Tensor | None]
    weights: Sequence[tuple[str, Tensor | None, int, int]]

    @classmethod
    def of(cls, module: nn.Module) -> _Part:
        parameters = module._parameters
        weights = [(name, weight, *_version(weight)) for name, weight in parameters.items()]
        return cls((module._backward_hooks, module._backward_pre_hooks), parameters, weights)

    def has_same_weights(self) -> bool:
        return len(self.parameters) == len(self.weights) and all(
            self.parameters.get(name) is weight and _version(weight) == (pointer, written)
            for name, weight, pointer, written in self.weights
        )


def _version(weight: Tensor | None) -> tuple[int, int]:
    return (0, 0) if weight is None else (weight.data_ptr(), version(weight))


def _have_hooks(parts: list[_Part]) -> bool:
    """Return whether Python is called in a pass besides the networks' own methods."""
    return _has_any_global_hook() or any(
        any(hooks)
        or any(
            weight is not None
            and (weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None))
            for weight in parameters.values()
        )
        for hooks, parameters, _ in parts
    )


_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"_buffers"}


def held_tensors(networks: list[nn.Module]) -> list[Tensor]:
    """Return every tensor that a module holds besides weights, such as a table of positions.

    What was recorded reads it, even if the module has replaced it since: it must not be freed.
    """
    held: list[Tensor] = []
    for network in networks:
        for module in network.modules():
            own = vars(module)
            _add_tensors([own[name] for name in own.keys() - _OF_EVERY_MODULE], held)
    return held


def _add_tensors(values: Iterable[object], to: list[Tensor]) -> None:
    """Add all tensors among values, and in those that are tuples, lists or dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            to.append(value)
        elif isinstance(value, tuple | list):
            _add_tensors(value, to)
        elif isinstance(value, dict):
            _add_tensors(value.values(), to)
