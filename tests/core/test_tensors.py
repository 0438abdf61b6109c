"""Tokenizers and batches."""

import pytest
import torch

from zoo.data.batches import Corpus, Sequences, batch_sources, shuffled_batches
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.nn.contract import END
from zoo.registry.declarations import Pair
from zoo.registry.parameters import LengthLimits

TEXTS = [
    "A man walks.", "I'm calm!", "Je t'aime, Marie-Claude  .", "Va\u202f!", "trente-deux mille",
    "Ünïcödé: naïve", "1 2 3", "«Où ?»", "</s> is text", "a_b",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_tokenizers_round_trip(kind: str, tmp_path: object) -> None:
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
def test_no_token_joins_a_word_to_punctuation(kind: str) -> None:
    tokenizer = Tokenizer.train(["a man walks.", "the man, walking", "man!"] * 9, kind, 60)
    tokens = [tokenizer.token(i) for i in range(len(SPECIALS), tokenizer.size)]
    assert {".", ",", "!"} <= set(tokens)
    assert all(token.strip("▁").isalpha() for token in tokens if len(token.strip("▁")) > 1)


def test_a_bpe_vocabulary_keeps_its_bound_for_any_alphabet() -> None:
    assert Tokenizer.train(TEXTS, "bpe", 12).size == 12


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_unknown_characters_are_marked(kind: str) -> None:
    tokenizer = Tokenizer.train(["a man walks"], kind, 100)
    (ids,) = tokenizer.encode(["a 漢 man"])
    assert 3 in ids
    assert "⁇" in tokenizer.decode(ids)
    assert tokenizer.decode([1, *ids, 2, 0]) == tokenizer.decode(ids)
    for wrong in (999, -1, 10**12):
        for read in (tokenizer.token, lambda id: tokenizer.decode([5, id])):
            with pytest.raises(ValueError, match=f"no token has id {wrong}"):
                read(wrong)


def test_a_tokenizer_file_round_trips(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "tokenizer.json"
    tokenizer = Tokenizer.train(TEXTS, "bpe", 200)
    file.write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.load(file)
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS), "special strings are ordinary text"
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


def test_order_depends_only_on_seed_and_epoch() -> None:
    data = corpus()

    def order(seed: int, epoch: int) -> list[list[int]]:
        torch.rand(3)  # the default generator has no influence
        return [b.tolist() for b in shuffled_batches(data, 200, None, seed, epoch)]

    assert order(1, 0) == order(1, 0)
    assert len({str(order(s, e)) for s, e in ((1, 0), (1, 1), (2, 0))}) == 3


def test_skipped_pairs_are_counted() -> None:
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
