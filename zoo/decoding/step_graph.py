"""One step of a network, recorded as a CUDA graph, and functions of its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.decoding.ensemble import Ensemble
from zoo.decoding.task import Tensors, full_precision
from zoo.nn.cache import Cache
from zoo.nn.contract import Memory, State, Step
from zoo.nn.cuda_graphs import held_tensors
from zoo.nn.faults import step
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.recorded_cache import RecordedCache
from zoo.nn.tree import Leaf, Tree, leaves, mapped

CAPACITY = 32
"""The fewest positions of a recorded step; with more, it is recorded again for twice as many."""

MOST_FUNCTIONS = 64
"""The most recorded functions of a step; above it, the oldest is dropped."""

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""From a function to another that repeats its operations."""


class NotRecordableError(Exception):
    """A step that cannot be recorded."""


class StepGraph:
    """A recorded step, and the memory that it reads and writes.

    Args:
        model: a network or an ensemble.
        state, memory: what a step reads, which shows the shapes.
        sentences, beam: how many there is room for, and the rows of each.
        record: records a function.
    """

    def __init__(
        self, model: Any, state: Tree, memory: Tree, sentences: int, beam: int, record: Record
    ) -> None:
        def room(leaf: Leaf) -> Leaf:
            if isinstance(leaf, KeyValueCache):
                return RecordedCache(leaf, sentences, capacity(leaf))
            assert isinstance(leaf, Tensor)
            return leaf.new_zeros(sentences * beam, *leaf.shape[1:])

        def room_of_memory(leaf: Leaf) -> Leaf:
            assert isinstance(leaf, Tensor)
            return leaf.new_zeros(sentences, *leaf.shape[1:])

        self._memory, self._state = mapped(memory, room_of_memory), mapped(state, room)
        self._leaves = leaves(self._state)
        like = leaves(self._memory)[0]
        assert isinstance(like, Tensor)
        self._token = torch.zeros(sentences * beam, dtype=torch.long, device=like.device)
        self._logits = self._token  # until a step is recorded
        self._functions: dict[Any, _Function] = {}
        self._seen: set[Any] = set()  # what has been computed once, and is recorded next time
        self._loaded: Tree | None = None
        self._count = 0  # rows of the last step
        self._record = record
        self._repeat = record(lambda: self._run(model))
        self._held = held_tensors(networks_of(model))  # what they compute once, and keep, is there

    def _run(self, model: Any) -> None:
        result = step(model, self._token, self._state, self._memory)
        self._logits = full_precision(result.logits)
        new = leaves(result.state)
        plain = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        own = {leaf.untyped_storage().data_ptr() for leaf in plain}
        # A part of the next state may be another part of this one, which is written to below.
        values = [
            leaf.clone() if leaf.untyped_storage().data_ptr() in own else leaf
            for leaf in new
            if isinstance(leaf, Tensor)
        ]
        for to, value in zip(plain, values, strict=True):
            to.copy_(value)
        for leaf in self._leaves:
            if isinstance(leaf, RecordedCache):
                if not any(leaf is other for other in new):
                    raise NotRecordableError
                leaf.advance()

    def fits(self, token: Tensor, state: Tree, memory: Tree) -> bool:
        """Return whether memory is that of the last step, and a state what `repeat` returned then.

        Its rows may be in another order.
        """
        if memory is not self._loaded or len(token) != self._count:
            return False
        pairs = zip(self._leaves, leaves(state), strict=True)
        return all(
            own.is_lent(leaf)
            if isinstance(own, RecordedCache) and isinstance(leaf, KeyValueCache)
            else isinstance(leaf, Tensor) and len(leaf) == len(token)
            for own, leaf in pairs
        )

    def has_room(self, state: Tree) -> bool:
        """Return whether there is room for one more position."""
        pairs = zip(self._leaves, leaves(state), strict=True)
        return all(
            own.limit > leaf.length
            for own, leaf in pairs
            if isinstance(own, RecordedCache) and isinstance(leaf, KeyValueCache)
        )

    def repeat(self, token: Tensor, state: State, memory: Memory) -> Step[State]:
        """Take the step."""
        if memory is not self._loaded:
            for to, part in zip(leaves(self._memory), leaves(memory), strict=True):
                assert isinstance(to, Tensor)
                assert isinstance(part, Tensor)
                _fill(to, part)
            self._loaded = memory
        for own, leaf in zip(self._leaves, leaves(state), strict=True):
            if isinstance(own, RecordedCache):
                assert isinstance(leaf, KeyValueCache)
                own.load(leaf)
                continue
            assert isinstance(own, Tensor)
            assert isinstance(leaf, Tensor)
            if own.data_ptr() != leaf.data_ptr():
                _fill(own, leaf)
        rows = self._count = len(token)
        self._token[:rows] = token
        self._repeat()
        parts = iter(self._leaves)

        def after(leaf: Leaf) -> Leaf:
            own = next(parts)
            if isinstance(own, RecordedCache):
                assert isinstance(leaf, KeyValueCache)
                return own.lent(leaf)
            assert isinstance(own, Tensor)
            return own[:rows]

        return Step(self._logits[:rows], mapped(state, after))

    def has_made(self, logits: Tensor) -> bool:
        """Return whether logits are what `repeat` returned last."""
        return logits.data_ptr() == self._logits.data_ptr() and len(logits) == self._count

    def then(
        self, function: Callable[..., Tensors], count: int, given: Sequence[Tensor | int],
        settings: Mapping[str, Any],
    ) -> Tensors:  # fmt: skip
        """Return a function of the first logits, so many rows, and of other values.

        It is recorded when it comes a second time.
        """
        kinds = ((v.shape, v.dtype) if isinstance(v, Tensor) else () for v in given)
        key = function, count, *kinds, *settings.items()
        if key not in self._functions:
            if key not in self._seen:
                self._seen.add(key)
                return function(self._logits[:count], *given, **settings)
            if len(self._functions) == MOST_FUNCTIONS:
                self._seen.clear()
                del self._functions[next(iter(self._functions))]
            made = _Function.of(lambda *x: function(self._logits[:count], *x, **settings), given)
            self._functions[key] = made._replace(repeat=self._record(made.repeat))
        results: Tensors = self._functions[key](given)
        return results

    def release(self) -> None:
        """Let go of what the last search has given."""
        self._loaded = None
        for function in self._functions.values():
            function.last[:] = [None] * len(function.last)

    def size(self) -> int:
        """Return the bytes of what is read and written."""
        total = self._token.nbytes + self._logits.nbytes
        for leaf in [*leaves(self._memory), *self._leaves]:
            parts = leaf.storage_parts() if isinstance(leaf, KeyValueCache) else [leaf]
            total += sum(part.nbytes for part in parts if isinstance(part, Tensor))
        return total


class _Function(NamedTuple):
    """A function of tensors, and the memory that it reads and writes.

    The results are not in the memory that recorded functions share: the next one would overwrite
    them, and they are given to it.
    """

    repeat: Callable[[], None]
    room: list[Tensor]
    results: Any
    last: list[Tensor | int | None]

    @classmethod
    def of(cls, function: Callable[..., Any], given: Sequence[Tensor | int]) -> _Function:
        """Call a function, and return it with as much memory as it needs."""
        device = next(value.device for value in given if isinstance(value, Tensor))
        room = [
            value.clone() if isinstance(value, Tensor) else torch.tensor(value, device=device)
            for value in given
        ]
        first = function(*room)
        results = mapped(first, _copy)

        def repeat() -> None:
            for to, value in zip(results, function(*room), strict=True):
                to.copy_(value)

        return cls(repeat, room, results, [None] * len(room))

    def __call__(self, given: Sequence[Tensor | int]) -> Any:
        """Return the results; a tensor that is given again must not have been written to."""
        for number, (to, value) in enumerate(zip(self.room, given, strict=True)):
            if not isinstance(value, Tensor):
                to.fill_(value)
            elif value is not self.last[number]:
                to.copy_(value)
            self.last[number] = value
        self.repeat()
        return self.results


def _copy(leaf: Leaf) -> Leaf:
    assert isinstance(leaf, Tensor)
    return leaf.clone(memory_format=torch.contiguous_format)


def _fill(room: Tensor, rows: Tensor) -> None:
    """Copy rows; what is left is filled with the first one, which a network can read."""
    count = len(rows)
    room[:count] = rows
    if count < len(room):
        room[count:] = rows[:1]


def networks_of(model: Any) -> list[nn.Module]:
    """Return the networks that a search calls as one."""
    return [*model.models] if isinstance(model, Ensemble) else [model]


def row_count(tree: Tree) -> int:
    """Return how many rows a tree of tensors has."""
    parts = leaves(tree)
    if not parts or not isinstance(parts[0], Tensor):
        raise NotRecordableError
    return len(parts[0])


def capacity(cache: KeyValueCache) -> int:
    """Return how many positions a recorded step has for a cache and one more position."""
    positions = CAPACITY
    while positions <= cache.length:
        positions *= 2
    return positions


def kind(tree: Tree) -> Any:
    """Return what a recorded step depends on, besides the number of sentences.

    Raises:
        NotRecordableError: a tree of such parts cannot be recorded.
    """
    if isinstance(tree, Tensor):
        return tree.dtype, tree.shape[1:]
    if isinstance(tree, KeyValueCache):
        parts = tree.storage_parts()
        if not parts:  # the first step writes the first position
            raise NotRecordableError
        shapes = [(part.dtype, part.shape[1], part.shape[4]) for part in parts]
        return tree.beam, capacity(tree), *shapes
    if isinstance(tree, Cache):
        raise NotRecordableError
    return type(tree), *map(kind, tree)
