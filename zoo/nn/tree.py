"""Memory and state as nested tuples of tensors, and the function that gathers their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from torch import Tensor

from zoo.errors import PluginError
from zoo.nn.cache import Cache
from zoo.nn.key_value_cache import KeyValueCache

Leaf: TypeAlias = Tensor | Cache | KeyValueCache
"""What a tree holds."""

Tree: TypeAlias = "Tensor | Cache | KeyValueCache | Sequence[Tree]"
"""Nested NamedTuples, tuples or lists of tensors and caches, rows on dimension 0."""

T = TypeVar("T", bound=Tree)


class TreeError(PluginError, TypeError):
    """A network's memory or state that holds an object of another type."""


ALLOWED = (
    "memory and state are nested NamedTuples, tuples or lists of tensors, zoo.nn.Cache and "
    "zoo.nn.KeyValueCache"
)


def gather(tree: T, rows: Tensor, within: bool = False) -> T:
    """Return `tree` with the given rows, (new rows,) int64, of every tensor and cache in it.

    It reorders beams, widens sentences to a beam and drops finished sentences.

    Args:
        tree: memory or state.
        rows: which ones.
        within: whether they are known to be as many as before, each of the sentence of its place.

    Raises:
        TreeError: the tree holds an object of another type.
    """

    def of_leaf(leaf: Leaf) -> Leaf:
        if isinstance(leaf, KeyValueCache):
            return leaf.gather(rows, within)
        return leaf.index_select(0, rows) if isinstance(leaf, Tensor) else leaf.gather(rows)

    return mapped(tree, of_leaf)


def mapped(tree: T, function: Callable[[Leaf], Leaf]) -> T:
    """Return a tree of the same structure, with what a function returns for each of its leaves.

    Raises:
        TreeError: the tree holds an object of another type.
    """
    return cast(T, _mapped(tree, function))


def _mapped(tree: Tree, function: Callable[[Leaf], Leaf]) -> Tree:
    if isinstance(tree, Tensor | Cache | KeyValueCache):
        return function(tree)
    if isinstance(tree, tuple | list):
        parts = [_mapped(part, function) for part in tree]
        make = cast("Callable[..., Tree]", type(tree))
        # A NamedTuple takes its fields as separate arguments.
        return make(*parts) if hasattr(tree, "_fields") else make(parts)
    raise TreeError(f"cannot gather rows of a {type(tree).__name__}", ALLOWED)


def leaves(tree: Tree) -> list[Leaf]:
    """Return every tensor and cache in the tree, in order."""
    listed: list[Leaf] = []

    def add(leaf: Leaf) -> Leaf:
        listed.append(leaf)
        return leaf

    _mapped(tree, add)
    return listed


def plain_tensors(tree: Tree) -> list[Tensor]:
    """Return every tensor in the tree that is in no cache."""
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree if isinstance(tree, tuple | list) else ()
    return [tensor for part in parts for tensor in plain_tensors(part)]


def tensors(tree: Tree) -> list[Tensor]:
    """Return every tensor in the tree; for a cache, the values written so far.

    Raises:
        TreeError: the tree holds an object of another type.
    """
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Cache):
        return [tree.values]
    if isinstance(tree, KeyValueCache):
        return tree.values()
    if isinstance(tree, tuple | list):
        return [tensor for part in tree for tensor in tensors(part)]
    raise TreeError(f"a {type(tree).__name__} cannot be part of memory or state", ALLOWED)
