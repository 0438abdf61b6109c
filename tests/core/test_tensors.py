"""Trees, caches, tokenizers and batches."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from zoo.data.batches import Corpus, Sequences, batch_sources, shuffled_batches
from zoo.data.tokenizer import Tokenizer
from zoo.data.tokenizer_kinds import SPECIALS
from zoo.errors import CheckpointError
from zoo.nn.cache import ROOM, Cache, KeyValueCache
from zoo.nn.contract import END
from zoo.nn.tree import gather, tensors
from zoo.registry.declarations import Pair
from zoo.registry.parameters import LengthLimits


class State(NamedTuple):
    hidden: Tensor
    layers: list[tuple[Cache, Tensor]]


def test_gather_reaches_everything() -> None:
    cache = Cache(torch.arange(24.0).view(4, 3, 2))
    state = State(torch.arange(4), [(cache, torch.arange(8).view(4, 2)), (cache, torch.ones(4))])
    rows = torch.tensor([3, 0, 0])
    found = gather(state, rows)
    assert isinstance(found, State)
    assert isinstance(found.layers, list)
    for before, after in zip(tensors(state), tensors(found), strict=True):
        assert torch.equal(before[rows], after)


@pytest.mark.parametrize("odd", [{"a": torch.ones(2)}, None, 3, "state"])
def test_gather_refuses_what_it_does_not_know(odd: Any) -> None:
    with pytest.raises(TypeError, match=f"cannot gather rows of a {type(odd).__name__}"):
        gather((torch.ones(2), odd), torch.tensor([0]))
    with pytest.raises(TypeError):
        tensors([odd])


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("grad", [False, True])
def test_a_cache_never_changes_to_its_holder(dim: int, grad: bool) -> None:
    torch.manual_seed(0)
    shape = [3, 2, 2]
    shape[dim] = 0
    caches, wanted = [Cache(torch.empty(shape), dim)], [torch.empty(shape)]
    shape[dim] = 1
    with torch.set_grad_enabled(grad):
        for step in range(60):
            # Mostly from the newest end; now and then from an old one, and after a reordering.
            at = len(caches) - 1 if step % 5 else int(torch.randint(len(caches), ()))
            new = torch.randn(shape, requires_grad=grad)
            caches.append(caches[at].append(new))
            wanted.append(torch.cat([wanted[at], new], dim))
            if step % 7 == 0:
                rows = torch.tensor([2, 0, 0])
                caches.append(caches[-1].gather(rows))
                wanted.append(wanted[-1][rows])
    for cache, values in zip(caches, wanted, strict=True):
        assert torch.equal(cache.values, values)


def test_a_cache_appends_in_place_from_its_newest_end() -> None:
    cache = Cache(torch.zeros(1, 1, 1)).append(torch.ones(1, 1, 1))
    longer = cache.append(torch.ones(1, 1, 1))
    assert longer.values.data_ptr() == cache.values.data_ptr()
    other = cache.append(torch.zeros(1, 1, 1))
    assert other.values.data_ptr() != cache.values.data_ptr()


@pytest.mark.parametrize("grad", [False, True])
def test_a_past_never_changes_to_its_holder(grad: bool) -> None:
    """Longer, reordered in beams, widened, narrowed and cut: against plain tensors of rows."""
    torch.manual_seed(0)
    pasts, wanted = [KeyValueCache(3)], [[torch.empty(3, 2, 0, 5)] * 4]
    with torch.set_grad_enabled(grad):
        for step in range(80):
            # Mostly from the newest end; now and then from an old one.
            at = len(pasts) - 1 if step % 5 else int(torch.randint(len(pasts), ()))
            past, rows = pasts[at].longer(), len(wanted[at][0])
            new = [torch.randn(rows, 2, 1, 5, requires_grad=grad) for _ in range(4)]
            for layer in range(2):
                past.write(layer, *new[2 * layer : 2 * layer + 2])
            pasts.append(past)
            wanted.append([torch.cat(both, 2) for both in zip(wanted[at], new, strict=True)])
            sentences, beam = past.sentences, past.beam
            if step % 3 == 0:  # within each sentence's beam
                moved = (
                    torch.randint(beam, (sentences, beam)) + beam * torch.arange(sentences)[:, None]
                )
            elif step % 7 == 0:  # another width, of some sentences
                kept = torch.randperm(sentences)[: max(2, sentences - 1)].sort().values
                moved = torch.randint(beam, (len(kept), 1 + step % 4)) + beam * kept[:, None]
            elif step % 11 == 0:  # any rows at all
                moved = torch.randint(rows, (4,))
            else:
                continue
            pasts.append(past.gather(moved.flatten()))
            wanted.append([part[moved.flatten()] for part in wanted[-1]])
    assert max(past.length for past in pasts) > 2 * ROOM
    for past, parts in zip(pasts[1:], wanted[1:], strict=True):
        for found, part in zip(past.values(), parts, strict=True):
            assert torch.equal(found, part)


def test_what_rows_look_at_in_a_past_is_their_own() -> None:
    torch.manual_seed(0)
    past, keys = KeyValueCache(2), torch.empty(2, 3, 0, 5)
    moves = {0: [0, 0, 1, 1], 2: [1, 0, 3, 3], 4: [0, 0, 2, 3], 5: [2, 3]}
    for step in range(7):
        past = past.longer()
        new = torch.randn(len(keys), 3, 1, 5)
        keys = torch.cat([keys, new], 2)
        together, values = past.write(0, new, new + 1)
        assert torch.equal(values, together + 1)
        query = torch.randn(len(keys), 3, 1, 5)
        scores = past.beside(query) @ together.transpose(2, 3)
        if past.mask is not None:
            scores = scores.masked_fill(~past.mask, -torch.inf)
        weights = scores.softmax(-1)
        wanted = (query @ keys.transpose(2, 3)).softmax(-1)
        torch.testing.assert_close(past.own(weights), wanted)
        torch.testing.assert_close(past.apart(weights @ values), wanted @ (keys + 1))
        if step in moves:
            rows = torch.tensor(moves[step])
            past, keys = past.gather(rows), keys[rows]


@torch.no_grad()
def test_reordering_a_beam_moves_nothing() -> None:
    past = KeyValueCache(2).longer()
    past.write(0, torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1, 1))
    wide = past.gather(torch.tensor([0, 0, 1, 1]))
    moved = wide.gather(torch.tensor([1, 1, 3, 2])).longer()
    part, _ = moved.write(0, torch.ones(4, 1, 1, 1), torch.ones(4, 1, 1, 1))
    assert part.data_ptr() == wide._layers[0][0].data_ptr()


TEXTS = [
    "A man walks.", "I'm calm!", "Je t'aime, Marie-Claude  .", "Va\u202f!", "trente-deux mille",
    "Ünïcödé: naïve", "1 2 3", "«Où ?»", "</s> is text", "a_b",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_tokenizers_give_the_text_back(kind: str, tmp_path: object) -> None:
    tokenizer = Tokenizer.train(TEXTS * 3, kind, 300)
    encoded = tokenizer.encode(TEXTS)
    assert [tokenizer.decode(ids) for ids in encoded] == TEXTS
    assert min(id for ids in encoded for id in ids) > len(SPECIALS) - 1
    assert [tokenizer.token(i) for i in range(4)] == SPECIALS
    assert tokenizer.size <= 300


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_the_vocabulary_is_bounded_and_reproducible(kind: str) -> None:
    one, other = (Tokenizer.train(TEXTS * 3, kind, 60) for _ in range(2))
    assert one.size <= 60
    if kind != "unigram":  # the library's unigram trainer prunes ties in any order
        assert one.to_json() == other.to_json()


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram"])
def test_no_token_joins_a_word_to_a_sign(kind: str) -> None:
    tokenizer = Tokenizer.train(["a man walks.", "the man, walking", "man!"] * 9, kind, 60)
    tokens = [tokenizer.token(i) for i in range(len(SPECIALS), tokenizer.size)]
    assert {".", ",", "!"} <= set(tokens)
    assert all(token.strip("▁").isalpha() for token in tokens if len(token.strip("▁")) > 1)


def test_a_bpe_vocabulary_keeps_its_bound_whatever_the_alphabet() -> None:
    assert Tokenizer.train(TEXTS, "bpe", 12).size == 12


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_unknown_signs_are_told(kind: str) -> None:
    tokenizer = Tokenizer.train(["a man walks"], kind, 100)
    (ids,) = tokenizer.encode(["a 漢 man"])
    assert 3 in ids
    assert "⁇" in tokenizer.decode(ids)
    assert tokenizer.decode([1, *ids, 2, 0]) == tokenizer.decode(ids)
    with pytest.raises(ValueError, match="no token has id 999"):
        tokenizer.token(999)


def test_a_tokenizer_survives_its_file(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "tokenizer.json"
    tokenizer = Tokenizer.train(TEXTS, "bpe", 200)
    file.write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.load(file)
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS), "special strings are text here too"
    file.write_text(tokenizer.to_json().replace("<pad>", "<bad>"), encoding="utf-8")
    with pytest.raises(CheckpointError, match="other special tokens"):
        Tokenizer.load(file)
    file.write_text(tokenizer.to_json()[:100], encoding="utf-8")
    with pytest.raises(CheckpointError, match="is not a tokenizer"):
        Tokenizer.load(file)


def test_sequences_pad_on_the_right() -> None:
    sequences = Sequences.of([[5, 6, 2], [7, 2], [8, 9, 9, 2]])
    padded = sequences.pad(torch.tensor([1, 0]))
    assert padded.tolist() == [[7, 2, 0], [5, 6, 2]]
    source, mask = batch_sources([[5], [], [6, 7]])
    assert source.tolist() == [[5, 2, 0], [2, 0, 0], [6, 7, 2]]
    assert mask.sum(1).tolist() == [2, 1, 3]


def corpus(count: int = 500) -> Corpus:
    torch.manual_seed(0)
    lengths = torch.randint(1, 30, (count, 2)).tolist()
    sides = [Sequences.of([[4] * pair[side] + [END] for pair in lengths]) for side in (0, 1)]
    return Corpus(sides[0], sides[1], left_out=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "sentences"), [(200, None), (31, None), (1, None), (9, 7)])
def test_batches_are_bounded_and_complete(tokens: int, sentences: int | None) -> None:
    data = corpus()
    batches = shuffled_batches(data, tokens, sentences, seed=3, epoch=1)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(500))
    for indices in batches:
        batch = data.batch(indices)
        if sentences:
            assert len(indices) <= sentences
        elif len(indices) > 1:
            assert len(indices) * max(batch.source.shape[1], batch.target.shape[1]) <= tokens
    padded = [part for i in batches for part in (data.batch(i).source, data.batch(i).target)]
    share = sum(int((part == 0).sum()) for part in padded) / sum(part.numel() for part in padded)
    assert data.padding(batches) == pytest.approx(share)
    assert data.padding(data.batches(200)) < 0.35


def test_order_depends_on_seed_and_epoch_alone() -> None:
    data = corpus()

    def order(seed: int, epoch: int) -> list[list[int]]:
        torch.rand(3)  # the default generator has no say
        return [b.tolist() for b in shuffled_batches(data, 200, None, seed, epoch)]

    assert order(1, 0) == order(1, 0)
    assert len({str(order(s, e)) for s, e in ((1, 0), (1, 1), (2, 0))}) == 3


def test_pairs_left_out_are_counted() -> None:
    tokenizer = Tokenizer.train(["a b c d e"], "word", 50)
    pairs = [Pair("a b", "a"), Pair("", "a"), Pair("a", "a b c d e"), Pair("a b c", " ")]
    data = Corpus.encode(pairs, tokenizer, tokenizer, LengthLimits(4, 6))
    assert len(data) == 1
    assert (data.left_out.empty, data.left_out.long) == (2, 1)
    assert data.batch(torch.tensor([0])).target[0, 0] == 1
    other = Corpus.encode(pairs[:1], tokenizer, tokenizer, LengthLimits())
    assert other.fingerprint() == data.fingerprint()
    longer = Corpus.encode(pairs, tokenizer, tokenizer, LengthLimits())
    assert longer.fingerprint() != data.fingerprint()
