"""Nested memory and state, whose rows one function gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

from torch import Tensor

from zoo.nn.cache import Cache, KeyValueCache

Tree: TypeAlias = "Tensor | Cache | KeyValueCache | Sequence[Tree]"
"""Nested NamedTuples, tuples or lists of tensors and caches, rows on dimension 0."""

T = TypeVar("T", bound=Tree)


def gather(tree: T, rows: Tensor) -> T:
    """Return `tree` with the given rows, (new rows,) int64, of everything in it.

    Reordering beams, expanding to a beam and dropping finished sentences all use this.

    Raises:
        TypeError: the tree holds something of another type.
    """
    return cast(T, _gather(tree, rows))


def _gather(tree: Tree, rows: Tensor) -> Tree:
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if isinstance(tree, Cache | KeyValueCache):
        return tree.gather(rows)
    if isinstance(tree, tuple | list):
        parts = [_gather(part, rows) for part in tree]
        make: Any = type(tree)
        # A NamedTuple takes its fields one by one.
        return cast(Tree, make(*parts) if hasattr(tree, "_fields") else make(parts))
    raise TypeError(
        f"cannot gather rows of a {type(tree).__name__}: memory and state are nested NamedTuples, "
        "tuples or lists of tensors, zoo.nn.Cache and zoo.nn.KeyValueCache"
    )


def tensors(tree: Tree) -> list[Tensor]:
    """Return every tensor in the tree; of caches, the values written so far."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Cache):
        return [tree.values]
    if isinstance(tree, KeyValueCache):
        return tree.values()
    if isinstance(tree, tuple | list):
        return [tensor for part in tree for tensor in tensors(part)]
    raise TypeError(
        f"a {type(tree).__name__} is neither a tensor, a zoo.nn.Cache nor a nesting of them"
    )
