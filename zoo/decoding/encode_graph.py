"""The encoding of sources of one shape, recorded as a CUDA graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.decoding.step_graph import NotRecordableError, Record, fill
from zoo.nn.cuda_graphs import held_tensors
from zoo.nn.faults import encode
from zoo.nn.tree import Leaf, Tree, leaves, mapped


class EncodeGraph:
    """A recorded encoding, and the memory that it reads and writes.

    Args:
        network: it is recorded now.
        source, mask: what is encoded, which shows the shapes.
        sentences: how many there is room for.
        record: records a function.
    """

    def __init__(
        self, network: Any, source: Tensor, mask: Tensor, sentences: int, record: Record
    ) -> None:
        self._source = source.new_empty(sentences, *source.shape[1:])
        self._mask = mask.new_empty(sentences, *mask.shape[1:])
        fill(self._source, source)
        fill(self._mask, mask)
        self._memory: Tree = ()

        def run() -> None:
            self._memory = encode(network, self._source, self._mask)

        self._repeat = record(run)
        self._held = held_tensors([network])  # what it computes once, and keeps, is there

    def repeat(self, source: Tensor, mask: Tensor) -> Any:
        """Return the memory of so many sources or fewer."""
        fill(self._source, source)
        fill(self._mask, mask)
        self._repeat()

        def own(leaf: Leaf) -> Leaf:
            if not isinstance(leaf, Tensor):
                raise NotRecordableError
            return leaf[: len(source)].clone()  # the next one overwrites it

        return mapped(self._memory, own)

    def size(self) -> int:
        """Return the bytes of what is read and returned."""
        parts = (self._source, self._mask, *leaves(self._memory))
        return sum(part.nbytes for part in parts if isinstance(part, Tensor))
