"""Nested state: one function gathers rows of all of it, and one buffer grows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Tree = Any
"""Nested NamedTuples, tuples or lists of tensors and `Cache`s, rows on dimension 0."""


ROOM = 8
"""Places that a cache has at first: all of them are copied whenever beams are reordered."""


class _Buffer:
    """Storage that several caches may look at; `filled` is where its newest end is."""

    def __init__(self, values: Tensor, filled: int) -> None:
        self.values, self.filled = values, filled


class Cache:
    """Values that grow along one dimension, cheaply from the newest end.

    To its holder a cache never changes: `append` gives another one. It writes in place only
    where no other cache can look, and copies otherwise.

    Args:
        values: (rows, …), growing along `dim`.
        dim: the dimension that grows, not 0.
    """

    def __init__(self, values: Tensor, dim: int = 1) -> None:
        self.dim = dim
        self.length = values.shape[dim]
        self._buffer = _Buffer(values, self.length)

    @classmethod
    def _over(cls, buffer: _Buffer, length: int, dim: int) -> Cache:
        cache = cls.__new__(cls)
        cache._buffer, cache.length, cache.dim = buffer, length, dim
        return cache

    @property
    def values(self) -> Tensor:
        """All values so far, (rows, …, length, …). Not to be written to."""
        return self._buffer.values.narrow(self.dim, 0, self.length)

    def append(self, new: Tensor) -> Cache:
        """Return a cache that goes on with `new`, which has the same shape but along `dim`."""
        if self.length == 0:
            return Cache(new, self.dim)
        if torch.is_grad_enabled() and (new.requires_grad or self._buffer.values.requires_grad):
            return Cache(torch.cat([self.values, new], self.dim), self.dim)
        length = self.length + new.shape[self.dim]
        buffer = self._buffer
        if buffer.filled != self.length or length > buffer.values.shape[self.dim]:
            shape = list(buffer.values.shape)
            shape[self.dim] = max(2 * length, ROOM)
            buffer = _Buffer(buffer.values.new_empty(shape), length)
            buffer.values.narrow(self.dim, 0, self.length).copy_(self.values)
        buffer.values.narrow(self.dim, self.length, length - self.length).copy_(new)
        buffer.filled = length
        return Cache._over(buffer, length, self.dim)

    def gather(self, rows: Tensor) -> Cache:
        """Return a cache of the given rows, (new rows,), with room to grow as before."""
        values = self._buffer.values
        if torch.is_grad_enabled() and values.requires_grad:
            return Cache(self.values.index_select(0, rows), self.dim)
        # The room to grow goes along: whole rows are copied several times faster than parts.
        buffer = _Buffer(values.index_select(0, rows), self.length)
        return Cache._over(buffer, self.length, self.dim)


def gather(tree: Tree, rows: Tensor) -> Tree:
    """Return `tree` with the given rows, (new rows,) int64, of every tensor and cache in it.

    Reordering beams, widening to a beam and dropping finished sentences are all this.

    Raises:
        TypeError: something in the tree is of a type this does not know.
    """
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if isinstance(tree, Cache):
        return tree.gather(rows)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(gather(part, rows) for part in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(gather(part, rows) for part in tree)
    raise TypeError(
        f"cannot gather rows of a {type(tree).__name__}: memory and state are nested NamedTuples, "
        "tuples or lists of tensors and zoo.Cache"
    )


def tensors(tree: Tree) -> list[Tensor]:
    """Return every tensor in the tree, a cache giving its values so far."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Cache):
        return [tree.values]
    if isinstance(tree, tuple | list):
        return [tensor for part in tree for tensor in tensors(part)]
    raise TypeError(f"a {type(tree).__name__} is neither a tensor, a zoo.Cache nor nested in one")
