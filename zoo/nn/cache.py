"""A tensor that grows along one dimension while a target is decoded."""

from __future__ import annotations

import torch
from torch import Tensor

INITIAL_CAPACITY = 8
"""Positions that a cache has room for at first; reordering rows copies the whole capacity."""


class _Buffer:
    """Storage that several caches may share; `filled` is the end of the longest of them."""

    def __init__(self, values: Tensor, filled: int) -> None:
        self.values, self.filled = values, filled


class Cache:
    """An immutable tensor with a cheap `append` at its end.

    `append` returns another cache and leaves this one unchanged. It writes in place where no other
    cache can see the change, and copies otherwise.

    Args:
        values: (rows, …), growing along `dim`.
        dim: the dimension that grows, not 0.
    """

    def __init__(self, values: Tensor, dim: int = 1) -> None:
        self.dim = dim
        self.length = values.shape[dim]
        self._buffer = _Buffer(values, self.length)

    @classmethod
    def _of_buffer(cls, buffer: _Buffer, length: int, dim: int) -> Cache:
        cache = cls.__new__(cls)
        cache._buffer, cache.length, cache.dim = buffer, length, dim
        return cache

    @property
    def values(self) -> Tensor:
        """All values so far, (rows, …, length, …); do not write to them."""
        return self._buffer.values.narrow(self.dim, 0, self.length)

    def append(self, new: Tensor) -> Cache:
        """Return a cache extended by `new`, which has the same shape except along `dim`."""
        if self.length == 0:
            return Cache(new, self.dim)
        if torch.compiler.is_compiling() or (
            torch.is_grad_enabled() and (new.requires_grad or self._buffer.values.requires_grad)
        ):
            return Cache(torch.cat([self.values, new], self.dim), self.dim)
        length = self.length + new.shape[self.dim]
        buffer = self._buffer
        if buffer.filled != self.length or length > buffer.values.shape[self.dim]:
            shape = list(buffer.values.shape)
            shape[self.dim] = max(2 * length, INITIAL_CAPACITY)
            buffer = _Buffer(buffer.values.new_empty(shape), length)
            buffer.values.narrow(self.dim, 0, self.length).copy_(self.values)
        buffer.values.narrow(self.dim, self.length, length - self.length).copy_(new)
        buffer.filled = length
        return Cache._of_buffer(buffer, length, self.dim)

    def gather(self, rows: Tensor) -> Cache:
        """Return a cache of the given rows, (new rows,), with the same capacity."""
        values = self._buffer.values
        if torch.is_grad_enabled() and values.requires_grad:
            return Cache(self.values.index_select(0, rows), self.dim)
        # The unused capacity is copied too: whole rows copy several times faster than slices.
        buffer = _Buffer(values.index_select(0, rows), self.length)
        return Cache._of_buffer(buffer, self.length, self.dim)
