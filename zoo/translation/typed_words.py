"""Alignments of texts that were read with more or fewer words than are typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from zoo.translation.parts import Part
from zoo.translation.translation import Translation, words_of


def aligned_as_typed(one: Translation, tag: str, parts: Sequence[Part]) -> Translation:
    """Return a translation whose alignment counts the words of its source, not those read of it.

    Args:
        one: the translation.
        tag: what its source begins with, before the parts.
        parts: what was read of it.
    """
    if not one.alignment:
        return one
    read = words_of(tag + "".join(part.space + part.text for part in parts))
    typed = words_of(one.source)
    if len(read) == len(typed):
        return one
    indices = indices_of(read, typed)
    others = tuple(other._replace(alignment=_counted(other, indices)) for other in one.alternatives)
    return one._replace(alignment=_counted(one, indices), alternatives=others)


def indices_of(read: Sequence[str], typed: Sequence[str]) -> list[int]:
    """Return for each word that is read the index of a typed one, in the same order.

    Of several typed words for one, it is the last.
    """
    indices: list[int] = []
    matcher = difflib.SequenceMatcher(None, read, typed)
    for _, start, end, first, last in matcher.get_opcodes():
        among = (max(last - (end - i), first) for i in range(start, end))
        indices += [min(index, len(typed) - 1) for index in among]
    return indices


def _counted(one: Translation, indices: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({(indices[s], t) for s, t in one.alignment or () if s < len(indices)}))
