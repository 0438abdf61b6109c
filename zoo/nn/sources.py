"""Several sources of one target, which follow each other in a row of token ids."""

from __future__ import annotations

from torch import Tensor

from zoo.nn.contract import END


def split_sources(source: Tensor, mask: Tensor, count: int) -> list[tuple[Tensor, Tensor]]:
    """Return each source's tokens and mask, (sentences, its longest), each with its end token.

    Args:
        source, mask: (sentences, m) int64 and bool: `count` sources, one after the other.
        count: how many there are.
    """
    ends = (source == END) & mask
    number = ends.cumsum(1) - ends.long()  # of the source that each token belongs to
    parts = []
    for index in range(count):
        own = (number == index) & mask
        # Its tokens first, in order; the longest of the batch decides the width.
        order = own.long().argsort(dim=1, descending=True, stable=True)
        order = order[:, : int(own.sum(1).max())]
        own = own.gather(1, order)
        parts.append((source.gather(1, order) * own, own))
    return parts
