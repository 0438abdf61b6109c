"""Keys and values for a step that is recorded once and repeated at every position."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.key_value_cache import KeyValueCache


class RecordedCache(KeyValueCache):
    """A cache of a fixed capacity, whose position is a number on the device.

    A recorded step writes at that number's position, and attends to the whole capacity, of which
    `mask` selects what has been written. Its operations, and where they read and write, are
    therefore the same at every position. It has no attribute `length`: a network that reads it
    cannot be recorded.

    Args:
        like: a cache in which every layer has written.
        sentences: how many there is room for.
        capacity: positions that there is room for.

    Attributes:
        limit: the number of positions that can be written: the capacity, or less if the network's
            table of positions ends before.
    """

    def __init__(self, like: KeyValueCache, sentences: int, capacity: int) -> None:
        self.sentences, self.beam, self.limit = sentences, like.beam, capacity
        self._capacity = capacity
        self._layers = [(self._empty(keys), self._empty(values)) for keys, values in like._layers]
        device = self._layers[0][0].device
        self._hypotheses = torch.arange(self.beam, device=device)
        self._position = torch.zeros(1, dtype=torch.long, device=device)
        self._written_by = torch.full((sentences, self.beam, capacity), -1, device=device)
        self._tables: list[Tensor] = []  # a recorded step reads them where they are now
        self._lent: KeyValueCache | None = None

    def _empty(self, part: Tensor) -> Tensor:
        shape = (self.sentences, part.shape[1], self._capacity, self.beam, part.shape[4])
        return part.new_zeros(shape)  # a weight of zero hides any number, but for NaN

    def extended(self) -> RecordedCache:
        """Mark the position as written by each hypothesis; return this cache."""
        writers = self._hypotheses.view(1, -1, 1).expand(self.sentences, -1, 1)
        self._written_by.index_copy_(2, self._position, writers)
        self._mask = (self._written_by[..., None] == self._hypotheses).flatten(2)[:, None]
        return self

    def advance(self) -> None:
        """Move on to the next position, after every layer has written."""
        self._position += 1

    def reorder(self, rows: Tensor) -> None:
        """Let each row continue another one of its sentence, (rows,)."""
        if self.beam > 1:
            parents = (rows % self.beam).view(self.sentences, -1, 1)
            self._written_by.copy_(self._written_by.gather(1, parents.expand_as(self._written_by)))

    def parts(self) -> list[Tensor]:
        """Return what a step writes to."""
        return [*self.storage_parts(), self._position, self._written_by]

    @property
    def room(self) -> int:
        """How many positions a table must have, if it has so many."""
        return self._capacity

    def last_of(self, table: Tensor) -> Tensor:
        """Return what a table, (positions, d), has for the last position, (1, d)."""
        self.limit = min(self.limit, len(table))
        self._tables.append(table)
        return table.index_select(0, self._position)

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's last position, (rows, heads, 1, d); return all its keys and values."""
        for part, new in zip(self._layers[layer], (key, value), strict=True):
            part.index_copy_(2, self._position, self.fold_beam(new)[:, :, None])
        keys, values = self._layers[layer]
        return keys.flatten(2, 3), values.flatten(2, 3)

    @property
    def mask(self) -> Tensor | None:
        """True where a query may attend, (sentences, 1, beam, capacity × beam)."""
        return self._mask

    def clear(self) -> None:
        """Begin without any position."""
        for part in self.storage_parts():
            part.zero_()
        self._written_by.fill_(-1)
        self._position.zero_()
        self._lent = None

    def load(self, cache: KeyValueCache) -> None:
        """Take over the contents of a cache, of which there may be fewer sentences.

        Nothing is copied that is here already, because `lent` returned it.
        """
        n, length = cache.sentences, cache.length
        lent = self._lent
        if lent is None or not self.is_lent(cache):
            for own, given in zip(self._layers, cache._layers, strict=True):
                for to, part in zip(own, given, strict=True):
                    to.zero_()[:n, :, :length] = part[:n, :, :length]
            self._written_by[:, :, length:] = -1
            self._position.fill_(length)
        elif cache._origin is lent._origin:
            return
        self._written_by[:n, :, :length] = cache._origins(self._position.device)

    def is_lent(self, cache: KeyValueCache) -> bool:
        """Return whether a cache is what `lent` returned last, with its rows in any order."""
        lent = self._lent
        return lent is not None and cache._layers is lent._layers and cache.length == lent.length

    def lent(self, cache: KeyValueCache, steps: int) -> KeyValueCache:
        """Return what a loaded cache has become by so many steps; the next one overwrites it."""
        result = KeyValueCache(cache.sentences)
        result.beam, result.length = self.beam, cache.length + steps
        result._written = [result.length] * len(self._layers)
        result._filled = [result.length]
        result._numbers = cache._numbers if cache.beam == self.beam else None
        last = self._lent
        if last is not None and last.sentences == result.sentences:
            result._layers = last._layers
        else:
            n = result.sentences
            result._layers = [(keys[:n], values[:n]) for keys, values in self._layers]
        if self.beam > 1:
            result._origin = self._written_by[: result.sentences, :, : result.length]
        self._lent = result
        return result
