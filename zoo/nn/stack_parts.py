"""What the kernels read of a Transformer's encoder or decoder, kept between searches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import FunctionType, NoneType
from typing import Any, NamedTuple

import torch
from torch import nn

from zoo.nn.cached_weights import ACTIVE, CHECKED, CachedWeights
from zoo.nn.kernel_structures import Layer, Stack, Sublayer, Weight
from zoo.nn.kernels import WIDTH, Kernels, usable_kernels
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
"""Returns the parts of a stack, or None if the kernels do not know what the network computes.

It also looks at the modules that are not among the parts. Hooks and methods that are replaced are
noticed without it.
"""

PLAIN = (bool, int, float, str, NoneType)
"""The types of what a module computes with besides its parameters and other modules."""


class Seen(NamedTuple):
    """A module, and by what it is noticed that it computes something else: see `Watched`."""

    kind: type[nn.Module]
    size: int
    children: dict[str, nn.Module | None]
    settings: Callable[[Mapping[str, Any]], Any]
    values: Any

    def is_current(self, module: nn.Module, attributes: Mapping[str, Any]) -> bool:
        """Return whether the module is as it was, and has no hooks."""
        return not (
            attributes["_forward_hooks"]
            or attributes["_forward_pre_hooks"]
            or len(attributes) != self.size
            or attributes["_modules"] != self.children
            or self.settings(attributes) != self.values
            or type(module) is not self.kind
        )


class Watched(NamedTuple):
    """A network, and by what it is noticed that it computes something else.

    It is the class of each module, its numbers and words, such as ε, how many attributes it has,
    since a method that is replaced is one more, and the modules right inside it.
    """

    network: Seen
    inside: list[tuple[Seen, nn.Module, Mapping[str, Any]]]

    @classmethod
    def of(cls, network: nn.Module) -> Watched | None:
        """Return how a network is now; None if a method is replaced, or a module has hooks."""
        _, *inside = network.modules()
        for module in (network, *inside):
            if not module.__dict__.keys().isdisjoint(_methods(type(module))):
                return None
        # Not the network's own attributes: what holds them may keep it from being freed.
        watched = cls(_seen(network), [(_seen(m), m, m.__dict__) for m in inside])
        return watched if watched.is_current(network) else None

    def is_current(self, network: nn.Module) -> bool:
        """Return whether the network is as it was, and no module has hooks."""
        if not self.network.is_current(network, network.__dict__):
            return False
        return all(seen.is_current(module, known) for seen, module, known in self.inside)


def _seen(module: nn.Module) -> Seen:
    attributes = module.__dict__
    settings = itemgetter(*(name for name, value in attributes.items() if type(value) in PLAIN))
    children = dict(module._modules)
    return Seen(type(module), len(attributes), children, settings, settings(attributes))


def _methods(kind: type[nn.Module]) -> set[str]:
    """Return the names of a class's own methods, those of `nn.Module` aside, and `forward`."""
    classes = kind.__mro__[: kind.__mro__.index(nn.Module)]
    methods = (name for c in classes for name, x in vars(c).items() if isinstance(x, FunctionType))
    return {"forward", *methods}


class PreparedStack(NamedTuple):
    """The pointers for the kernels, and what shows that they are still those of the network.

    Attributes:
        stack: the pointers.
        heads: of each attention.
        d: the width of the layers.
        outputs: the width of each product that follows them.
        held: what the pointers point to.
        parameters: of the parts.
    """

    stack: Stack
    heads: int
    d: int
    outputs: int
    held: list[Any]
    parameters: list[Parameter]


def find_stack(
    network: nn.Module, kind: str, describe: Describe, rows: int
) -> tuple[Kernels, PreparedStack] | None:
    """Return the kernels, and the pointers of a stack; None if it is not supported.

    Args:
        network: what contains the stack.
        kind: which one it is.
        describe: returns its parts; it is called when the network is new or has changed.
        rows: how many are to be computed.
    """
    compiled = usable_kernels()  # first: nothing else is looked up while a graph is traced
    if compiled is None or (checked := CHECKED.get()) is None:
        return None
    if (cached := ACTIVE.get()) is None or torch.is_autocast_enabled("cpu"):
        return None
    if cached.kernels_for(rows) is None:
        return None
    # With the network: while it lives, no other gets its number.
    key = id(network), kind
    if network not in checked:
        checked[network] = _stacks_of(cached, network)
    if key not in checked:
        checked[key] = _current(cached, checked[network], kind, describe)
    return None if checked[key] is None else (compiled, checked[key])


def _stacks_of(cached: CachedWeights[Any], network: nn.Module) -> dict[str, PreparedStack] | None:
    """Return what is prepared of a network, nothing if it has changed; None as `Watched.of`."""
    known: dict[int, tuple[weakref.ref[nn.Module], Watched, dict[str, PreparedStack]]]
    known, key = cached.stacks, id(network)
    entry = known.get(key)
    if entry is None or entry[0]() is not network or not entry[1].is_current(network):
        known.pop(key, None)
        if (watched := Watched.of(network)) is None:
            return None
        reference = weakref.ref(network, lambda _: known.pop(key, None))
        entry = known[key] = reference, watched, {}
    return entry[2]


def _current(
    cached: CachedWeights[Any],
    stacks: dict[str, PreparedStack] | None,
    kind: str,
    describe: Describe,
) -> PreparedStack | None:
    """Return a stack's pointers, prepared if it is new or has changed; None if not supported."""
    if stacks is None:
        return None
    prepared = stacks.get(kind)
    if prepared is None or not is_current(prepared.parameters):
        stacks.pop(kind, None)
        prepared = None if (parts := describe()) is None else _Reader(cached).prepared(parts)
        if prepared is not None:
            stacks[kind] = prepared
    return prepared


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

    def prepared(self, parts: StackParts) -> PreparedStack | None:
        """Return a stack as the kernels read it; None if they do not support it."""
        try:
            stack, d = self.stack(parts)
        except _NotSupportedError:
            return None
        outputs = stack.outputs[0].n
        return PreparedStack(stack, parts.heads, d, outputs, self.held, self.parameters)

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
        return Layer(
            self.sublayer(parts.attention, d, (3 * d, d), pre=pre),
            Sublayer() if parts.cross is None else self.sublayer(parts.cross, d, (d, d), pre=pre),
            self.sublayer(parts.feedforward, d, None, pre=pre),
        )

    def sublayer(
        self, parts: SublayerParts, d: int, between: tuple[int, int] | None, *, pre: bool
    ) -> Sublayer:
        """Return the pointers of a sublayer.

        between: the outputs of the first product and the inputs of the last; None if they only
            have to be equal.
        """
        first, last, norm = parts
        prepared = current_sublayer(self.cached, (first, last), norm, pre=pre)
        if prepared is None:
            raise _NotSupportedError
        of_first, of_last = prepared.held
        between = between or (of_last.k, of_last.k)
        if (of_first.k, of_last.n) != (d, d) or (of_first.n, of_last.k) != between:
            raise _NotSupportedError
        self.held.append(prepared)
        self.parameters += prepared.parameters
        return prepared.sublayer

    def weight(self, of_weight: nn.Module, of_bias: nn.Module, d: int) -> Weight:
        """Return the pointers of a product."""
        weight = of_weight._parameters.get("weight")
        if weight is None or "bias" not in of_bias._parameters:  # it may be no parameter
            raise _NotSupportedError
        self.pointer(of_weight, "weight", (len(weight), d))
        bias = of_bias._parameters["bias"]
        if bias is None:
            self.parameters.append(watched(of_bias, "bias"))
        else:
            self.pointer(of_bias, "bias", (len(weight),))
        packed = self.cached.packed(weight)
        if packed is None:
            raise _NotSupportedError
        self.held += packed, bias
        return packed.with_bias(bias)

    def pointer(self, module: nn.Module, name: str, shape: tuple[int, ...]) -> int:
        """Return the pointer of a parameter of this shape."""
        parameter = watched(module, name)
        if not parameter.is_like(shape):
            raise _NotSupportedError
        self.parameters.append(parameter)
        return parameter.pointer
