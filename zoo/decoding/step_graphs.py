"""What a GPU repeats of a network: a step for each shape of what it reads, turns and encodings.

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
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from zoo.decoding.encode_graph import EncodeGraph
from zoo.decoding.step_graph import (
    NotRecordableError,
    StepGraph,
    dtype_of_logits,
    kind,
    networks_of,
    row_count,
)
from zoo.decoding.task import Task
from zoo.decoding.turns import Settings, Turns
from zoo.errors import FAILURES
from zoo.nn.contract import Memory, Seq2Seq, State, Step
from zoo.nn.cuda_graphs import (
    Snapshot,
    can_record,
    declares_recordable,
    failures,
    new_pool,
    new_stream,
    record,
)
from zoo.nn.faults import encode, init_state, step
from zoo.nn.tree import Tree

R = TypeVar("R")
T = TypeVar("T", bound=Turns)

RECORDED_LEAVE_AT = 3 / 4
"""`Task.leave_at` where steps are recorded: a GPU takes little less time for half of the rows."""

MOST_ROWS = 4096
"""With more rows in a step, its computation takes longer than its start."""

MOST_TOKENS, MOST_SHAPES = 1 << 14, 32
"""The most tokens of recorded sources, and the most of their shapes."""

MOST_BYTES = 1 << 31
"""The most memory of what a network has recorded; what is unused for longest is dropped."""


class StepGraphs:
    """What has been recorded of a network or an ensemble: steps, turns and encodings of sources."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failure = ""  # why nothing can be recorded; not the error, which holds the network
        self._graphs: OrderedDict[Any, StepGraph] = OrderedDict()
        self._failures = failures()
        self._stream: torch.cuda.Stream | None = None
        self._snapshot: Snapshot | None = None
        self._pool: Any = None  # the memory that recorded steps compute in
        self._has_recorded = False
        self.may_encode = True
        self.dtype = torch.float32  # of the logits in full precision
        self._encoders: OrderedDict[Any, EncodeGraph | None] = OrderedDict()
        self._first: dict[Any, Any] = {}  # the key of the graph with fewest positions, by memory

    def prepare(self, networks: list[nn.Module]) -> bool:
        """Drop what was recorded of other weights; return whether steps can be recorded."""
        snapshot = self._snapshot
        if (
            snapshot is None
            or not snapshot.has_same_modules(networks)
            or not snapshot.has_same_weights()
            or self._failures != failures()
        ):
            self._forget()
            self._snapshot, self._failures = Snapshot.of(networks), failures()
            self.dtype = dtype_of_logits(networks)
        return self._snapshot is not None and not self.failure

    def find(self, token: Tensor, state: Tree, memory: Tree) -> StepGraph | None:
        """Return what repeats a step for what these show; None if nothing can."""
        if self.failure or not 0 < len(token) <= MOST_ROWS:
            return None
        try:
            sentences = row_count(memory)
            shape = rounded(sentences), len(token) // sentences
            of_memory = *shape, kind(memory)
            key = *of_memory, kind(state)
        except NotRecordableError:
            return None
        if key not in self._graphs:
            self._stream = self._stream or new_stream(token.device)
            try:
                graph = StepGraph(state, memory, *shape, self._record)
            except FAILURES as error:
                self.fail(error)
                return None
            first = self._graphs.get(self._first.get(of_memory))
            if first is None or graph.positions < first.positions:
                self._first[of_memory] = key
            self._graphs[key] = graph
        known = self._kept(key)
        return known if known is not None and known.room(state) > 0 else None

    def first(self, memory: Tree, state: Tree, beam: int) -> StepGraph | None:
        """Return what repeats the first step for such a memory; None if nothing can."""
        try:
            sentences = row_count(memory)
            key = self._first.get((rounded(sentences), beam, kind(memory)))
        except NotRecordableError:
            return None
        graph = None if key is None or self.failure else self._kept(key)
        return graph if graph is not None and graph.may_begin(state) else None

    def encode(self, network: Any, source: Tensor, mask: Tensor) -> Any:
        """Return the memory of sources as it was recorded; None if it has not been.

        It is recorded when sources of a shape come a second time.
        """
        sentences = rounded(len(source))
        key = sentences, source.dtype, *source.shape[1:]
        if not self.may_encode or not len(source) or sentences * source.shape[1] > MOST_TOKENS:
            return None
        if key not in self._encoders:
            self._encoders[key] = None
            if len(self._encoders) > MOST_SHAPES:
                self._encoders.popitem(last=False)
            return None
        self._encoders.move_to_end(key)
        try:
            graph = self._encoders[key]
            if graph is None:
                self._stream = self._stream or new_stream(source.device)
                graph = EncodeGraph(network, source, mask, sentences, self._record)
                self._encoders[key] = graph
            memory = graph.repeat(source, mask)
        except FAILURES:  # its steps may be recorded all the same
            self._forget()
            self.may_encode, self._failures = False, failures()
            return None
        self._look([network])
        return memory

    def ready(self, networks: list[nn.Module], record: Callable[[], R]) -> R | None:
        """Return what `record` returns, which may record something; None if it cannot."""
        try:
            result = record()
        except FAILURES as error:
            self.fail(error)
            return None
        self._look(networks)
        return result

    def _look(self, networks: list[nn.Module]) -> None:
        """If something was recorded, remember how networks are, and drop what is too much."""
        if not self._has_recorded:
            return
        self._snapshot, self._has_recorded = Snapshot.of(networks), False
        for kept in (self._encoders, self._graphs):
            while len(kept) > 1 and self._size() > MOST_BYTES:
                kept.popitem(last=False)

    def _kept(self, key: Any) -> StepGraph | None:
        """Return a recorded step, if it is kept, as the one that was used last."""
        if key in self._graphs:
            self._graphs.move_to_end(key)
        return self._graphs.get(key)

    def fail(self, error: BaseException) -> None:
        """Record nothing any more."""
        self._forget()
        self.failure, self._failures = f"{type(error).__name__}: {error}", failures()

    def release(self) -> None:
        """Let go of what a search has given."""
        for graph in self._graphs.values():
            graph.release()

    def _forget(self) -> None:
        self._graphs.clear()
        self._first.clear()
        self._encoders.clear()
        self._pool, self.failure = None, ""  # a pool's memory is gone with the last of them

    def _size(self) -> int:
        of_encoders = sum(graph.size() for graph in self._encoders.values() if graph is not None)
        return of_encoders + sum(graph.size() for graph in self._graphs.values())

    def _record(self, function: Callable[[], None]) -> Callable[[], None]:
        self._pool = self._pool or new_pool()
        assert self._stream is not None
        self._has_recorded = True
        return record(function, self._pool, self._stream)


class Recorded:
    """A network or an ensemble whose steps are repeated where they were recorded."""

    def __init__(self, model: Any, graphs: StepGraphs) -> None:
        self._model, self._graphs = model, graphs
        self._last: StepGraph | None = None  # if it has been prepared
        self._turning: StepGraph | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def target_vocab(self) -> int:
        """How many tokens there are logits for."""
        network = networks_of(self._model)[0]
        assert isinstance(network, Seq2Seq)
        return network.target_vocab

    @property
    def dtype(self) -> torch.dtype:
        """Of the logits in full precision."""
        return self._graphs.dtype

    def init_state(self, memory: Tree) -> Any:
        """Return the state before the first token."""
        return init_state(self._model, memory)

    def step(self, token: Tensor, state: Tree, memory: Tree, attention: bool = False) -> Step[Any]:
        """Read one token a row, and predict the next, as `Seq2Seq.step` does."""
        last = self._last
        if attention:
            self._last = None
        elif last is None or not last.fits(token, state, memory) or last.room(state) < 1:
            self._last = self._prepared(token, state, memory)
        if self._last is None:
            return step(self._model, token, state, memory, attention)
        return self._last.repeat(token, state, memory)

    def _prepared(self, token: Tensor, state: Tree, memory: Tree) -> StepGraph | None:
        model = self._model
        graph = self._graphs.find(token, state, memory)
        if graph is None:
            return None
        ready = self._graphs.ready(
            networks_of(model), lambda: graph.prepare(model, token, state, memory)
        )
        return ready if ready is not None and ready.room(state) > 0 else None

    def begin(
        self, kind: type[T], settings: Settings, beam: int, given: tuple[Tensor, Tree, Tree], *,
        is_first: bool,
    ) -> T | None:  # fmt: skip
        """Return turns that begin by reading a token, a state and the memory; None if none can.

        Args:
            kind, settings: of the turns.
            beam: rows of each sentence.
            given: the token, the state and the memory.
            is_first: whether these are of the first position, one row a sentence.
        """
        (token, state, memory), self._last = given, None
        if is_first:
            graph = self._graphs.first(memory, state, beam)
        else:
            graph = self._graphs.find(token, state, memory)
        self._turning = graph
        if graph is None:
            return None
        (graph.begin if is_first else graph.load)(token, state, memory)
        return self._graphs.ready(networks_of(self._model), lambda: graph.turns(kind, settings))

    def record(self, turns: Turns, banned: tuple[int, ...]) -> bool:
        """Return whether the turns that have begun are recorded for bans."""
        graph, model = self._turning, self._model
        assert graph is not None
        ready = self._graphs.ready(networks_of(model), lambda: graph.record(model, turns, banned))
        return ready is not None

    def room(self, state: Tree) -> int:
        """Return for how many turns there is room, from the state on with which they have begun."""
        assert self._turning is not None
        return self._turning.room(state)

    def after(self, state: State, turns: int) -> State:
        """Return what a state has become by so many turns; the next step overwrites it."""
        assert self._turning is not None
        return self._turning.lent(state, turns)


_GRAPHS: weakref.WeakKeyDictionary[Any, StepGraphs] = weakref.WeakKeyDictionary()


def encode_recorded(
    network: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, record: bool = True
) -> Memory:
    """Return the memory of sources as `encode` does, repeated as it was recorded if possible.

    Args:
        network: with other weights, it is recorded anew.
        source, mask: (sentences, m) int64 and bool.
        record: as in `Task`.
    """
    with _graphs_of(network, [network], mask.device, record) as graphs:
        memory = None if graphs is None else graphs.encode(network, source, mask)
    return encode(network, source, mask) if memory is None else memory


@contextlib.contextmanager
def recorded(task: Task[Memory, State]) -> Iterator[Task[Memory, State]]:
    """Return a task whose steps are repeated as they were recorded, where that is possible.

    It is possible on an NVIDIA GPU, for networks that are `recordable`, in one search at a time.
    """
    networks = networks_of(task.model)
    with _graphs_of(task.model, networks, task.mask.device, task.record) as graphs:
        if graphs is None:
            yield task
            return
        model = Recorded(task.model, graphs)
        try:
            yield replace(task, model=model, leave_at=RECORDED_LEAVE_AT)
        finally:
            graphs.release()


@contextlib.contextmanager
def _graphs_of(
    model: Any, networks: list[nn.Module], device: torch.device, record: bool
) -> Iterator[StepGraphs | None]:
    """Return what a network or an ensemble has recorded; None if it cannot, or it is in use."""
    usable = record and can_record(device) and all(map(declares_recordable, networks))
    if not usable or torch.is_autocast_enabled(device.type):
        yield None
        return
    graphs = _GRAPHS.setdefault(model, StepGraphs())
    if not graphs.lock.acquire(blocking=False):
        yield None
        return
    try:
        yield graphs if graphs.prepare(networks) else None
    finally:
        graphs.lock.release()


def rounded(sentences: int) -> int:
    """Return the room of a recorded step for so many sentences: 8, 12, 16, 24, 32, …"""
    size = 8
    while size < sentences:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size
