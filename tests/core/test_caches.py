"""Trees and caches, compared with plain tensors of rows."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from zoo.nn.cache import INITIAL_CAPACITY, Cache
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.tree import gather, tensors


class State(NamedTuple):
    hidden: Tensor
    layers: list[tuple[Cache, Tensor]]


def test_gather_reaches_everything() -> None:
    cache = Cache(torch.arange(24.0).view(4, 3, 2))
    state = State(torch.arange(4), [(cache, torch.arange(8).view(4, 2)), (cache, torch.ones(4))])
    rows = torch.tensor([3, 0, 0])
    gathered = gather(state, rows)
    assert isinstance(gathered, State)
    assert isinstance(gathered.layers, list)
    for before, after in zip(tensors(state), tensors(gathered), strict=True):
        assert torch.equal(before[rows], after)


@pytest.mark.parametrize("odd", [{"a": torch.ones(2)}, None, 3, "state"])
def test_gather_refuses_other_types(odd: Any) -> None:
    with pytest.raises(TypeError, match=f"cannot gather rows of a {type(odd).__name__}"):
        gather((torch.ones(2), odd), torch.tensor([0]))
    with pytest.raises(TypeError, match=f"a {type(odd).__name__} cannot be part of"):
        tensors([odd])


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("grad", [False, True])
def test_a_cache_never_changes(dim: int, grad: bool) -> None:
    torch.manual_seed(0)
    shape = [3, 2, 2]
    shape[dim] = 0
    caches, expected = [Cache(torch.empty(shape), dim)], [torch.empty(shape)]
    shape[dim] = 1
    with torch.set_grad_enabled(grad):
        for step in range(60):
            # Mostly from the newest cache, sometimes from an old one, sometimes after a reordering.
            parent = len(caches) - 1 if step % 5 else int(torch.randint(len(caches), ()))
            new = torch.randn(shape, requires_grad=grad)
            caches.append(caches[parent].append(new))
            expected.append(torch.cat([expected[parent], new], dim))
            if step % 7 == 0:
                rows = torch.tensor([2, 0, 0])
                caches.append(caches[-1].gather(rows))
                expected.append(expected[-1][rows])
    for cache, values in zip(caches, expected, strict=True):
        assert torch.equal(cache.values, values)


def test_a_cache_appends_in_place_at_its_newest_end() -> None:
    cache = Cache(torch.zeros(1, 1, 1)).append(torch.ones(1, 1, 1))
    longer = cache.append(torch.ones(1, 1, 1))
    assert longer.values.data_ptr() == cache.values.data_ptr()
    other = cache.append(torch.zeros(1, 1, 1))
    assert other.values.data_ptr() != cache.values.data_ptr()


@pytest.mark.parametrize("has_kernel", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_a_key_value_cache_never_changes(grad: bool, has_kernel: bool) -> None:
    """Extended, reordered, widened, narrowed and cut: against plain tensors of rows.

    For kernels, the storage stays where it is.
    """
    torch.manual_seed(0)
    caches, expected = [KeyValueCache(3)], [[torch.empty(3, 2, 0, 5)] * 4]
    with torch.set_grad_enabled(grad):
        for step in range(80):
            # Mostly from the newest cache, sometimes from an old one.
            parent = len(caches) - 1 if step % 5 else int(torch.randint(len(caches), ()))
            cache, rows = caches[parent].extended(), len(expected[parent][0])
            new = [torch.randn(rows, 2, 1, 5, requires_grad=grad) for _ in range(4)]
            for layer in range(2):
                cache.write(layer, *new[2 * layer : 2 * layer + 2])
            cache.has_kernel = has_kernel
            caches.append(cache)
            expected.append(
                [torch.cat(both, 2) for both in zip(expected[parent], new, strict=True)]
            )
            sentences, beam = cache.sentences, cache.beam
            if step % 3 == 0:  # within each sentence's beam
                index = (
                    torch.randint(beam, (sentences, beam)) + beam * torch.arange(sentences)[:, None]
                )
            elif step % 7 == 0:  # another beam width, for some sentences
                kept = torch.randperm(sentences)[: max(2, sentences - 1)].sort().values
                index = torch.randint(beam, (len(kept), 1 + step % 4)) + beam * kept[:, None]
            elif step % 11 == 0:  # any rows at all
                index = torch.randint(rows, (4,))
            else:
                continue
            caches.append(cache.gather(index.flatten()))
            expected.append([part[index.flatten()] for part in expected[-1]])
    assert max(cache.length for cache in caches) > 2 * INITIAL_CAPACITY
    assert any(cache.slots is not None for cache in caches) is has_kernel
    for cache, parts in zip(caches[1:], expected[1:], strict=True):
        for values, part in zip(cache.values(), parts, strict=True):
            assert torch.equal(values, part)


@pytest.mark.parametrize("has_kernel", [False, True])
@pytest.mark.parametrize("width", [5, 3, 8])
def test_each_row_attends_to_its_own_prefix(width: int, has_kernel: bool) -> None:
    """Values may have another width than keys."""
    torch.manual_seed(0)
    cache, keys, of_values = KeyValueCache(2), torch.empty(2, 3, 0, 5), torch.randn(5, width)
    reorderings = {0: [0, 0, 1, 1], 2: [1, 0, 3, 3], 4: [0, 0, 2, 3], 5: [2, 3]}
    for step in range(7):
        cache = cache.extended()
        new = torch.randn(len(keys), 3, 1, 5)
        keys = torch.cat([keys, new], 2)
        shared, values = cache.write(0, new, new @ of_values)
        torch.testing.assert_close(values, shared @ of_values)
        query = torch.randn(len(keys), 3, 1, 5)
        scores = cache.fold_beam(query) @ shared.transpose(2, 3)
        if cache.mask is not None:
            scores = scores.masked_fill(~cache.mask, -torch.inf)
        weights = scores.softmax(-1)
        expected = (query @ keys.transpose(2, 3)).softmax(-1)
        torch.testing.assert_close(cache.prefix_weights(weights), expected)
        contexts = expected @ (keys @ of_values)
        torch.testing.assert_close(cache.unfold_beam(weights @ values), contexts)
        if step in reorderings:
            rows, cache.has_kernel = torch.tensor(reorderings[step]), has_kernel
            cache, keys = cache.gather(rows), keys[rows]


def test_a_cache_without_a_position_is_not_written_to() -> None:
    key = torch.zeros(2, 1, 1, 3)
    with pytest.raises(IndexError, match="no position to write to: call extended"):
        KeyValueCache(2).write(0, key, key)
    assert KeyValueCache(2).extended().write(0, key, key)[0].shape == (2, 1, 1, 3)


def test_layers_write_in_the_order_of_their_numbers() -> None:
    cache, new = KeyValueCache(2).extended(), torch.zeros(2, 1, 1, 1)
    with pytest.raises(IndexError, match="layer 1 of a KeyValueCache writes, and layer 0 never"):
        cache.write(1, new, new)


@pytest.mark.parametrize("gathers", [False, True])
def test_every_layer_writes_every_position(gathers: bool) -> None:
    """What it has not written is whatever the memory had."""
    first, new = KeyValueCache(2).extended(), torch.zeros(2, 1, 1, 1)
    for layer in (0, 1):
        first.write(layer, new, new)
    skipped = first.extended()
    skipped.write(0, new, new)
    again = skipped.extended()
    if gathers:
        again = again.gather(torch.tensor([0, 0, 1, 1]))
        new = torch.zeros(4, 1, 1, 1)
    again.write(0, new, new)
    with pytest.raises(IndexError, match="layer 1 of a KeyValueCache writes position 2, and has"):
        again.write(1, new, new)
    with pytest.raises(IndexError, match=r"layer 2 .* not written position 0: after"):
        again.write(2, new, new)
    first.extended().write(1, torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1, 1))


@torch.no_grad()
def test_reordering_a_beam_copies_nothing() -> None:
    cache = KeyValueCache(2).extended()
    cache.write(0, torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1, 1))
    wide = cache.gather(torch.tensor([0, 0, 1, 1]))
    reordered = wide.gather(torch.tensor([1, 1, 3, 2])).extended()
    keys, _ = reordered.write(0, torch.ones(4, 1, 1, 1), torch.ones(4, 1, 1, 1))
    assert keys.data_ptr() == wide._layers[0][0].data_ptr()


@torch.no_grad()
def test_sentences_that_leave_move_nothing_that_kernels_read() -> None:
    """Nor do smaller beams; what is stored moves when it grows, and for other orders."""
    cache = KeyValueCache(3).extended()
    cache.write(0, torch.zeros(3, 1, 1, 1), torch.zeros(3, 1, 1, 1))
    wide = cache.gather(torch.arange(3).repeat_interleave(2))
    wide.has_kernel = True
    fewer, narrow = wide.gather(torch.tensor([2, 2, 5, 4])), wide.gather(torch.tensor([1, 4]))
    for kept in (fewer, narrow, fewer.gather(torch.tensor([1, 3]))):
        assert kept.storage_parts()[0] is wide.storage_parts()[0]
        assert kept.stored == (3, 2)
        longer = kept.extended_by(INITIAL_CAPACITY * 8)
        assert longer.stored == (kept.sentences, kept.beam)
    for rows in ([4, 5, 0, 1], [0, 1, 0, 1], [-2, -1]):
        assert wide.gather(torch.tensor(rows)).slots is None
