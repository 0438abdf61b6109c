"""BPE-dropout: its distribution, the text it keeps, and runs that it does not make different."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import zoo
from tests.core.test_training import SMALL, finished, same
from zoo.data.batches import Corpus, Sequences
from zoo.data.bpe_dropout import Cutter, Words, bpe_dropout
from zoo.data.tokenizer import Tokenizer
from zoo.nn.contract import BEGIN, END, UNKNOWN
from zoo.registry.declarations import Pair
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.training import prepare

TEXTS = [
    "the newest one, the widest one: lower and lower",
    "a well-known dog's low-lying  widow (new!) slows down 2nd",
    " newer « wider » lows … don't-ask-me '99 --x",
    "Straßenbahn, Straße; Bahnstraße. Bahn_hof",
    "",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, "bpe", 110)


def laid_out(tokenizer: Tokenizer, texts: list[str]) -> Sequences:
    return Sequences.of([[BEGIN, *ids, END] for ids in tokenizer.encode(texts)])


def rows(sequences: Sequences) -> list[list[int]]:
    return [sequences.tokens[a:b].tolist() for a, b in pairwise(sequences.starts)]


def chances(cutter: Cutter, parts: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    """Return how likely each way to cut is, by going through all that may be left out."""
    ranked = [(cutter.ranks.get(pair), i) for i, pair in enumerate(pairwise(parts))]
    merges = sorted((rank, i) for rank, i in ranked if rank is not None)
    found = Counter({parts: cutter.chance ** len(merges)})
    for left_out, (_, i) in enumerate(merges):
        likely = cutter.chance**left_out * (1 - cutter.chance)
        for cut, chance in chances(
            cutter, (*parts[:i], parts[i] + parts[i + 1], *parts[i + 2 :])
        ).items():
            found[cut] += likely * chance  # type: ignore[assignment]  # typeshed counts in integers
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_ways_to_cut_are_as_likely_as_the_paper_s_algorithm_has_them(
    tokenizer: Tokenizer, chance: float
) -> None:
    cutter, count = Cutter(tokenizer, chance), 20_000
    word = tuple(tokenizer.encode(["lower"])[0])
    wanted = chances(cutter, tuple("▁lower"))
    assert len(wanted) > 5
    assert sum(wanted.values()) == pytest.approx(1)
    chooser = random.Random(1)
    found = Counter(
        tuple(tokenizer.token(i) for i in cutter.cut(word, chooser)) for _ in range(count)
    )
    assert found.keys() <= wanted.keys()
    for cut, likely in wanted.items():
        five_deviations = 5 * (likely * (1 - likely) / count) ** 0.5
        assert found[cut] / count == pytest.approx(likely, abs=five_deviations), cut


def test_with_nothing_left_out_words_are_cut_as_the_tokenizer_cuts_them(
    tokenizer: Tokenizer,
) -> None:
    cutter, chooser = Cutter(tokenizer, 0.0), random.Random(1)
    for row in rows(laid_out(tokenizer, TEXTS)):
        words = list(cutter.words(row))
        assert [i for word in words for i in word] == row
        assert [i for word in words for i in cutter.cut(word, chooser)] == row


def test_on_multi30k_too_words_are_the_tokenizer_s(corpora: Path) -> None:
    texts = (corpora / "multi30k" / "train.de").read_text(encoding="utf-8").splitlines()[:3000]
    learned = Tokenizer.train(texts, "bpe", 4000)
    sequences = laid_out(learned, texts)
    again = Words(sequences, Cutter(learned, 0.0), None).recut(1, 0)
    assert np.array_equal(again.tokens, sequences.tokens)
    assert np.array_equal(again.starts, sequences.starts)


def test_the_text_stays_and_its_cut_is_the_epoch_s(tokenizer: Tokenizer) -> None:
    texts = TEXTS * 20
    words = Words(laid_out(tokenizer, texts), Cutter(tokenizer, 0.3), None)
    epochs = [rows(words.recut(1, epoch)) for epoch in (0, 1, 0)]
    assert epochs[0] == epochs[2] != epochs[1]
    assert epochs[0] != rows(words.recut(2, 0))
    plain = [tokenizer.decode(ids) for ids in tokenizer.encode(texts)]
    for epoch in epochs:
        assert all(row[0] == BEGIN and row[-1] == END for row in epoch)
        assert [tokenizer.decode(row) for row in epoch] == plain
        # A sentence that is there twenty times is cut in more than one way.
        assert len({tuple(row) for row in epoch[:: len(TEXTS)]}) > 10


def test_about_unknown_tokens_each_token_is_cut_by_itself(tokenizer: Tokenizer) -> None:
    sequences = laid_out(tokenizer, ["lower 𝔘 lower"] * 30)
    (usual,) = {tuple(row) for row in rows(sequences)}
    assert UNKNOWN in usual
    for row in rows(Words(sequences, Cutter(tokenizer, 0.5), None).recut(1, 0)):
        assert row.count(UNKNOWN) == 1
        assert tokenizer.decode(row) == tokenizer.decode(usual)


def test_what_would_be_too_long_is_cut_as_ever(tokenizer: Tokenizer) -> None:
    sequences = laid_out(tokenizer, TEXTS * 20)
    limit = len(rows(sequences)[0])
    free = rows(Words(sequences, Cutter(tokenizer, 0.3), None).recut(1, 0))
    held = rows(Words(sequences, Cutter(tokenizer, 0.3), limit).recut(1, 0))
    assert max(map(len, free)) > limit
    for usual, one, other in zip(rows(sequences), free, held, strict=True):
        assert other == (one if len(one) <= limit else usual)


def test_both_sides_are_cut_and_only_if_asked(tokenizer: Tokenizer) -> None:
    pairs = [Pair(text, text) for text in TEXTS if text] * 10
    corpus = Corpus.encode(pairs, tokenizer, tokenizer, LengthLimits())
    both = tokenizer, tokenizer
    assert bpe_dropout(Recipe(), corpus, both, LengthLimits()) is None
    recut = bpe_dropout(Recipe(bpe_dropout=0.3), corpus, both, LengthLimits())
    assert recut is not None
    other = recut(0)
    assert len(other) == len(corpus)
    for side in ("source", "target"):
        before, after = rows(getattr(corpus, side)), rows(getattr(other, side))
        assert before != after
        assert [tokenizer.decode(r) for r in before] == [tokenizer.decode(r) for r in after]


@pytest.mark.parametrize("kind", ["word", "char", "unigram"])
def test_only_bpe_has_merges(kind: str) -> None:
    with pytest.raises(ValueError, match="has no merges"):
        Tokenizer.train(TEXTS, kind, 100).merges()
    with pytest.raises(ValueError, match=r"bpe_dropout leaves out merges: set tokenizer = bpe"):
        Recipe(tokenizer=kind, bpe_dropout=0.1)  # type: ignore[arg-type]


def test_a_run_cut_off_anywhere_is_the_same_run(parallel: Path, tmp_path: Path) -> None:
    data, settings = f"{parallel}:en-de", {**SMALL, "tokenizer": "bpe", "bpe_dropout": 0.2}
    zoo.train("rnnsearch-tiny", data, tmp_path / "plain", settings=settings, steps=23)
    with prepare("rnnsearch-tiny", data, tmp_path / "cut", settings=settings, steps=23) as ready:
        first = ready.trainer.corpus
        for event in ready.trainer.events():
            if event.step >= 16:
                break
        assert ready.trainer.progress.epoch > 0
        assert rows(first.target) != rows(ready.trainer.corpus.target)
    finished(prepare(None, None, tmp_path / "cut", resume=True))
    assert same(tmp_path / "plain", tmp_path / "cut")
