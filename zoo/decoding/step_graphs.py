"""The recorded steps of a network: one for each shape of what a step reads.

What a step reads is copied to where the recorded step expects it. A search has to use each state
once: the next step overwrites it.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from zoo.decoding.step_graph import NotRecordableError, StepGraph, kind, networks_of, row_count
from zoo.decoding.task import Task, Tensors
from zoo.errors import FAILURES
from zoo.nn.contract import Memory, State, Step
from zoo.nn.cuda_graphs import (
    Snapshot,
    can_record,
    declares_recordable,
    failures,
    new_pool,
    new_stream,
    record,
)
from zoo.nn.faults import init_state, step
from zoo.nn.tree import Tree

MOST_ROWS = 4096
"""With more rows in a step, its computation takes longer than its start."""

MOST_BYTES = 1 << 31
"""The most memory of the recorded steps of a network; those unused for longest are dropped."""


class StepGraphs:
    """The recorded steps of a network or an ensemble."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failure = ""  # why nothing can be recorded; not the error, which holds the network
        self._graphs: OrderedDict[Any, StepGraph | None] = OrderedDict()
        self._failures = failures()
        self._stream: torch.cuda.Stream | None = None
        self._snapshot: Snapshot | None = None
        self._pool: Any = None  # the memory that recorded steps compute in

    def prepare(self, networks: list[nn.Module]) -> bool:
        """Drop what was recorded of other weights; return whether steps can be recorded."""
        snapshot = self._snapshot
        if (
            snapshot is None
            or not snapshot.has_same_modules(networks)
            or not snapshot.has_same_weights(networks)
            or self._failures != failures()
        ):
            self._forget()
            self._snapshot, self._failures = Snapshot.of(networks), failures()
        return self._snapshot is not None and not self.failure

    def find(self, model: Any, token: Tensor, state: Tree, memory: Tree) -> StepGraph | None:
        """Return a recorded step for what these show; None if there can be none."""
        if self.failure or not 0 < len(token) <= MOST_ROWS:
            return None
        try:
            sentences = row_count(memory)
            shape = _rounded(sentences), len(token) // sentences
            key = *shape, kind(memory), kind(state)
            if key not in self._graphs:
                self._graphs[key] = None
                self._stream = self._stream or new_stream(token.device)
                self._graphs[key] = StepGraph(model, state, memory, *shape, self._record)
                self._snapshot = Snapshot.of(networks_of(model))
        except NotRecordableError:
            return None
        except FAILURES as error:
            self.fail(error)
            return None
        self._graphs.move_to_end(key)
        graph = self._graphs[key]
        while len(self._graphs) > 1 and self._size() > MOST_BYTES:
            self._graphs.popitem(last=False)
        return graph if graph is not None and graph.has_room(state) else None

    def fail(self, error: BaseException) -> None:
        """Record nothing any more."""
        self._forget()
        self.failure, self._failures = f"{type(error).__name__}: {error}", failures()

    def release(self) -> None:
        """Let go of what a search has given."""
        for graph in self._graphs.values():
            if graph is not None:
                graph.release()

    def _forget(self) -> None:
        self._graphs.clear()
        self._pool, self.failure = None, ""  # a pool's memory is gone with the last of them

    def _size(self) -> int:
        return sum(graph.size() for graph in self._graphs.values() if graph is not None)

    def _record(self, function: Callable[[], None]) -> Callable[[], None]:
        self._pool = self._pool or new_pool()
        assert self._stream is not None
        return record(function, self._pool, self._stream)


class Recorded:
    """A network or an ensemble whose steps are repeated where they were recorded."""

    def __init__(self, model: Any, graphs: StepGraphs) -> None:
        self._model, self._graphs = model, graphs
        self._last: StepGraph | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def init_state(self, memory: Tree) -> Any:
        """Return the state before the first token."""
        return init_state(self._model, memory)

    def step(self, token: Tensor, state: Tree, memory: Tree, attention: bool = False) -> Step[Any]:
        """Read one token a row, and predict the next, as `Seq2Seq.step` does."""
        last = self._last
        if attention:
            self._last = None
        elif last is None or not last.fits(token, state, memory) or not last.has_room(state):
            self._last = self._graphs.find(self._model, token, state, memory)
        if self._last is None:
            return step(self._model, token, state, memory, attention)
        return self._last.repeat(token, state, memory)

    def then(
        self,
        function: Callable[..., Tensors],
        logits: Tensor,
        *given: Tensor | int,
        **settings: Any,
    ) -> Tensors:
        """Return a function of logits, repeated as it was recorded if they are the last step's."""
        if self._last is None or not self._last.has_made(logits):
            return function(logits, *given, **settings)
        try:
            return self._last.then(function, len(logits), given, settings)
        except FAILURES as error:
            self._graphs.fail(error)
            self._last = None
            return function(logits, *given, **settings)


_GRAPHS: weakref.WeakKeyDictionary[Any, StepGraphs] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def recorded(task: Task[Memory, State]) -> Iterator[Task[Memory, State]]:
    """Return a task whose steps are repeated as they were recorded, where that is possible.

    It is possible on an NVIDIA GPU, for networks that are `recordable`, in one search at a time.
    """
    networks = networks_of(task.model)
    usable = task.record and can_record(task.mask.device)
    usable = usable and all(map(declares_recordable, networks))
    if not usable or torch.is_autocast_enabled(task.mask.device.type):
        yield task
        return
    graphs = _GRAPHS.setdefault(task.model, StepGraphs())
    if not graphs.lock.acquire(blocking=False):
        yield task
        return
    try:
        is_ready = graphs.prepare(networks)
        model = Recorded(task.model, graphs)
        yield replace(task, model=model, then=model.then) if is_ready else task
    finally:
        graphs.release()
        graphs.lock.release()


def _rounded(sentences: int) -> int:
    """Return the room of a recorded step for so many sentences: 8, 12, 16, 24, 32, …"""
    size = 8
    while size < sentences:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size
