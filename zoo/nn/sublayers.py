"""Whole sublayers of a Transformer in one call of the kernels, for the few rows of a step.

Each function returns None where the kernels do not support the operands: the caller then computes
the sublayer with torch's operators. They are supported without gradients, in float32 on a CPU, with
one thread or few rows, while cached weights are active that the kernels can read.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn.cached_weights import ACTIVE, CachedWeights, version
from zoo.nn.kernels import (
    MAX_KEYS,
    WIDTH,
    Kernels,
    Packed,
    Shape,
    Strides,
    Sublayer,
    is_plain,
    product_kernels,
    usable_kernels,
)
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.linear import Linear

PARTS = ("weight", "bias")

MAX_QUERIES = 16
"""With more queries of a sentence than this, torch's batched products are faster."""


class Source(NamedTuple):
    """What an attention sublayer attends to besides its input.

    keys, values: (sentences, heads, keys, d), adjacent; mask as that of `few_queries`.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None


class _Prepared(NamedTuple):
    """The pointers for the kernels, what they point to, and by what a change is noticed."""

    sublayer: Sublayer
    held: tuple[Packed, Packed]
    parameters: tuple[tuple[Mapping[str, Tensor | None], str, Tensor | None, int, int], ...]

    def is_current(self) -> bool:
        """Return whether no parameter was replaced or written to."""
        for of_module, name, x, written, pointer in self.parameters:
            if of_module[name] is not x:
                return False
            if x is not None and (x.data_ptr() != pointer or version(x) != written):
                return False
        return True


def feedforward_sublayer(
    x: Tensor, inner: Linear, outer: Linear, norm: nn.Module, *, pre: bool
) -> Tensor | None:
    """Return norm(x + f(x)), or x + f(norm(x)) if `pre`, with f(x) = W_2 max(0, W_1 x + b_1) + b_2.

    x: (…, d).
    """
    usable = _find(x, (inner, outer), norm, pre)
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
    usable = _find(x, (project, out), norm, pre)
    of_mask = _mask_strides(mask := source.mask if source is not None else mask)
    rows, n, dim = x.shape
    parts = (project.out_features, out.in_features)
    if usable is None or of_mask is None or parts != (dim if source else 3 * dim, dim):
        return None
    sentences, position, keys, values = rows, 0, None, None
    if source is not None:
        keys, values = source.keys, source.values
        sentences, length = keys.shape[0], keys.shape[2]
        strides = (*keys.stride()[:3], *values.stride()[:3])
        if not (is_plain(keys) and is_plain(values)):
            return None
    elif cache is not None:
        sentences = cache[0].sentences
        if n != 1 or dim % heads:  # the storage below is contiguous
            return None
        keys, values = cache[0].storage(cache[1], heads, dim // heads, x)
        length, position = cache[0].length * cache[0].beam, (cache[0].length - 1) * cache[0].beam
        sentence, head, _, _, last = keys.stride()
        strides = (sentence, head, last * keys.shape[4]) * 2
    else:
        length, strides = n, (0,) * 6
    queries = rows * n // sentences
    if queries > MAX_QUERIES or not 0 < length <= MAX_KEYS or dim % (heads * WIDTH):
        return None
    compiled, prepared = usable
    result = torch.empty_like(x)
    is_done = compiled.attention(
        ctypes.addressof(prepared.sublayer), x.data_ptr(),
        None if keys is None else keys.data_ptr(),
        None if values is None else values.data_ptr(), None if mask is None else mask.data_ptr(),
        Shape(sentences, heads, queries, length, dim // heads), Strides(*strides, *of_mask),
        position, result.data_ptr(),
    )  # fmt: skip
    if not is_done:
        raise MemoryError(f"no memory for {rows * n} rows of {dim} numbers")
    return result


def _mask_strides(mask: Tensor | None) -> tuple[int, int] | None:
    """Return a mask's strides of sentences and queries; None if it is not supported."""
    if mask is None:
        return 0, 0
    if mask.dim() != 4 or mask.shape[1] != 1 or mask.stride(3) != 1:
        return None
    sentence, query = (mask.stride(i) if mask.shape[i] > 1 else 0 for i in (0, 2))
    return sentence, query


def _find(
    x: Tensor, linears: tuple[Linear, Linear], norm: nn.Module, pre: bool
) -> tuple[Kernels, _Prepared] | None:
    """Return the kernels and a sublayer's pointers, if they are supported.

    The caller holds the latter during its call: another thread may prepare the same sublayer at the
    same time and replace the entry, which alone would not keep what the pointers point to.
    """
    compiled = usable_kernels()  # first: nothing else is looked up while a graph is traced
    if compiled is None or (cached := ACTIVE.get()) is None or torch.is_autocast_enabled("cpu"):
        return None
    if not (x.numel() and is_plain(x) and x.is_contiguous()):
        return None
    if product_kernels(x.numel() // x.shape[-1]) is None:
        return None
    if any(module._forward_hooks or module._forward_pre_hooks for module in (*linears, norm)):
        return None
    known: dict[int, tuple[weakref.ref[Linear], bool, _Prepared | None]] = cached.sublayers
    key = id(linears[0])
    entry = known.get(key)
    if (
        entry is None
        or entry[0]() is not linears[0]
        or entry[1] != pre
        or not (entry[2] is None or entry[2].is_current())
    ):
        reference = weakref.ref(linears[0], lambda _: known.pop(key, None))
        entry = known[key] = reference, pre, _prepare(cached, linears, norm, pre)
    return None if entry[2] is None else (compiled, entry[2])


def _prepare(
    cached: CachedWeights[Any], linears: tuple[Linear, Linear], norm: nn.Module, pre: bool
) -> _Prepared | None:
    """Return the pointers of a sublayer; None if the kernels do not support it."""
    first, last = linears
    d = last.out_features
    if type(norm) is not nn.LayerNorm or norm.bias is None or norm.normalized_shape != (d,):
        return None
    if d % WIDTH or first.in_features != d or first.out_features % last.in_features:
        return None
    modules = (first, last, norm)
    tensors = [(m._parameters, name, m._parameters[name]) for m in modules for name in PARTS]
    if not all(x is None or (is_plain(x) and x.is_contiguous()) for _, _, x in tensors):
        return None
    held = cached.packed(first.weight), cached.packed(last.weight)
    if held[0] is None or held[1] is None:
        return None
    sublayer = Sublayer(
        held[0].with_bias(first.bias), held[1].with_bias(last.bias),
        norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps, pre,
    )  # fmt: skip
    parameters = tuple(
        (of_module, name, x, *((0, 0) if x is None else (version(x), x.data_ptr())))
        for of_module, name, x in tensors
    )
    return _Prepared(sublayer, (held[0], held[1]), parameters)
