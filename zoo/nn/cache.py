"""Caches that grow as a target is written."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

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


class KeyValueCache:
    """Keys and values that attention layers have seen, shared by the rows of a sentence's beam.

    To its holder a past never changes: `longer` gives another one, a place longer, which each
    layer writes to once. Rows that go on from one another have a common past. So reordering a
    beam moves nothing: a row's queries look at what all rows of its sentence have written, and
    `mask` leaves it the part that is its own.

    A layer's keys and values are kept as (sentences, heads, places, beam, d), and given as
    (sentences, heads, places × beam, d).

    Args:
        rows: sentences, one row each.
    """

    def __init__(self, rows: int) -> None:
        self.sentences, self.beam, self.length = rows, 1, 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._filled = [0]  # of the storage, whichever pasts look at it
        # The row of its beam that wrote a row's part of a place, (sentences, beam, places); None
        # where each wrote its own.
        self._origin: Tensor | None = None
        self._mask: Tensor | None = None

    def longer(self) -> KeyValueCache:
        """Return a past with another place, still to be written."""
        past = copy.copy(self)
        past.length, past._mask = self.length + 1, None
        room = self._layers[0][0].shape[2] if self._layers else 0
        if self._filled[0] != self.length or past.length > room or torch.is_grad_enabled():
            places = max(2 * past.length, ROOM)
            past._layers = [(self._copy(k, places), self._copy(v, places)) for k, v in self._layers]
            past._filled = [self.length]
        past._filled[0] = past.length
        if self._origin is not None:
            own = torch.arange(self.beam, device=self._origin.device)
            own = own.expand(self.sentences, -1)[..., None]
            past._origin = torch.cat([self._origin, own], 2)
        return past

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's last place, (rows, heads, 1, d); return all of its keys and values."""
        new = self.beside(key), self.beside(value)  # (sentences, heads, beam, d)
        if layer == len(self._layers):
            shapes = [(*x.shape[:2], ROOM, *x.shape[2:]) for x in new]
            self._layers.append((new[0].new_empty(shapes[0]), new[1].new_empty(shapes[1])))
        keys, values = self._layers[layer]
        keys.select(2, self.length - 1).copy_(new[0])
        values.select(2, self.length - 1).copy_(new[1])
        key, value = (x.narrow(2, 0, self.length).flatten(2, 3) for x in (keys, values))
        return key, value

    def beside(self, x: Tensor) -> Tensor:
        """Put a sentence's rows beside each other: (rows, heads, 1, d) to (…, heads, beam, d)."""
        if self.beam == 1:
            return x
        return x.view(self.sentences, self.beam, x.shape[1], x.shape[3]).transpose(1, 2)

    def apart(self, x: Tensor) -> Tensor:
        """Undo `beside`."""
        if self.beam == 1:
            return x
        return x.transpose(1, 2).flatten(0, 1)[:, :, None]

    @property
    def mask(self) -> Tensor | None:
        """What each row may look at, (sentences, 1, beam, places × beam) bool; None for all."""
        if self._mask is None and (self.beam > 1 and self._layers):
            origin = self._origins(self._layers[0][0].device)  # (sentences, beam, places)
            slots = torch.arange(self.beam, device=origin.device)
            self._mask = (origin[..., None] == slots).flatten(2)[:, None]
        return self._mask

    def own(self, weights: Tensor) -> Tensor:
        """Return each row's weights of its own past, (rows, heads, 1, places).

        weights: (sentences, heads, beam, places × beam), what `mask` forbids being 0.
        """
        return self.apart(weights.unflatten(3, (self.length, self.beam)).sum(4))

    def values(self) -> list[Tensor]:
        """Return every layer's keys and values by themselves, (rows, heads, places, d) each."""
        if not self._layers:
            return []
        rows = torch.arange(self.sentences * self.beam, device=self._layers[0][0].device)
        where = self._where(rows)
        return [
            part.movedim(1, 3)[where].transpose(1, 2) for layer in self._layers for part in layer
        ]

    def gather(self, rows: Tensor) -> KeyValueCache:
        """Return a past of the given rows, (new rows,); rows of a sentence are to be adjacent."""
        past = copy.copy(self)
        past._mask = None
        sentence = rows // self.beam
        every = torch.arange(self.sentences, device=rows.device)
        if torch.equal(sentence, every.repeat_interleave(self.beam)):
            if self.beam > 1:
                parents = (rows % self.beam).view(self.sentences, -1, 1)
                origin = self._origins(rows.device)
                past._origin = origin.gather(1, parents.expand(-1, -1, self.length))
            return past
        kept, counts = sentence.unique_consecutive(return_counts=True)
        even = len(counts) > 0 and bool((counts == counts[0]).all())
        past.sentences, past.beam = (len(kept), int(counts[0])) if even else (len(rows), 1)
        if self.beam == past.beam == 1:  # whole sentences, which are copied several times faster
            past._layers = [
                (k.index_select(0, rows), v.index_select(0, rows)) for k, v in self._layers
            ]
        else:
            where = self._where(rows)
            past._layers = [(past._kept(k, where), past._kept(v, where)) for k, v in self._layers]
        past._origin, past._filled = None, [self.length]
        return past

    def _origins(self, device: torch.device) -> Tensor:
        """Return where each row's places were written, (sentences, beam, places)."""
        if self._origin is not None:
            return self._origin
        slots = torch.arange(self.beam, device=device)
        return slots[None, :, None].expand(self.sentences, -1, self.length)

    def _where(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sentences, places and slots of what these rows have seen, (rows, places)."""
        places = torch.arange(self.length, device=rows.device)
        origin = self._origins(rows.device).flatten(0, 1)[rows]
        return (rows // self.beam)[:, None], places, origin

    def _kept(self, part: Tensor, where: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return what stands there, in another past, as it is kept here, with room to grow."""
        rows = part.movedim(1, 3)[where].unflatten(0, (self.sentences, self.beam))
        return self._copy(rows.permute(0, 3, 2, 1, 4), max(2 * self.length, ROOM))

    def _copy(self, part: Tensor, places: int) -> Tensor:
        """Return (sentences, heads, at least `length`, beam, d) with room for so many places."""
        shape = list(part.shape)
        shape[2] = places
        room = part.new_empty(shape)
        room[:, :, : self.length] = part[:, :, : self.length]
        return room
