"""A Transformer's encoder, and a step of its decoder, each in one call of the kernels.

With few rows they take less time than the calls of their parts from Python. Both are supported
where `attention_sublayer` and `feedforward_sublayer` are, in a search through `zoo.Translator`,
unless a module of the network has hooks or a `forward` of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn.cached_weights import CHECKED
from zoo.nn.kernels import MAX_KEYS, Scope, is_in_rows, is_plain, mask_strides
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.stack_parts import Describe, PreparedStack, find_stack
from zoo.nn.sublayers import MAX_QUERIES

MAX_LENGTH = 64
"""The most tokens of a source; with more, torch's batched products are faster."""

Pairs = Sequence[tuple[Tensor, Tensor]]


class Sources(NamedTuple):
    """The source's keys and values for each layer of a decoder.

    keys, values: (sentences, heads, m, d_h) each; mask: (sentences, 1, 1, m), True at padding.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    mask: Tensor


class _Stored(NamedTuple):
    """Pointers to the keys and values of every layer, and of which tensors they are."""

    prefix: Pairs
    sources: Sources
    pointers: ctypes.Array[Any]
    scopes: tuple[Scope, Scope]

    def is_of(self, prefix: Pairs, sources: Sources) -> bool:
        """Return whether the pointers are of these tensors."""
        is_same = all(a is b for a, b in zip(self.sources, sources, strict=True))
        return is_same and self.prefix is prefix


def encoder_sources(
    tokens: Tensor, network: nn.Module, describe: Describe, positions: Tensor | None, mask: Tensor
) -> Sources | None:
    """Return the keys and values of an encoder's output for each decoder layer.

    None if it is not supported.

    Args:
        tokens: (sentences, m) int64.
        network: what contains the encoder.
        describe: returns its parts, or None if the kernels do not know them.
        positions: what is added to the embeddings, (m, d), or None.
        mask: bool, True at padding, (sentences, 1, 1, m).

    Raises:
        IndexError: a token is not in the vocabulary.
    """
    sentences, m = tokens.shape
    if not 0 < m <= MAX_LENGTH or not sentences:
        return None
    if (found := find_stack(network, "encoder", describe)) is None:
        return None
    compiled, cached, prepared = found
    heads, count, d = prepared.parts.heads, prepared.stack.output_count, prepared.d
    of_mask = mask_strides(mask, sentences, m, m)
    if cached.kernels_for(tokens.numel()) is None or of_mask is None or prepared.outputs != 2 * d:
        return None
    if not (_are_tokens(tokens) and _are_positions(positions, m, d)):
        return None
    memory = torch.empty(count, 2, sentences, heads, m, d // heads)
    scope = Scope((sentences, heads, m, m, d // heads), (0,) * 6 + of_mask, mask.data_ptr())
    tokens = tokens.contiguous()
    _check(
        compiled.encoder(
            ctypes.byref(prepared.stack), tokens.data_ptr(),
            None if positions is None else positions.data_ptr(), ctypes.byref(scope),
            memory.data_ptr(),
        ),
        prepared,
    )  # fmt: skip
    return Sources(memory[:, 0].unbind(0), memory[:, 1].unbind(0), mask)


def decoder_step(
    tokens: Tensor,
    network: nn.Module,
    describe: Describe,
    position: Tensor | None,
    cache: KeyValueCache,
    mask: Tensor | None,
    sources: Sources,
) -> Tensor | None:
    """Return the logits after one more position, (rows, outputs); None if it is not supported.

    Args:
        tokens: (rows,) int64.
        network: what contains the decoder.
        describe: returns its parts, or None if the kernels do not know them.
        position: what is added to each embedding, (1, d), or None.
        cache: the keys and values of the prefix, to which those of the tokens are added.
        mask: as that of `attention_sublayer`.
        sources: what the layers attend to besides.

    Raises:
        IndexError: a token is not in the vocabulary.
    """
    if (found := find_stack(network, "decoder", describe)) is None:
        return None
    compiled, cached, prepared = found
    rows, length = cache.sentences * cache.beam, cache.length * cache.beam
    if not 0 < length <= MAX_KEYS or cache.beam > MAX_QUERIES or not rows == tokens.shape[0] > 0:
        return None
    if cached.kernels_for(rows) is None or not _are_tokens(tokens):
        return None
    heads, d = prepared.parts.heads, prepared.d
    if not _are_positions(position, 1, d):
        return None
    prefix = cache.storages(prepared.stack.layer_count, heads, d // heads, sources.keys[0])
    checked = CHECKED.get()
    assert checked is not None
    stored: _Stored | None = checked.get(key := (id(network), "stored"))
    if stored is None or not stored.is_of(prefix, sources):
        stored = checked[key] = _stored(cache, prefix, sources, (heads, d // heads))
    if stored is None or not _set_mask(stored.scopes[0], mask, cache, length):
        return None
    logits = torch.empty(rows, prepared.outputs)
    tokens = tokens.contiguous()
    _check(
        compiled.decoder(
            ctypes.byref(prepared.stack), tokens.data_ptr(),
            None if position is None else position.data_ptr(), stored.pointers,
            *map(ctypes.byref, stored.scopes), length - cache.beam, logits.data_ptr(),
        ),
        prepared,
    )  # fmt: skip
    return logits


def _check(result: int, prepared: PreparedStack) -> None:
    """Raise what a kernel's result says."""
    if result < 0:
        raise IndexError(f"a token is not one of {prepared.stack.vocab:,}")
    if not result:
        raise MemoryError(f"no memory for rows of {prepared.d} numbers")


def _are_tokens(tokens: Tensor) -> bool:
    return tokens.dtype is torch.int64 and tokens.is_cpu


def _are_positions(positions: Tensor | None, count: int, d: int) -> bool:
    return positions is None or (is_in_rows(positions) and positions.shape == (count, d))


def _set_mask(scope: Scope, mask: Tensor | None, cache: KeyValueCache, length: int) -> bool:
    """Set what the prefix's attention reads; return whether the kernels can read the mask."""
    scope.shape[3] = length
    if mask is None and scope.mask is None:
        return True
    strides = mask_strides(mask, cache.sentences, cache.beam, length)
    if strides is None:
        return False
    scope.strides[6:] = strides
    scope.mask = None if mask is None else mask.data_ptr()
    return True


def _stored(
    cache: KeyValueCache, prefix: Pairs, sources: Sources, of_head: tuple[int, int]
) -> _Stored | None:
    """Return the pointers to keys and values; None if the kernels cannot read them.

    of_head: the number of heads, and their width.
    """
    sentences, heads, _, beam, d = prefix[0][0].shape
    if (sentences, heads, beam, d) != (cache.sentences, of_head[0], cache.beam, of_head[1]):
        return None
    sentence, head, _, _, last = prefix[0][0].stride()
    keys = sources.keys[0].shape[2]
    shape, strides = (sentences, heads, keys, d), sources.keys[0].stride()
    for part in (*sources.keys, *sources.values):
        if not is_plain(part) or part.shape != shape or part.stride() != strides:
            return None
    of_mask = mask_strides(sources.mask, sentences, cache.beam, keys)
    if len(sources.keys) != len(prefix) or of_mask is None or not 0 < keys <= MAX_KEYS:
        return None
    layers = zip(prefix, sources.keys, sources.values, strict=True)
    pointers = [x.data_ptr() for pair, key, value in layers for x in (*pair, key, value)]
    size = (sentences, heads, cache.beam)
    scopes = (
        Scope((*size, 0, d), (*(sentence, head, last * d) * 2, 0, 0)),
        Scope((*size, keys, d), (*strides[:3] * 2, *of_mask), sources.mask.data_ptr()),
    )
    return _Stored(prefix, sources, (ctypes.c_void_p * len(pointers))(*pointers), scopes)
