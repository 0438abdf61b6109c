"""One step of a network, recorded as a CUDA graph, and the turns of searches that begin with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from zoo.decoding.ensemble import Ensemble
from zoo.decoding.task import full_precision
from zoo.decoding.turns import Settings, Turns
from zoo.nn.cache import Cache
from zoo.nn.contract import Memory, State, Step
from zoo.nn.cuda_graphs import held_tensors
from zoo.nn.faults import step
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.recorded_cache import RecordedCache
from zoo.nn.tree import Leaf, Tree, leaves, mapped

CAPACITY = 32
"""The fewest positions of a recorded step; with more, it is recorded again for twice as many."""

MOST_TURNS = 16
"""The most kinds of turns of a step, and of bans of one kind; above it, the oldest is dropped."""

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""From a function to another that repeats its operations."""

T = TypeVar("T", bound=Turns)


class NotRecordableError(Exception):
    """A step that cannot be recorded."""


class StepGraph:
    """A recorded step, and the memory that it reads and writes.

    Args:
        state, memory: what a step reads, which shows the shapes.
        sentences, beam: how many there is room for, and the rows of each.
        record: records a function.
    """

    def __init__(
        self, state: Tree, memory: Tree, sentences: int, beam: int, record: Record
    ) -> None:
        def room(leaf: Leaf) -> Leaf:
            if isinstance(leaf, KeyValueCache):
                return RecordedCache(leaf, sentences, capacity(leaf.length))
            assert isinstance(leaf, Tensor)
            return leaf.new_zeros(sentences * beam, *leaf.shape[1:])

        def room_of_memory(leaf: Leaf) -> Leaf:
            assert isinstance(leaf, Tensor)
            return leaf.new_zeros(sentences, *leaf.shape[1:])

        self.sentences, self.beam = sentences, beam
        self._memory, self._state = mapped(memory, room_of_memory), mapped(state, room)
        self._leaves = leaves(self._state)
        like = leaves(self._memory)[0]
        assert isinstance(like, Tensor)
        self._token = torch.zeros(sentences * beam, dtype=torch.long, device=like.device)
        self._logits = self._token  # until a step is recorded
        self._repeat: Callable[[], None] | None = None
        self._turns: dict[Any, Turns] = {}
        self._loaded: Tree | None = None
        self._count = 0  # rows of the last step
        self._record = record
        self._held: list[Tensor] = []

    @property
    def positions(self) -> int:
        """How many positions its caches have room for; 0 without a cache."""
        caches = (leaf for leaf in self._leaves if isinstance(leaf, RecordedCache))
        return max((cache.limit for cache in caches), default=0)

    def prepare(self, model: Any, token: Tensor, state: Tree, memory: Tree) -> StepGraph:
        """Record the step that reads these, if it has not been; return this."""
        if self._repeat is None:

            def take_step() -> None:
                self._logits = self._step(model)

            self.load(token, state, memory)
            self._repeat = self._recorded(model, take_step)
        return self

    def turns(self, kind: type[T], settings: Settings) -> T:
        """Return turns that begin with this step; `record` them before they are taken."""
        key = kind, settings
        if key not in self._turns:
            _make_room(self._turns)
            self._turns[key] = kind(settings, self.sentences, self.beam, self._token.device)
        turns = self._turns[key]
        assert isinstance(turns, kind)
        return turns

    def record(self, model: Any, turns: Turns, banned: tuple[int, ...]) -> Turns:
        """Record the turn that comes next for bans, if it has not been; return the turns."""
        if banned not in turns.recorded:
            _make_room(turns.recorded)
            take = self._recorded(model, lambda: self._turn(model, turns, banned), turns.memory())
            turns.recorded[banned] = take
        return turns

    def _recorded(
        self, model: Any, function: Callable[[], None], memory: Sequence[Tensor] = ()
    ) -> Callable[[], None]:
        """Record a function of what has been loaded; that is there afterwards, too."""
        parts = [*self._parts(), *memory]
        values = [part.clone() for part in parts]
        try:
            return self._record(function)
        finally:
            for part, value in zip(parts, values, strict=True):
                part.copy_(value)
            self._held += held_tensors(networks_of(model))  # what they compute once, and keep

    def _step(self, model: Any) -> Tensor:
        result = step(model, self._token, self._state, self._memory)
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
        return full_precision(result.logits)

    def _turn(self, model: Any, turns: Turns, banned: tuple[int, ...]) -> None:
        token, rows = turns.choose(self._step(model), banned)
        self._token.copy_(token)
        if rows is None:
            return
        for leaf in self._leaves:
            if isinstance(leaf, RecordedCache):
                leaf.reorder(rows)
            elif isinstance(leaf, Tensor):
                leaf.copy_(leaf.index_select(0, rows))

    def fits(self, token: Tensor, state: Tree, memory: Tree) -> bool:
        """Return whether memory is that of the last step, and a state what it returned then.

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

    def room(self, state: Tree) -> int:
        """Return for how many more positions there is room."""
        pairs = zip(self._leaves, leaves(state), strict=True)
        left = (
            own.limit - leaf.length
            for own, leaf in pairs
            if isinstance(own, RecordedCache) and isinstance(leaf, KeyValueCache)
        )
        return min(left, default=sys.maxsize)

    def may_begin(self, state: Tree) -> bool:
        """Return whether a state before the first token has the parts of later ones."""
        given = leaves(state)
        return len(given) == len(self._leaves) and all(
            (
                isinstance(own, Tensor)
                and isinstance(leaf, Tensor)
                and (own.dtype, own.shape[1:]) == (leaf.dtype, leaf.shape[1:])
            )
            or (isinstance(own, RecordedCache) and isinstance(leaf, KeyValueCache))
            for own, leaf in zip(self._leaves, given, strict=True)
        )

    def begin(self, token: Tensor, state: Tree, memory: Tree) -> None:
        """Copy what the first step reads, one row a sentence, for each row of its beam."""
        self._load_memory(memory)
        for own, leaf in zip(self._leaves, leaves(state), strict=True):
            if isinstance(own, RecordedCache):
                own.clear()
                continue
            assert isinstance(own, Tensor)
            assert isinstance(leaf, Tensor)
            fill(own, leaf.repeat_interleave(self.beam, 0))
        self._count = len(token) * self.beam
        self._token[: self._count] = token.repeat_interleave(self.beam)

    def load(self, token: Tensor, state: Tree, memory: Tree) -> None:
        """Copy what a step reads to where it is read, unless it is there."""
        self._load_memory(memory)
        for own, leaf in zip(self._leaves, leaves(state), strict=True):
            if isinstance(own, RecordedCache):
                assert isinstance(leaf, KeyValueCache)
                own.load(leaf)
                continue
            assert isinstance(own, Tensor)
            assert isinstance(leaf, Tensor)
            if own.data_ptr() != leaf.data_ptr():
                fill(own, leaf)
        self._count = len(token)
        self._token[: self._count] = token

    def _load_memory(self, memory: Tree) -> None:
        if memory is not self._loaded:
            for to, part in zip(leaves(self._memory), leaves(memory), strict=True):
                assert isinstance(to, Tensor)
                assert isinstance(part, Tensor)
                fill(to, part)
            self._loaded = memory

    def repeat(self, token: Tensor, state: State, memory: Memory) -> Step[State]:
        """Take the step; the next one overwrites its results."""
        assert self._repeat is not None
        self.load(token, state, memory)
        self._repeat()
        return Step(self._logits[: self._count], self.lent(state, 1))

    def lent(self, state: State, steps: int) -> State:
        """Return what a loaded state has become by so many steps."""
        parts = iter(self._leaves)

        def after(leaf: Leaf) -> Leaf:
            own = next(parts)
            if isinstance(own, RecordedCache):
                assert isinstance(leaf, KeyValueCache)
                return own.lent(leaf, steps)
            assert isinstance(own, Tensor)
            return own[: self._count]

        return mapped(state, after)

    def release(self) -> None:
        """Let go of what the last search has given."""
        self._loaded = None

    def size(self) -> int:
        """Return the bytes of what is read and written."""
        of_turns = [part for turns in self._turns.values() for part in turns.memory()]
        every = [self._logits, *leaves(self._memory), *self._parts(), *of_turns]
        return sum(part.nbytes for part in every if isinstance(part, Tensor))

    def _parts(self) -> list[Tensor]:
        """Return what a step writes to, and the tokens that it reads."""
        parts = [self._token]
        for leaf in self._leaves:
            if isinstance(leaf, RecordedCache):
                parts += leaf.parts()
            elif isinstance(leaf, Tensor):
                parts.append(leaf)
        return parts


def fill(room: Tensor, rows: Tensor) -> None:
    """Copy rows to where they are read; the first one, which a network can read, fills the rest."""
    count = len(rows)
    room[:count] = rows
    if count < len(room):
        room[count:] = rows[:1]


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) == MOST_TURNS:
        del kept[next(iter(kept))]


def networks_of(model: Any) -> list[nn.Module]:
    """Return the networks that a search calls as one."""
    return [*model.models] if isinstance(model, Ensemble) else [model]


def dtype_of_logits(networks: list[nn.Module]) -> torch.dtype:
    """Return float32, or float64 if a weight has it."""
    dtype = torch.float32
    for network in networks:
        for weight in network.parameters():
            dtype = torch.promote_types(dtype, weight.dtype)
    return dtype


def row_count(tree: Tree) -> int:
    """Return how many rows a tree of tensors has."""
    parts = leaves(tree)
    if not parts or not isinstance(parts[0], Tensor):
        raise NotRecordableError
    return len(parts[0])


def capacity(length: int) -> int:
    """Return how many positions a recorded step has for so many and one more."""
    positions = CAPACITY
    while positions <= length:
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
        return tree.beam, capacity(tree.length), *shapes
    if isinstance(tree, Cache):
        raise NotRecordableError
    return type(tree), *map(kind, tree)
