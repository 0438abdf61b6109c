"""Keys and values of self-attention, shared by the hypotheses of a sentence's beam."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.cache import INITIAL_CAPACITY
from zoo.nn.kernels import is_in_rows, is_plain, usable_kernels

MOST_AT_FIRST, ENTRIES_AT_FIRST = 64, 256
"""Positions of new storage, and positions of all rows together."""


class KeyValueCache:
    """The keys and values of every decoder layer, for the positions decoded so far.

    `extended` returns a cache with one more position, which each layer then writes once; this cache
    is unchanged. The hypotheses of a sentence share their storage, so reordering a beam moves no
    keys or values: a query attends to what all hypotheses of its sentence have written, and `mask`
    selects the positions that belong to its own prefix.

    A layer's keys and values are stored as (sentences, heads, positions, beam, d) and returned as
    (sentences, heads, positions × beam, d). Where kernels read them, they stay where they are when
    sentences leave, or beams become smaller, until the storage has to grow.

    Args:
        sentences: how many, with one row each.

    Attributes:
        sentences, beam: how many, and how many rows each has.
        length: positions.
        slots: the sentence of the storage that each is, (sentences,), if the storage has others,
            or more rows for each.
        has_kernel: whether kernels read the storage, with its slots.
    """

    slots: Tensor | None = None
    has_kernel = False

    def __init__(self, sentences: int) -> None:
        self.sentences, self.beam, self.length = sentences, 1, 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._written: list[int] = []  # positions that each layer has written
        self._filled = [0]  # positions in use in the storage, by any cache that shares it
        # Which hypothesis of the beam wrote each position of a row's prefix, (sentences, beam,
        # positions); None if every row wrote its own.
        self._origin: Tensor | None = None
        self._mask: Tensor | None = None
        self._numbers: tuple[Tensor, Tensor] | None = None
        self._device = torch.device("cpu")  # of the rows that were gathered last

    def extended(self) -> KeyValueCache:
        """Return a cache with one more position, still to be written."""
        return self.extended_by(1)

    def extended_by(self, count: int) -> KeyValueCache:
        """Return a cache with more positions, still to be written."""
        cache = self._shared()
        cache.length, cache._mask = self.length + count, None
        # Kernels write every layer, and do not say so.
        kernel = self.has_kernel
        cache._written = [self.length] * len(self._layers) if kernel else self._written.copy()
        capacity = self._layers[0][0].shape[2] if self._layers else 0
        if self._filled[0] != self.length or cache.length > capacity or torch.is_grad_enabled():
            capacity = max(2 * cache.length, cache._first_capacity())
            if self.slots is None:
                cache._layers = [
                    (self._copied(k, capacity), self._copied(v, capacity)) for k, v in self._layers
                ]
            else:
                rows = torch.arange(self.sentences * self.beam, device=self.slots.device)
                cache._select(self, rows, capacity)
            cache._filled = [self.length]
        cache._filled[0] = cache.length
        if cache._origin is not None:
            hypotheses, _ = self._row_numbers(cache._origin.device)
            writers = hypotheses[None, :, None].expand(self.sentences, -1, count)
            cache._origin = torch.cat([cache._origin, writers], 2)
        return cache

    def shortened(self, length: int) -> KeyValueCache:
        """Return a cache without the last positions, in the place of this one."""
        cache = self._shared()
        cache.length, cache._mask = length, None
        cache._filled[0] = length
        cache._origin = None if self._origin is None else self._origin.narrow(2, 0, length)
        return cache

    def own_origins(self) -> Tensor:
        """Return which row of a beam wrote each position of a row, (sentences, beam, positions).

        Whoever writes to it, before anything else is done with this cache, reorders the rows.
        """
        self._origin = self._origins(self._device).clone(memory_format=torch.contiguous_format)
        return self._origin

    @property
    def room(self) -> int:
        """How many positions a table must have, of which `last_of` returns one."""
        return self.length

    def last_of(self, table: Tensor) -> Tensor:
        """Return what a table, (positions, d), has for the last position, (1, d)."""
        return table.narrow(0, self.length - 1, 1)

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's last position, (rows, heads, 1, d); return all its keys and values.

        Values may have another width than keys. Layers are numbered from 0, in the order in which
        they write first.

        Raises:
            IndexError: a layer before this one has never written, this one has not written an
                earlier position, or there is no position yet.
        """
        if not self.length:
            raise IndexError("a KeyValueCache has no position to write to: call extended() first")
        self.has_kernel = False
        new = self.fold_beam(key), self.fold_beam(value)  # (sentences, heads, beam, d)
        widths = key.shape[3], value.shape[3]
        keys, values = self.storage(layer, key.shape[1], widths[0], new[0], widths[1])
        compiled = usable_kernels()
        if self.slots is not None:
            for part, one in zip((keys, values), new, strict=True):
                to = part.select(2, self.length - 1).narrow(2, 0, self.beam)
                to.index_copy_(0, self.slots, one)
            keys, values = keys.index_select(0, self.slots), values.index_select(0, self.slots)
        elif (
            compiled is not None
            and widths[0] == widths[1]
            and all(is_plain(x) for x in (*new, keys, values))
        ):
            compiled.store(new, (keys, values), self.length - 1)
        else:
            keys.select(2, self.length - 1).copy_(new[0])
            values.select(2, self.length - 1).copy_(new[1])
        key, value = (x.narrow(2, 0, self.length).flatten(2, 3) for x in (keys, values))
        return key, value

    def storage(
        self, layer: int, heads: int, d: int, like: Tensor, of_values: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the storage of a layer that writes the last position, new at first.

        It is (sentences, heads, capacity, beam, d), for keys and for values; `of_values` is the
        width of values, if it is not d.
        """
        count = len(self._layers)
        if layer == count:
            self._add_storage(heads, like, (d, d if of_values is None else of_values))
        elif layer > count:
            raise IndexError(
                f"layer {layer} of a KeyValueCache writes, and layer {count} never has: number the "
                "layers that write from 0"
            )
        if self._written[layer] < self.length - 1:
            raise IndexError(
                f"layer {layer} of a KeyValueCache writes position {self.length - 1}, and has not "
                f"written position {self._written[layer]}: after each extended(), every layer "
                "writes once"
            )
        self._written[layer] = self.length
        return self._layers[layer]

    def _add_storage(self, heads: int, like: Tensor, widths: tuple[int, int]) -> None:
        """Add the storage of one layer, for keys and for values of these widths."""
        capacity = max(self.length, self._first_capacity())
        shape = (self.sentences, heads, capacity, self.beam)
        keys, values = (like.new_empty(*shape, width) for width in widths)
        self._layers.append((keys, values))
        self._written.append(0)

    @property
    def stored(self) -> tuple[int, int]:
        """The sentences of the storage, and the rows of each."""
        if self.slots is None:
            return self.sentences, self.beam
        keys, _ = self._layers[0]
        return keys.shape[0], keys.shape[3]

    def storages(
        self, layers: int, heads: int, d: int, like: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """Return the storage of so many layers; the same list until the storage is replaced."""
        while len(self._layers) < layers:
            self._add_storage(heads, like, (d, d))
        return self._layers

    def storage_parts(self) -> list[Tensor]:
        """Return the keys' and the values' storage of every layer that has written."""
        return [part for layer in self._layers for part in layer]

    def holds(self, storage: object) -> bool:
        """Return whether this is what `storages` returns."""
        return self._layers is storage

    def fold_beam(self, x: Tensor) -> Tensor:
        """Turn (rows, heads, 1, d) into (sentences, heads, beam, d): the beam becomes queries."""
        if self.beam == 1:
            return x
        return x.view(self.sentences, self.beam, x.shape[1], x.shape[3]).transpose(1, 2)

    def unfold_beam(self, x: Tensor) -> Tensor:
        """Turn (sentences, heads, beam, d) back into (rows, heads, 1, d)."""
        if self.beam == 1:
            return x
        return x.transpose(1, 2).flatten(0, 1)[:, :, None]

    @property
    def mask(self) -> Tensor | None:
        """True where a query may attend, (sentences, 1, beam, positions × beam); None: anywhere."""
        width = self.stored[1]
        if self._mask is None and width > 1:
            origin = self._origins(self._device)  # (sentences, beam, positions)
            hypotheses, _ = self._row_numbers(origin.device)
            if width > self.beam:
                hypotheses = torch.arange(width, device=origin.device)
            self._mask = (origin[..., None] == hypotheses).flatten(2)[:, None]
        return self._mask

    def prefix_weights(self, weights: Tensor) -> Tensor:
        """Return each row's attention weights over its own prefix, (rows, heads, 1, positions).

        weights: (sentences, heads, beam, positions × beam), zero where `mask` is False.
        """
        return self.unfold_beam(weights.unflatten(3, (self.length, self.stored[1])).sum(4))

    def values(self) -> list[Tensor]:
        """Return every layer's keys and values, each (rows, heads, positions, d)."""
        parts = self.storage_parts()
        if (self.beam == 1 and self.slots is None) or not parts:
            return [part.narrow(2, 0, self.length)[:, :, :, 0] for part in parts]
        rows = torch.arange(self.sentences * self.beam, device=self._layers[0][0].device)
        index = self._index(rows)
        return [part.movedim(1, 3)[index].transpose(1, 2) for part in parts]

    def gather(self, rows: Tensor, within: bool = False) -> KeyValueCache:
        """Return a cache of the given rows, (new rows,); rows of a sentence must be adjacent.

        within: whether they are known to be as many as before, each of the sentence of its place.
        """
        cache = self._shared()
        cache._mask, cache._device = None, rows.device
        sentence = rows // self.beam
        if within or torch.equal(sentence, self._row_numbers(rows.device)[1]):
            if self.beam > 1:
                parents = (rows % self.beam).view(self.sentences, -1, 1)
                origin = self._origins(rows.device)
                cache._origin = origin.gather(1, parents.expand(-1, -1, self.length))
            return cache
        kept, counts = sentence.unique_consecutive(return_counts=True)
        even = len(counts) > 0 and bool((counts == counts[0]).all())
        cache.sentences, cache.beam = (len(kept), int(counts[0])) if even else (len(rows), 1)
        cache._numbers = None
        if self.has_kernel and even and cache.beam <= self.stored[1] and _is_rising(kept):
            cache.slots = kept if self.slots is None else self.slots[kept]
            if cache.stored[1] > 1:
                origin = self._origins(rows.device).flatten(0, 1)[rows]
                cache._origin = origin.view(cache.sentences, cache.beam, self.length)
            return cache
        if self.beam == cache.beam == 1 and self.slots is None:
            cache._layers = [  # whole sentences copy several times faster
                (k.index_select(0, rows), v.index_select(0, rows)) for k, v in self._layers
            ]
        else:
            cache._select(self, rows, max(2 * self.length, cache._first_capacity()))
        cache._origin, cache._filled = None, [self.length]
        return cache

    def _first_capacity(self) -> int:
        """Return for how many positions new storage has room: for most sentences, if rows are few.

        Growing takes a good part of the time of a sentence that is decoded alone.
        """
        rows = max(self.sentences * self.beam, 1)
        return max(INITIAL_CAPACITY, min(MOST_AT_FIRST, ENTRIES_AT_FIRST // rows))

    def _shared(self) -> KeyValueCache:
        """Return another cache with the same contents: `copy.copy`, in a third of its time."""
        cache = object.__new__(KeyValueCache)
        cache.__dict__.update(self.__dict__)
        return cache

    def _origins(self, device: torch.device) -> Tensor:
        """Return which hypothesis wrote each position of each row, (sentences, beam, positions)."""
        if self._origin is not None:
            return self._origin
        hypotheses, _ = self._row_numbers(device)
        return hypotheses[None, :, None].expand(self.sentences, -1, self.length)

    def _row_numbers(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the numbers of a beam's hypotheses, (beam,), and each row's sentence, (rows,)."""
        if self._numbers is None:
            sentences = torch.arange(self.sentences, device=device)
            hypotheses = torch.arange(self.beam, device=device)
            self._numbers = hypotheses, sentences.repeat_interleave(self.beam)
        return self._numbers

    def _index(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sentence, position and hypothesis of these rows' prefixes, (rows, length)."""
        positions = torch.arange(self.length, device=rows.device)
        origin = self._origins(rows.device).flatten(0, 1)[rows]
        rows = rows % (self.sentences * self.beam)  # the kernels know no negative ones
        sentence = rows // self.beam
        sentence = sentence if self.slots is None else self.slots[sentence]
        return sentence[:, None], positions, origin

    def _select(self, other: KeyValueCache, rows: Tensor, capacity: int) -> None:
        """Store some rows of another cache in new storage, each with its own prefix."""
        index = other._index(rows)
        self._layers = [
            (self._selected(k, index, capacity), self._selected(v, index, capacity))
            for k, v in other._layers
        ]
        self._origin = self.slots = None

    def _selected(
        self, part: Tensor, index: tuple[Tensor, Tensor, Tensor], capacity: int
    ) -> Tensor:
        """Return the indexed entries of another cache's storage, in this cache's layout."""
        sentence, positions, origin = index
        compiled = usable_kernels()
        if compiled is not None and is_in_rows(part):
            shape = (self.sentences, part.shape[1], capacity, self.beam, part.shape[4])
            compiled.select(part, copy := part.new_empty(shape), sentence, origin)
            return copy
        rows = part.movedim(1, 3)[sentence, positions, origin]
        rows = rows.unflatten(0, (self.sentences, self.beam))
        return self._copied(rows.permute(0, 3, 2, 1, 4), capacity)

    def _copied(self, part: Tensor, capacity: int) -> Tensor:
        """Return a copy of storage, (sentences, heads, capacity, beam, d)."""
        shape = list(part.shape)
        shape[2] = capacity
        storage = part.new_empty(shape)
        length = min(part.shape[2], self.length)
        storage[:, :, :length] = part[:, :, :length]
        return storage


def _is_rising(numbers: Tensor) -> bool:
    """Return whether each number is larger than the one before, and none is negative."""
    return bool((numbers.diff(prepend=numbers.new_tensor([-1])) > 0).all())
