"""The two graphs of an exported network: the encoder, and one step of the decoder.

Memory and state are trees; a graph reads and writes the list of their tensors. In the graph, a
cache is a tensor that grows by one position in each step, and memory has a row for each row of the
state: whoever runs the graph repeats the rows of a sentence for its beam.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn.cache import Cache
from zoo.nn.contract import BEGIN, END, Seq2Seq
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.tree import Leaf as TreeLeaf
from zoo.nn.tree import Tree, mapped, tensors

ENCODER, STEP, LAYOUT = "encoder.onnx", "step.onnx", "zoo.json"
"""The files of the graphs, and of the layout of their inputs."""

LONG = 101
"""Tokens of the longest source that a network is tried with.

What has a vector for several tokens of a source may have as many for 5 tokens as for 8.
"""

ROWS, SOURCE, PAST = "rows", "source", "past"
"""Names of dynamic dimensions: rows, and those that grow with the source or with each step."""


class Leaf(NamedTuple):
    """A tensor of memory or state in a graph.

    Attributes:
        name: of the input, `memory_0`, `state_0`, …
        shape: a size, or the name of a dynamic dimension.
        dtype: in torch.
        initial: whether the encoder returns its initial value; else it is empty at first.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: torch.dtype
    initial: bool = True


class Layout(NamedTuple):
    """The tensors of memory and state, in the order of a graph's inputs."""

    memory: list[Leaf]
    state: list[Leaf]


class GrowingCache(KeyValueCache):
    """A cache whose keys and values are concatenated, (rows, heads, positions, d), for a graph."""

    def __init__(self, layers: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__(layers[0][0].shape[0])
        self._layers = layers
        self.length = layers[0][0].shape[2]

    def extended(self) -> GrowingCache:
        """Return a cache to which every layer appends a position."""
        cache = GrowingCache(list(self._layers))
        cache.length = self.length + 1
        return cache

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append a layer's last position, (rows, heads, 1, d); return all its keys and values."""
        keys, values = self._layers[layer]
        self._layers[layer] = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return self._layers[layer]

    def values(self) -> list[Tensor]:
        """Return every layer's keys and values."""
        return [part for layer in self._layers for part in layer]


def rebuilt(tree: Tree, parts: Iterator[Tensor]) -> Tree:
    """Return a tree of the same structure with other tensors."""

    def of_leaf(leaf: TreeLeaf) -> TreeLeaf:
        if isinstance(leaf, Tensor):
            return next(parts)
        if isinstance(leaf, Cache):
            return Cache(next(parts), leaf.dim)
        flat = [next(parts) for _ in leaf.values()]
        return GrowingCache(list(zip(flat[::2], flat[1::2], strict=True)))

    return mapped(tree, of_leaf)


class EncoderGraph(nn.Module):
    """Sources and their mask to the tensors of memory and of the initial state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Encode sources, (rows, source), with their mask."""
        memory = self.model.encode(source, mask).memory
        return (*tensors(memory), *tensors(self.model.init_state(memory)))


class StepGraph(nn.Module):
    """A token per row, the tensors of memory and state to logits and the next state's tensors."""

    def __init__(self, model: Seq2Seq, memory: Tree, state: Tree) -> None:
        super().__init__()
        self.model = model
        self.trees = memory, state

    def forward(self, token: Tensor, memory: list[Tensor], state: list[Tensor]) -> Any:
        """Read one token per row, (rows,)."""
        memory_tree = rebuilt(self.trees[0], iter(memory))
        state_tree = rebuilt(self.trees[1], iter(state))
        step = self.model.step(token, state_tree, memory_tree)
        return (step.logits, *tensors(step.state))


class Example(NamedTuple):
    """Inputs with which a graph is traced, and the trees that they come from."""

    source: Tensor
    mask: Tensor
    token: Tensor
    memory: Tree
    state: Tree
    initial: Tree


@torch.no_grad()
def example(model: Seq2Seq, rows: int, length: int, steps: int) -> Example:
    """Return a batch of sources of different lengths, and the state after some steps."""
    generator = torch.Generator().manual_seed(rows)
    source = torch.randint(
        END + 1, model.source_vocab, (rows, length), generator=generator, device="cpu"
    )
    lengths = (length - torch.arange(rows, device="cpu")).clamp(min=2)
    positions = torch.arange(length, device="cpu")
    source[positions[None] == lengths[:, None] - 1] = END
    mask = positions < lengths[:, None]
    source = source.masked_fill(~mask, 0)
    memory = model.encode(source, mask).memory
    initial = state = model.init_state(memory)
    token = torch.full((rows,), BEGIN, device="cpu")
    for _ in range(steps):
        step = model.step(token, state, memory)
        token, state = step.logits.argmax(1), step.state
    return Example(source, mask, token, memory, state, initial)


def within(limit: int | None, length: int) -> int:
    """Return a length, or the limit if that is shorter."""
    return length if limit is None else min(limit, length)


def layout(model: Seq2Seq, limit: int | None = None) -> Layout:
    """Return the tensors of memory and state, with their dynamic dimensions.

    A dimension is dynamic if its size differs between batches of other rows, lengths or steps.
    `limit` is the most tokens of a source, if there is a limit.
    """
    base, longer, later = (
        example(model, rows, within(limit, length), steps)
        for rows, length, steps in ((3, 5, 2), (4, LONG, 2), (3, 5, 3))
    )
    memory = [
        Leaf(f"memory_{i}", _dynamic(part, other, None), part.dtype)
        for i, (part, other) in enumerate(
            zip(tensors(base.memory), tensors(longer.memory), strict=True)
        )
    ]
    parts = zip(tensors(base.state), tensors(longer.state), tensors(later.state), strict=True)
    has_initial = _has_initial(base.initial, base.state)
    state = [
        Leaf(f"state_{i}", _dynamic(part, other, after), part.dtype, has_initial[i])
        for i, (part, other, after) in enumerate(parts)
    ]
    return Layout(memory, state)


def _has_initial(initial: Tree, state: Tree) -> list[bool]:
    """Return whether each tensor of a state has a value before the first step."""
    if isinstance(state, KeyValueCache):
        count = len(state.values())
        present = isinstance(initial, KeyValueCache) and len(initial.values()) == count
        return [present] * count
    if isinstance(state, tuple | list) and isinstance(initial, tuple | list):
        pairs = zip(initial, state, strict=True)
        return [has for before, after in pairs for has in _has_initial(before, after)]
    return [True]


def _dynamic(part: Tensor, other: Tensor, after: Tensor | None) -> tuple[int | str, ...]:
    shape: list[int | str] = [ROWS]
    for axis in range(1, part.dim()):
        if after is not None and after.shape[axis] != part.shape[axis]:
            shape.append(PAST)
        elif other.shape[axis] != part.shape[axis]:
            shape.append(SOURCE)
        else:
            shape.append(part.shape[axis])
    return tuple(shape)
