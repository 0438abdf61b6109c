"""Whole sublayers of a Transformer in one call of the kernels, for the few rows of a step.

Their functions return None where the kernels do not support the operands: the caller then computes
the sublayer with torch's operators. They are supported without gradients, in float32 on a CPU, with
one thread or few rows, while cached weights are active that the kernels can read.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn.cached_weights import ACTIVE, CHECKED, CachedWeights
from zoo.nn.kernel_structures import Packed, Shape, Strides, Sublayer
from zoo.nn.kernels import (
    MAX_KEYS,
    WIDTH,
    Kernels,
    is_in_rows,
    is_plain,
    mask_strides,
    usable_kernels,
)
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.linear import Linear

PARTS = ("weight", "bias")

ORDINARY = (Tensor, nn.Parameter)
"""Of other classes of tensors, the memory may be elsewhere."""

MAX_QUERIES = 16
"""With more queries of a sentence than this, torch's batched products are faster."""

Key = tuple[int, int, int, bool]
"""Of a sublayer: the numbers of its modules, and whether the norm comes first."""

References = tuple[weakref.ref[nn.Module], ...]


class Source(NamedTuple):
    """What an attention sublayer attends to besides its input.

    keys, values: (sentences, heads, keys, d), adjacent; mask as that of `few_queries`.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None


class Parameter(NamedTuple):
    """A parameter of a module, or None, and by what a change of it is noticed.

    `held` keeps its memory, which otherwise could become that of new data. `written` is None where
    torch does not count how often a tensor was written to.
    """

    of_module: Mapping[str, Tensor | None]
    name: str
    value: Tensor | None
    held: Tensor | None
    written: int | None
    pointer: int

    def is_like(self, shape: tuple[int, ...]) -> bool:
        """Return whether it has this shape and the kernels can read it."""
        x = self.value
        if x is None or type(x) not in ORDINARY:
            return False
        return x.shape == shape and is_in_rows(x)


class Prepared(NamedTuple):
    """The pointers for the kernels, what they point to, and the parameters."""

    sublayer: Sublayer
    held: tuple[Packed, Packed]
    parameters: Sequence[Parameter]
    epsilon: float

    def is_current(self, norm: nn.Module) -> bool:
        """Return whether no parameter was replaced or written to, and the norm's ε is the same."""
        return bool(norm.eps == self.epsilon) and is_current(self.parameters)


def watched(module: nn.Module, name: str) -> Parameter:
    """Return a parameter of a module as it is now."""
    x = module._parameters.get(name)
    held = None if x is None or type(x) not in ORDINARY else x.detach()
    written = None if x is None or x.is_inference() else x._version
    pointer = 0 if x is None else x.data_ptr()
    return Parameter(module._parameters, name, x, held, written, pointer)


def is_current(parameters: Sequence[Parameter]) -> bool:
    """Return whether no parameter was replaced or written to."""
    for of_module, name, x, _, written, pointer in parameters:
        if of_module.get(name) is not x:
            return False
        if x is None:
            continue
        if x.data_ptr() != pointer or (written is not None and x._version != written):
            return False
    return True


def feedforward_sublayer(
    x: Tensor, inner: Linear, outer: Linear, norm: nn.Module, *, pre: bool
) -> Tensor | None:
    """Return norm(x + f(x)), or x + f(norm(x)) if `pre`, with f(x) = W_2 max(0, W_1 x + b_1) + b_2.

    None if it is not supported. x: (…, d).
    """
    width = getattr(inner, "out_features", 0)  # it may have been replaced by another module
    usable = _find(x, (inner, outer), norm, pre, (width, width))
    if usable is None:
        return None
    compiled, prepared = usable
    result = torch.empty_like(x)
    rows = x.numel() // x.shape[-1]
    operand = ctypes.addressof(prepared.sublayer)
    if not compiled.feedforward(operand, x.data_ptr(), rows, result.data_ptr()):
        raise MemoryError(f"no memory for {rows} rows of {inner.out_features} numbers")
    return result


def attention_sublayer(
    x: Tensor,
    project: Linear,
    out: Linear,
    norm: nn.Module,
    *,
    pre: bool,
    heads: int,
    source: Source | None = None,
    cache: tuple[KeyValueCache, int] | None = None,
    mask: Tensor | None = None,
) -> Tensor | None:
    """Return norm(x + f(x)), or x + f(norm(x)) if `pre`, where f is multi-head attention.

    None if it is not supported.

    Args:
        x: (rows, n, d); with a source, rows are the sentences' or their beams'.
        project: gives the queries, (…, d), or the queries, keys and values, (…, 3 d).
        out: maps the concatenated heads.
        norm: of the residual connection.
        pre: whether the norm comes before the sublayer.
        heads: how many.
        source: keys and values of other tokens.
        cache: those of the prefix, and the layer's number; x has one position, which is added.
        mask: of self-attention, as that of `few_queries`.
    """
    rows, n, dim = x.shape
    usable = _find(x, (project, out), norm, pre, (dim if source else 3 * dim, dim))
    if usable is None or dim % (heads * WIDTH):
        return None
    sentences, position, keys, values, slots = rows, 0, None, None, None
    strides: tuple[int, ...] | None
    if source is not None:
        keys, values, mask = source
        sentences, length = keys.shape[0], keys.shape[2]
        strides = _source_strides(source, heads, dim // heads)
    elif cache is not None:
        prefix = _prefix(*cache, x, heads)
        if prefix is None:
            return None
        keys, values, strides = prefix
        sentences, slots, width = cache[0].sentences, cache[0].slots, cache[0].stored[1]
        length, position = cache[0].length * width, (cache[0].length - 1) * width
    else:
        length, strides = n, (0,) * 6
    queries = rows // max(sentences, 1) * n
    if queries > MAX_QUERIES or not 0 < length <= MAX_KEYS:
        return None
    of_mask = mask_strides(mask, sentences, queries, length)
    if of_mask is None or strides is None or sentences * queries != rows * n:
        return None
    compiled, prepared = usable
    result = torch.empty_like(x)
    is_done = compiled.attention(
        ctypes.addressof(prepared.sublayer), x.data_ptr(),
        None if keys is None else keys.data_ptr(),
        None if values is None else values.data_ptr(), None if mask is None else mask.data_ptr(),
        None if slots is None else slots.data_ptr(),
        Shape(sentences, heads, queries, length, dim // heads),
        Strides(*strides, *of_mask), position, result.data_ptr(),
    )  # fmt: skip
    if not is_done:
        raise MemoryError(f"no memory for {rows * n} rows of {dim} numbers")
    return result


def add_norm(x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
    """Return norm(x + y), x and y (…, d), by one pass if the kernels have been compiled."""
    compiled = usable_kernels()
    if (
        compiled is None
        or not isinstance(norm, nn.LayerNorm)
        or not is_only(norm, nn.LayerNorm)
        or norm.normalized_shape != x.shape[-1:]
        or norm.bias is None
        or x.shape != y.shape
        or x.shape[-1] % WIDTH
        or not (is_in_rows(x) and is_in_rows(y))
        or not (is_plain(norm.weight) and is_plain(norm.bias))
    ):
        summed: Tensor = norm(x + y)
        return summed
    return compiled.add_norm(x, y, norm)


def _prefix(
    cache: KeyValueCache, layer: int, x: Tensor, heads: int
) -> tuple[Tensor, Tensor, tuple[int, ...]] | None:
    """Return a layer's keys and values and their strides; None if the kernels cannot use them."""
    rows, n, dim = x.shape
    if type(cache) is not KeyValueCache or n != 1 or rows != cache.sentences * cache.beam:
        return None
    keys, values = cache.storage(layer, heads, dim // heads, x)
    if not is_storage(cache, (keys, values), heads, dim // heads):
        return None
    cache.has_kernel = True
    sentence, head, _, _, last = keys.stride()
    return keys, values, (sentence, head, last * keys.shape[4]) * 2


def is_storage(cache: KeyValueCache, layer: tuple[Tensor, Tensor], heads: int, d: int) -> bool:
    """Return whether the kernels can read and write a layer's keys and values of a cache."""
    sentences, width = cache.stored
    shape = (sentences, heads, width, d)
    return all(
        (*part.shape[:2], *part.shape[3:]) == shape
        and part.shape[2] >= cache.length
        and is_in_rows(part)
        for part in layer
    )


def _source_strides(source: Source, heads: int, d: int) -> tuple[int, ...] | None:
    """Return the strides of keys and values; None if the kernels do not support them."""
    keys, values, _ = source
    if not (is_plain(keys) and is_plain(values) and keys.shape == values.shape):
        return None
    if keys.shape[1] != heads or keys.shape[3] != d:
        return None
    return (*keys.stride()[:3], *values.stride()[:3])


def is_only(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether a module computes what its class does, and has no hooks."""
    is_observed = module._forward_hooks or module._forward_pre_hooks
    return type(module) is kind and not is_observed and "forward" not in module.__dict__


def _find(
    x: Tensor,
    linears: tuple[Linear, Linear],
    norm: nn.Module,
    pre: bool,
    widths: tuple[int, int],
) -> tuple[Kernels, Prepared] | None:
    """Return the kernels and a sublayer's pointers, if they are supported.

    The widths are the outputs of the first product and the inputs of the last.

    The caller holds the latter during its call: another thread may prepare the same sublayer at the
    same time and replace the entry, which alone would not keep what the pointers point to.
    """
    compiled = usable_kernels()  # first: nothing else is looked up while a graph is traced
    if compiled is None or (cached := ACTIVE.get()) is None or torch.is_autocast_enabled("cpu"):
        return None
    if not (x.numel() and is_in_rows(x)):
        return None
    if cached.kernels_for(x.numel() // x.shape[-1]) is None:
        return None
    checked, key = CHECKED.get(), (id(linears[0]), id(linears[1]), id(norm), pre)
    if checked is not None and key in checked:
        prepared = checked[key][0]
    else:
        prepared = current_sublayer(cached, linears, norm, pre=pre)
        if checked is not None:  # with the modules, so that no later one gets their numbers
            checked[key] = prepared, linears, norm
    if prepared is None:
        return None
    first, last = prepared.held
    is_fit = (first.n, last.k) == widths and first.k == last.n == x.shape[-1]
    return (compiled, prepared) if is_fit else None


def current_sublayer(
    cached: CachedWeights[Any], linears: tuple[Linear, Linear], norm: nn.Module, *, pre: bool
) -> Prepared | None:
    """Return a sublayer's pointers, prepared if it is new or has changed; None as `_prepare`."""
    modules, key = (*linears, norm), (id(linears[0]), id(linears[1]), id(norm), pre)
    if not all(map(is_only, modules, (Linear, Linear, nn.LayerNorm))):
        return None
    known: dict[Key, tuple[References, Prepared | None]] = cached.sublayers
    entry = known.get(key)
    # The number of a module that is gone may be that of a new one.
    is_known = entry is not None and all(
        reference() is module for reference, module in zip(entry[0], modules, strict=True)
    )
    if entry is None or not is_known or not (entry[1] is None or entry[1].is_current(norm)):
        references = tuple(weakref.ref(m, lambda _: known.pop(key, None)) for m in modules)
        entry = known[key] = references, _prepare(cached, linears, norm, pre)
    return entry[1]


def _prepare(
    cached: CachedWeights[Any], linears: tuple[Linear, Linear], norm: nn.Module, pre: bool
) -> Prepared | None:
    """Return the pointers of a sublayer; None if the kernels do not support it."""
    first, last = linears
    modules = (first, last, norm)
    if any(name not in module._parameters for module in modules for name in PARTS):
        return None
    d = last.weight.shape[0]
    assert isinstance(norm, nn.LayerNorm)
    if d % WIDTH or norm.normalized_shape != (d,) or norm.bias is None:
        return None
    for weight, bias in ([m._parameters[name] for name in PARTS] for m in modules):
        if weight is None or (bias is not None and bias.shape != weight.shape[:1]):
            return None
    parameters = [watched(module, name) for module in modules for name in PARTS]
    if not all(p.value is None or p.is_like(p.value.shape) for p in parameters):
        return None
    held = cached.packed(first.weight), cached.packed(last.weight)
    if held[0] is None or held[1] is None:
        return None
    sublayer = Sublayer(
        held[0].with_bias(first.bias), held[1].with_bias(last.bias),
        norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps, pre,
    )  # fmt: skip
    return Prepared(sublayer, (held[0], held[1]), parameters, norm.eps)
