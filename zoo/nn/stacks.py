"""A Transformer's encoder, and one step or several of its decoder, each in one call of the kernels.

With few rows they take less time than the calls of their parts from Python. Both are supported
where `attention_sublayer` and `feedforward_sublayer` are, in a search through `zoo.Translator`,
unless a module of the network has hooks, or a method of its own in place of its class's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn.cached_weights import CHECKED
from zoo.nn.contract import END, BeamSteps, GreedySteps
from zoo.nn.kernel_structures import Scope
from zoo.nn.kernels import MAX_KEYS, Kernels, is_in_rows, is_plain, mask_strides
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.stack_parts import Describe, PreparedStack, find_stack
from zoo.nn.sublayers import MAX_QUERIES, is_storage

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
    slots: Tensor | None
    beam: int
    sources: Sources
    pointers: ctypes.Array[Any]
    scopes: tuple[Scope, Scope]

    def is_of(self, cache: KeyValueCache, sources: Sources) -> bool:
        """Return whether the pointers are of these tensors."""
        is_same = all(a is b for a, b in zip(self.sources, sources, strict=True))
        is_same = is_same and cache.slots is self.slots and cache.beam == self.beam
        return is_same and cache.holds(self.prefix)


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
    (sentences, m), rows = tokens.shape, tokens.numel()
    of_mask = mask_strides(mask, sentences, m, m)
    if not 0 < m <= MAX_LENGTH or not sentences or of_mask is None or not _are_tokens(tokens):
        return None
    if (usable := find_stack(network, "encoder", describe, rows)) is None:
        return None
    compiled, prepared = usable
    heads, count, d = prepared.heads, prepared.stack.output_count, prepared.d
    if prepared.outputs != 2 * d or not _are_positions(positions, m, d):
        return None
    memory = _new(count, 2, sentences, heads, m, d // heads)
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
    if (usable := _usable(tokens, network, describe, cache, 0)) is None:
        return None
    compiled, prepared = usable
    width = cache.stored[1]
    length = cache.length * width
    if not _are_positions(position, 1, prepared.d):
        return None
    if (stored := _stored(network, cache, sources, prepared)) is None:
        return None
    if not _set_mask(stored.scopes[0], mask, cache, length):
        return None
    logits = _new(tokens.shape[0], prepared.outputs)
    tokens = tokens.contiguous()
    _check(
        compiled.decoder(
            ctypes.byref(prepared.stack), tokens.data_ptr(),
            None if position is None else position.data_ptr(), stored.pointers,
            *map(ctypes.byref, stored.scopes), length - width, logits.data_ptr(),
        ),
        prepared,
    )  # fmt: skip
    return logits


def greedy_steps(
    tokens: Tensor,
    network: nn.Module,
    describe: Describe,
    table: Tensor | None,
    cache: KeyValueCache,
    sources: Sources,
    count: int,
    banned: Sequence[int],
) -> GreedySteps[KeyValueCache] | None:
    """Return up to `count` steps, each of which reads the best tokens of the one before.

    None if it is not supported. The arguments are those of `decoder_step`, but for these:

    Args:
        table: what is added to the embedding of each position, (positions, d), or None.
        cache: the prefix, without the tokens.
        count: the most steps.
        banned: tokens that are not chosen.
    """
    if cache.beam != 1 or cache.stored[1] != 1:
        return None
    if (ready := _ready(tokens, network, describe, table, cache, sources, count)) is None:
        return None
    compiled, prepared, positions, extended, stored = ready
    start, rows = cache.length, tokens.shape[0]
    _set_mask(stored.scopes[0], None, extended, start + 1)
    ids, parents = tokens.new_empty(count + 1, rows), torch.empty_like(tokens)
    ids[0] = tokens
    logits, scores = _new(rows, prepared.outputs), _new(count, rows)
    taken = compiled.greedy(
        ctypes.byref(prepared.stack), ids.data_ptr(),
        None if positions is None else positions.data_ptr(), stored.pointers,
        *map(ctypes.byref, stored.scopes), start, count, (ctypes.c_int64 * len(banned))(*banned),
        len(banned), END, logits.data_ptr(), parents.data_ptr(), scores.data_ptr(),
    )  # fmt: skip
    _check(taken, prepared)
    return GreedySteps(ids[1 : taken + 1].T, scores[:taken].T, extended.shortened(start + taken))


def beam_steps(
    tokens: Tensor,
    network: nn.Module,
    describe: Describe,
    table: Tensor | None,
    cache: KeyValueCache,
    sources: Sources,
    scores: Tensor,
    count: int,
    banned: Sequence[int],
) -> BeamSteps[KeyValueCache] | None:
    """Return up to `count` steps, each of which reads the best continuations of the one before.

    None if it is not supported. The arguments are those of `greedy_steps`, and the scores of
    `Seq2Seq.beam_steps`.
    """
    shape = cache.sentences, cache.beam
    if scores.shape != shape or not is_plain(scores) or cache.stored[1] != cache.beam:
        return None
    if (ready := _ready(tokens, network, describe, table, cache, sources, count)) is None:
        return None
    compiled, prepared, positions, extended, stored = ready
    start, rows = cache.length, tokens.shape[0]
    ids, parents = tokens.new_empty(2, count, rows)
    ids[0], scores = tokens, scores.clone(memory_format=torch.contiguous_format)
    origins, logits = extended.own_origins(), _new(rows, prepared.outputs)
    mask = torch.empty(rows, (start + count) * cache.beam, dtype=torch.bool, device="cpu")
    taken = compiled.beam(
        ctypes.byref(prepared.stack), ids.data_ptr(),
        None if positions is None else positions.data_ptr(), stored.pointers,
        *map(ctypes.byref, stored.scopes), start, count, (ctypes.c_int64 * len(banned))(*banned),
        len(banned), END, scores.data_ptr(), parents.data_ptr(), origins.data_ptr(),
        start + count, mask.data_ptr(), logits.data_ptr(),
    )  # fmt: skip
    _check(taken, prepared)
    firsts = torch.arange(0, rows, cache.beam, device=parents.device)
    firsts = firsts.repeat_interleave(cache.beam)
    tokens, parents = ids[1:taken], parents[: taken - 1] + firsts
    return BeamSteps(tokens, parents, scores, logits, extended.shortened(start + taken))


class _Ready(NamedTuple):
    """What several steps need.

    positions: what is added to their embeddings, (count, d), or None; cache: with a position for
    each of them.
    """

    compiled: Kernels
    prepared: PreparedStack
    positions: Tensor | None
    cache: KeyValueCache
    stored: _Stored


def _ready(
    tokens: Tensor, network: nn.Module, describe: Describe, table: Tensor | None,
    cache: KeyValueCache, sources: Sources, count: int,
) -> _Ready | None:  # fmt: skip
    """Return what `count` steps need; None if they are not supported."""
    usable = _usable(tokens, network, describe, cache, count)
    if usable is None or count < 1:
        return None
    compiled, prepared = usable
    start = cache.length
    if table is not None and len(table) < start + count:
        return None
    positions = None if table is None else table.narrow(0, start, count)
    if not _are_positions(positions, count, prepared.d):
        return None
    cache = cache.extended_by(count)
    if (stored := _stored(network, cache, sources, prepared)) is None:
        cache.shortened(start)
        return None
    return _Ready(compiled, prepared, positions, cache, stored)


def _usable(
    tokens: Tensor, network: nn.Module, describe: Describe, cache: KeyValueCache, more: int
) -> tuple[Kernels, PreparedStack] | None:
    """Return what reads a decoder's tokens; None if it is not supported, or not for `more` steps.

    A cache that a GPU records has no `length`.
    """
    if type(cache) is not KeyValueCache or not _are_tokens(tokens):
        return None
    rows, length = cache.sentences * cache.beam, (cache.length + more) * cache.stored[1]
    if not 0 < length <= MAX_KEYS or cache.beam > MAX_QUERIES or not rows == tokens.shape[0] > 0:
        return None
    return find_stack(network, "decoder", describe, rows)


def _new(*shape: int) -> Tensor:
    """Return memory for the kernels, whatever torch's default dtype and device are."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


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
    network: nn.Module, cache: KeyValueCache, sources: Sources, prepared: PreparedStack
) -> _Stored | None:
    """Return the pointers to keys and values, made unless they are known; None as `_pointers`."""
    checked, key = CHECKED.get(), (id(network), "stored")
    assert checked is not None
    stored: _Stored | None = checked.get(key)
    if stored is None or not stored.is_of(cache, sources):
        checked.pop(key, None)  # it would keep the last ones
        if (stored := _pointers(cache, sources, prepared)) is not None:
            checked[key] = stored
    return stored


def _pointers(cache: KeyValueCache, sources: Sources, prepared: PreparedStack) -> _Stored | None:
    """Return the pointers to keys and values; None if the kernels cannot read them."""
    heads, d = prepared.heads, prepared.d // prepared.heads
    sentences, keys, layers = cache.sentences, sources.keys[0].shape[2], prepared.stack.layer_count
    shape, strides = (sentences, heads, keys, d), sources.keys[0].stride()
    for part in (*sources.keys, *sources.values):
        if not is_plain(part) or part.shape != shape or part.stride() != strides:
            return None
    of_mask = mask_strides(sources.mask, sentences, cache.beam, keys)
    if not len(sources.keys) == len(sources.values) == layers or not 0 < keys <= MAX_KEYS:
        return None
    prefix = cache.storages(layers, heads, d, sources.keys[0])
    of_prefix = (is_storage(cache, layer, heads, d) for layer in prefix)
    if of_mask is None or len(prefix) != layers or not all(of_prefix):
        return None
    every = zip(prefix, sources.keys, sources.values, strict=True)
    pointers = [x.data_ptr() for pair, key, value in every for x in (*pair, key, value)]
    cache.has_kernel, slots = True, cache.slots
    size, (sentence, head, _, _, last) = (sentences, heads, cache.beam), prefix[0][0].stride()
    of_slots = None if slots is None else slots.data_ptr()
    scopes = (
        Scope((*size, 0, d), (*(sentence, head, last * d) * 2, 0, 0), None, of_slots),
        Scope((*size, keys, d), (*strides[:3] * 2, *of_mask), sources.mask.data_ptr()),
    )
    of_layers = (ctypes.c_void_p * len(pointers))(*pointers)
    return _Stored(prefix, slots, cache.beam, sources, of_layers, scopes)
