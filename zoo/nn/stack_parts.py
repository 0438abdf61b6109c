"""What the kernels read of a Transformer's encoder or decoder, kept between searches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from zoo.nn.cached_weights import ACTIVE, CHECKED, CachedWeights
from zoo.nn.kernels import (
    WIDTH,
    Kernels,
    Layer,
    Stack,
    Sublayer,
    Weight,
    is_in_rows,
    usable_kernels,
)
from zoo.nn.linear import Linear
from zoo.nn.sublayers import PARTS, Parameter, current_sublayer, is_current, is_only, watched

SublayerParts = tuple[Linear, Linear, nn.Module]
"""The first and the last product, and the norm of the residual connection."""

Output = tuple[nn.Module, nn.Module]
"""Whose `weight`, (outputs, d), and whose `bias`, (outputs,) or None, a product has."""


class LayerParts(NamedTuple):
    """The sublayers of a layer; their arguments are those of the functions for each.

    An encoder's layer has no cross-attention.
    """

    attention: SublayerParts
    cross: SublayerParts | None
    feedforward: SublayerParts


class StackParts(NamedTuple):
    """What an encoder or a decoder computes.

    Attributes:
        embedding: of the tokens.
        factor: of the embeddings.
        layers: the layers.
        pre: whether norms come before the sublayers.
        heads: of each attention.
        norm: what follows the layers, or None.
        outputs: the products that follow; a decoder has one, whose results are the logits, and an
            encoder one for each layer of the decoder, whose results are its keys and values.
    """

    embedding: nn.Module
    factor: float
    layers: Sequence[LayerParts]
    pre: bool
    heads: int
    norm: nn.Module | None
    outputs: Sequence[Output]


Describe = Callable[[], StackParts | None]
"""Returns the parts of a stack, or None if the kernels do not know them."""


class PreparedStack(NamedTuple):
    """The pointers for the kernels, and what shows that they are still those of the network.

    Attributes:
        stack: the pointers.
        parts: of what.
        d: the width of the layers.
        outputs: the width of each product that follows them.
        held: what the pointers point to.
        parameters: of all modules.
        hooks: of every module of the network.
        attributes: those of every module of the network.
    """

    stack: Stack
    parts: StackParts
    d: int
    outputs: int
    held: list[Any]
    parameters: list[Parameter]
    hooks: Sequence[Mapping[int, Any]]
    attributes: Sequence[Mapping[str, Any]]

    def is_current(self) -> bool:
        """Return whether no parameter was replaced or written to, and no module is observed."""
        return not _is_observed(self.hooks, self.attributes) and is_current(self.parameters)


def _is_observed(
    hooks: Sequence[Mapping[int, Any]], attributes: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether a module has hooks, or a `forward` of its own that its class lacks."""
    return any(hooks) or any("forward" in of_module for of_module in attributes)


Found = tuple[Kernels, CachedWeights[Any], PreparedStack]


def find_stack(network: nn.Module, kind: str, describe: Describe) -> Found | None:
    """Return the kernels, the active weights, and a stack's pointers; None if not supported.

    Args:
        network: what contains the stack.
        kind: which one it is.
        describe: returns its parts; it is called once a search.
    """
    compiled = usable_kernels()  # first: nothing else is looked up while a graph is traced
    if compiled is None or (checked := CHECKED.get()) is None:
        return None
    if (cached := ACTIVE.get()) is None or torch.is_autocast_enabled("cpu"):
        return None
    if (key := (id(network), kind)) not in checked:  # with the network: no other gets its number
        checked[key] = _current(cached, network, kind, describe()), network
    prepared: PreparedStack | None = checked[key][0]
    return None if prepared is None else (compiled, cached, prepared)


def _current(
    cached: CachedWeights[Any], network: nn.Module, kind: str, parts: StackParts | None
) -> PreparedStack | None:
    """Return a stack's pointers, prepared if it is new or has changed; None as `_prepare`."""
    known: dict[tuple[int, str], tuple[weakref.ref[nn.Module], PreparedStack]] = cached.stacks
    key = id(network), kind
    entry = known.get(key)
    is_known = entry is not None and entry[0]() is network and entry[1].parts == parts
    if entry is not None and is_known and entry[1].is_current():
        return entry[1]
    prepared = None if parts is None else _prepare(cached, network, parts)
    if prepared is not None:
        known[key] = weakref.ref(network, lambda _: known.pop(key, None)), prepared
    return prepared


def _prepare(
    cached: CachedWeights[Any], network: nn.Module, parts: StackParts
) -> PreparedStack | None:
    """Return a stack as the kernels read it; None if they do not support it."""
    modules = list(network.modules())
    hooks = [h for m in modules for h in (m._forward_hooks, m._forward_pre_hooks)]
    attributes = [module.__dict__ for module in modules]
    if _is_observed(hooks, attributes):
        return None
    reader = _Reader(cached)
    try:
        stack, d = reader.stack(parts)
    except _NotSupportedError:
        return None
    outputs = stack.outputs[0].n
    return PreparedStack(
        stack, parts, d, outputs, reader.held, reader.parameters, hooks, attributes
    )


class _NotSupportedError(Exception):
    """The kernels cannot read a part."""


class _Reader:
    """Reads the parts of a stack into what the kernels read.

    held: what the pointers point to; parameters: all that were read.
    """

    def __init__(self, cached: CachedWeights[Any]) -> None:
        self.cached = cached
        self.held: list[Any] = []
        self.parameters: list[Parameter] = []

    def stack(self, parts: StackParts) -> tuple[Stack, int]:
        """Return the pointers of a stack, and its width."""
        embedding, norm = parts.embedding, parts.norm
        if not is_only(embedding, nn.Embedding) or embedding.max_norm is not None:
            raise _NotSupportedError
        vocab, d = embedding.weight.shape
        if d % (parts.heads * WIDTH) or not (norm is None or is_only(norm, nn.LayerNorm)):
            raise _NotSupportedError
        table = self.pointer(embedding, "weight", (vocab, d))
        gamma, beta = (None if norm is None else self.pointer(norm, x, (d,)) for x in PARTS)
        layers = [self.layer(layer, d, pre=parts.pre) for layer in parts.layers]
        outputs = [self.weight(*output, d) for output in parts.outputs]
        if not outputs or any(output.n != outputs[0].n for output in outputs):
            raise _NotSupportedError
        arrays = (Layer * len(layers))(*layers), (Weight * len(outputs))(*outputs)
        self.held += arrays
        epsilon = 0.0 if norm is None else norm.eps
        counts = vocab, len(layers), len(outputs)
        return Stack(table, gamma, beta, *arrays, *counts, parts.factor, epsilon), d

    def layer(self, parts: LayerParts, d: int, *, pre: bool) -> Layer:
        """Return the pointers of a layer."""
        projected = 3 * d, d
        between = parts.feedforward[0].out_features
        return Layer(
            self.sublayer(parts.attention, d, projected, pre=pre),
            Sublayer() if parts.cross is None else self.sublayer(parts.cross, d, (d, d), pre=pre),
            self.sublayer(parts.feedforward, d, (between, between), pre=pre),
        )

    def sublayer(
        self, parts: SublayerParts, d: int, between: tuple[int, int], *, pre: bool
    ) -> Sublayer:
        """Return the pointers of a sublayer.

        between: the outputs of the first product and the inputs of the last.
        """
        first, last, norm = parts
        prepared = current_sublayer(self.cached, (first, last), norm, pre=pre)
        if prepared is None:
            raise _NotSupportedError
        of_first, of_last = prepared.held
        if (of_first.k, of_last.n) != (d, d) or (of_first.n, of_last.k) != between:
            raise _NotSupportedError
        self.held.append(prepared)
        self.parameters += prepared.parameters
        return prepared.sublayer

    def weight(self, of_weight: nn.Module, of_bias: nn.Module, d: int) -> Weight:
        """Return the pointers of a product."""
        weight, bias = (
            m._parameters.get(x) for m, x in zip((of_weight, of_bias), PARTS, strict=True)
        )
        if weight is None or weight.shape[1] != d or not is_in_rows(weight):
            raise _NotSupportedError
        outputs = len(weight)
        self.pointer(of_weight, "weight", (outputs, d))
        if bias is None:
            self.parameters.append(watched(of_bias, "bias"))
        else:
            self.pointer(of_bias, "bias", (outputs,))
        packed = self.cached.packed(weight)
        if packed is None:
            raise _NotSupportedError
        self.held += packed, bias
        return packed.with_bias(bias)

    def pointer(self, module: nn.Module, name: str, shape: tuple[int, ...]) -> int:
        """Return the pointer of a parameter of this shape."""
        parameter = watched(module, name)
        if (
            parameter.value is None
            or parameter.value.shape != shape
            or not is_in_rows(parameter.value)
        ):
            raise _NotSupportedError
        self.parameters.append(parameter)
        return parameter.pointer
