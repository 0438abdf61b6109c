"""BPE-dropout: its distribution, the unchanged text, and resumed runs."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import zoo
from tests.core.test_training import SMALL, finished, same
from zoo.data.batches import Corpus, Sequences
from zoo.data.bpe_dropout import Segmenter, WordSequences
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConfigError
from zoo.nn.contract import BEGIN, END, UNKNOWN
from zoo.registry.declarations import Pair
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import default_registry
from zoo.training.augmentation import Augmentations
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume
from zoo.training.setup import Setup

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


def encoded(tokenizer: Tokenizer, texts: list[str]) -> Sequences:
    return Sequences.of([[BEGIN, *ids, END] for ids in tokenizer.encode(texts)])


def rows(sequences: Sequences) -> list[list[int]]:
    return [sequences.tokens[a:b].tolist() for a, b in pairwise(sequences.starts)]


def probabilities(segmenter: Segmenter, parts: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    """Return the probability of each segmentation, by enumerating which merges are skipped."""
    ranked = [(segmenter.ranks.get(pair), i) for i, pair in enumerate(pairwise(parts))]
    merges = sorted((rank, i) for rank, i in ranked if rank is not None)
    totals = Counter({parts: segmenter.dropout ** len(merges)})
    for skipped, (_, i) in enumerate(merges):
        applied = segmenter.dropout**skipped * (1 - segmenter.dropout)
        for segmentation, probability in probabilities(
            segmenter, (*parts[:i], parts[i] + parts[i + 1], *parts[i + 2 :])
        ).items():
            totals[segmentation] += applied * probability  # type: ignore[assignment]  # typeshed counts in integers
    return totals  # type: ignore[return-value]


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_segmentations_have_the_probabilities_of_the_paper_s_algorithm(
    tokenizer: Tokenizer, dropout: float
) -> None:
    segmenter, count = Segmenter(tokenizer, dropout), 20_000
    word = tuple(tokenizer.encode(["lower"])[0])
    expected = probabilities(segmenter, tuple("▁lower"))
    assert len(expected) > 5
    assert sum(expected.values()) == pytest.approx(1)
    rng = random.Random(1)
    counts = Counter(
        tuple(tokenizer.token(i) for i in segmenter.segment(word, rng)) for _ in range(count)
    )
    assert counts.keys() <= expected.keys()
    for segmentation, probability in expected.items():
        five_deviations = 5 * (probability * (1 - probability) / count) ** 0.5
        frequency = counts[segmentation] / count
        assert frequency == pytest.approx(probability, abs=five_deviations), segmentation


def test_without_dropout_segmentations_equal_the_tokenizer_s(
    tokenizer: Tokenizer,
) -> None:
    segmenter, rng = Segmenter(tokenizer, 0.0), random.Random(1)
    for row in rows(encoded(tokenizer, TEXTS)):
        words = list(segmenter.words(row))
        assert [i for word in words for i in word] == row
        assert [i for word in words for i in segmenter.segment(word, rng)] == row


def test_without_dropout_segmentations_of_multi30k_equal_the_tokenizer_s(corpora: Path) -> None:
    texts = (corpora / "multi30k" / "train.de").read_text(encoding="utf-8").splitlines()[:3000]
    learned = Tokenizer.train(texts, "bpe", 4000)
    sequences = encoded(learned, texts)
    again = WordSequences(sequences, Segmenter(learned, 0.0), None).segmented(1, 0)
    assert np.array_equal(again.tokens, sequences.tokens)
    assert np.array_equal(again.starts, sequences.starts)


def test_the_text_is_kept_and_its_segmentation_depends_on_the_epoch(tokenizer: Tokenizer) -> None:
    texts = TEXTS * 20
    words = WordSequences(encoded(tokenizer, texts), Segmenter(tokenizer, 0.3), None)
    epochs = [rows(words.segmented(1, epoch)) for epoch in (0, 1, 0)]
    assert epochs[0] == epochs[2] != epochs[1]
    assert epochs[0] != rows(words.segmented(2, 0))
    plain = [tokenizer.decode(ids) for ids in tokenizer.encode(texts)]
    for epoch in epochs:
        assert all(row[0] == BEGIN and row[-1] == END for row in epoch)
        assert [tokenizer.decode(row) for row in epoch] == plain
        # A sentence that occurs twenty times is segmented in several ways.
        assert len({tuple(row) for row in epoch[:: len(TEXTS)]}) > 10


def test_sequences_with_unknown_tokens_are_segmented_token_by_token(tokenizer: Tokenizer) -> None:
    sequences = encoded(tokenizer, ["lower 𝔘 lower"] * 30)
    (usual,) = {tuple(row) for row in rows(sequences)}
    assert UNKNOWN in usual
    for row in rows(WordSequences(sequences, Segmenter(tokenizer, 0.5), None).segmented(1, 0)):
        assert row.count(UNKNOWN) == 1
        assert tokenizer.decode(row) == tokenizer.decode(usual)


def test_sequences_that_would_be_too_long_keep_their_usual_segmentation(
    tokenizer: Tokenizer,
) -> None:
    sequences = encoded(tokenizer, TEXTS * 20)
    limit = len(rows(sequences)[0])
    free = rows(WordSequences(sequences, Segmenter(tokenizer, 0.3), None).segmented(1, 0))
    limited = rows(WordSequences(sequences, Segmenter(tokenizer, 0.3), limit).segmented(1, 0))
    assert max(map(len, free)) > limit
    for usual, one, other in zip(rows(sequences), free, limited, strict=True):
        assert other == (one if len(one) <= limit else usual)


def test_bpe_dropout_applies_to_both_sides_if_the_recipe_has_it(tokenizer: Tokenizer) -> None:
    pairs = [Pair(text, text) for text in TEXTS if text] * 10
    corpus = Corpus.encode(pairs, tokenizer, tokenizer, LengthLimits())

    def augmented(recipe: Recipe) -> Corpus:
        registry = default_registry()
        config = registry.config("rnnsearch-tiny")
        setup = Setup(registry, config, recipe, tokenizer, tokenizer, LengthLimits())
        return Augmentations(setup).corpus(corpus, 0)

    assert augmented(Recipe()) is corpus
    other = augmented(Recipe(bpe_dropout=0.3))
    assert len(other) == len(corpus)
    for side in ("source", "target"):
        before, after = rows(getattr(corpus, side)), rows(getattr(other, side))
        assert before != after
        assert [tokenizer.decode(r) for r in before] == [tokenizer.decode(r) for r in after]


@pytest.mark.parametrize("kind", ["word", "char", "unigram"])
def test_only_bpe_has_merges(kind: str) -> None:
    with pytest.raises(ValueError, match="has no merges"):
        Tokenizer.train(TEXTS, kind, 100).merges()
    with pytest.raises(ConfigError, match=r"bpe_dropout skips BPE merges: set tokenizer = bpe"):
        Recipe(tokenizer=kind, bpe_dropout=0.1)


def test_a_killed_run_with_bpe_dropout_resumes_bit_for_bit(parallel: Path, tmp_path: Path) -> None:
    data, settings = f"{parallel}:en-de", {**SMALL, "tokenizer": "bpe", "bpe_dropout": 0.2}
    zoo.train("rnnsearch-tiny", data, tmp_path / "plain", settings=settings, steps=23)
    with begin(
        TrainingRequest("rnnsearch-tiny", data, tmp_path / "cut", settings=settings, steps=23)
    ) as session:
        first = session.trainer.corpus
        for event in session.trainer.events():
            if event.step >= 16:
                break
        assert session.trainer.state.epoch > 0
        assert rows(first.target) != rows(session.trainer.corpus.target)
    finished(resume(tmp_path / "cut"))
    assert same(tmp_path / "plain", tmp_path / "cut")
