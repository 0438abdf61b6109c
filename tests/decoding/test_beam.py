"""Beam search compared with enumeration and with a reference, and on scripted probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.decoding.reference import (
    ARCHITECTURES,
    WORDS,
    Rules,
    ScoredTarget,
    enumerate_targets,
    reference_beam_search,
    scripted_task,
    small,
    with_oracles,
)
from zoo.decoding.beam import beam_search
from zoo.decoding.greedy import greedy_search
from zoo.decoding.options import Hypothesis, Search, search_options
from zoo.decoding.search import search
from zoo.errors import DecodingError
from zoo.nn.contract import END

MAX_LENGTH = 4
TARGET_COUNT = sum(WORDS**n for n in range(MAX_LENGTH)) + WORDS**MAX_LENGTH
"""The number of targets of at most `MAX_LENGTH` tokens: a beam of this size holds all."""


def assert_same(actual: list[Hypothesis], expected: list[ScoredTarget]) -> None:
    """Both have the same targets in the same order, with scores equal to 1e-9."""
    assert len(actual) == len(expected)
    for hypothesis, target in zip(actual, expected, strict=True):
        finished = target.tokens[-1] == END
        assert hypothesis.tokens == (target.tokens[:-1] if finished else target.tokens)
        assert hypothesis.finished == finished
        assert hypothesis.score == pytest.approx(target.score, abs=1e-9)
        assert hypothesis.rank_score == pytest.approx(target.rank, abs=1e-9)


def has_attention(architecture: str) -> bool:
    given = small(architecture)
    with torch.no_grad():
        return "cross" in given.model(given.source, given.mask, given.source, True)[1]


# Length penalty, coverage penalty, minimum length.
PENALTIES = [(0.0, 0.0, 1), (0.8, 0.0, 1), (2.0, 0.0, 3), (0.0, 0.3, 1), (1.0, 0.7, 2)]


@pytest.mark.sweep
@pytest.mark.parametrize(("length", "coverage", "min_length"), PENALTIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_beam_that_holds_all_targets_is_exhaustive(
    architecture: str, length: float, coverage: float, min_length: int
) -> None:
    if coverage and not has_attention(architecture):
        pytest.skip(f"{architecture} has no attention")
    given, oracles = with_oracles(architecture)
    options = Search(beam=TARGET_COUNT, n_best=6, length_penalty=length, coverage_penalty=coverage,
                     min_length=min_length, max_length=MAX_LENGTH)  # fmt: skip
    for row, hypotheses in enumerate(beam_search(given.task(), options)):
        assert_same(hypotheses, enumerate_targets(oracles[row], Rules(options, MAX_LENGTH))[:6])
    exhaustive = Search(exhaustive=True, n_best=6, length_penalty=length, min_length=min_length,
                           coverage_penalty=coverage, max_length=MAX_LENGTH)  # fmt: skip
    for row, hypotheses in enumerate(search(given.task(), exhaustive)):
        assert_same(hypotheses, enumerate_targets(oracles[row], Rules(options, MAX_LENGTH))[:6])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_narrow_beam_equals_the_reference(architecture: str, beam: int, seed: int) -> None:
    """The reference has no early stopping, so this also shows that the safe stop is safe."""
    given, oracles = with_oracles(architecture, seed, words=9)
    for penalty in (0.0, 1.0):
        options = Search(beam=beam, n_best=beam, length_penalty=penalty, max_length=7)
        results = beam_search(given.task(), options)
        best = beam_search(given.task(), Search(beam=beam, length_penalty=penalty, max_length=7))
        for row, hypotheses in enumerate(results):
            expected = reference_beam_search(oracles[row], Rules(options, 7))
            assert_same(hypotheses, expected)
            assert_same(best[row], expected[:1])  # n-best does not change the best
            assert len({h.tokens for h in hypotheses}) == len(hypotheses)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_beam_in_a_large_vocabulary_equals_the_reference(architecture: str) -> None:
    """Above 256 tokens, the search finds candidates by chunks; the reference has no chunks."""
    given, oracles = with_oracles(architecture, words=300, sharp=8.0)
    for beam in (2, 4):
        options = Search(beam=beam, n_best=beam, length_penalty=0.6, min_length=3, max_length=6)
        for row, hypotheses in enumerate(beam_search(given.task(), options)):
            assert_same(hypotheses, reference_beam_search(oracles[row], Rules(options, 6)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_beam_of_one_is_greedy(architecture: str) -> None:
    for seed in range(4):
        given = small(architecture, seed, words=9)
        options = Search(max_length=12)
        greedy = greedy_search(given.task(), options)
        for one, other in zip(beam_search(given.task(), options), greedy, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert one[0].score == pytest.approx(other[0].score, abs=1e-9)


def test_stopping_at_the_first_finished_hypothesis_may_miss_the_best() -> None:
    # The end token is best at first; only the length penalty makes three more tokens better.
    task = scripted_task(
        [[0.0, 0.0, 0.5, 0.0, 0.4, 0.1], [0.0, 0.0, 0.0, 0.0, 0.99, 0.01],
         [0.0, 0.0, 0.0, 0.0, 0.99, 0.01], [0.0, 0.0, 0.98, 0.0, 0.01, 0.01]]
    )  # fmt: skip
    safe_stop = Search(beam=2, length_penalty=2.0, allow_empty=True)
    (safe,) = beam_search(task, safe_stop)
    (first,) = beam_search(task, replace(safe_stop, stop="first"))
    assert safe[0].tokens == (4, 4, 4)
    assert first[0].tokens == ()
    assert safe[0].rank_score > first[0].rank_score


def test_the_largest_length_penalty_finds_the_longest_hypothesis() -> None:
    """With larger ones, bounds of what long hypotheses reach are beyond float32."""
    (limits,) = (option.limits for option in search_options() if option.name == "length_penalty")
    shorter, longer = 400, 420
    onward, end = [0.0, 0.0, 0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.98, 0.0, 0.01, 0.01]
    rows = [onward] * longer + [end]
    rows[shorter] = [0.0, 0.0, 0.6, 0.0, 0.3, 0.1]
    options = Search(beam=2, length_penalty=limits.at_most, max_length=1000)
    ((best,),) = beam_search(scripted_task(rows), options)
    assert len(best.tokens) == longer


def test_equal_continuations_are_ordered_by_slot_then_by_token() -> None:
    third = 1 / 3
    task = scripted_task([[0.0, 0.0, third, 0.0, third, third], [0.0, 0.0, 0.5, 0.0, 0.25, 0.25]])
    (hypotheses,) = beam_search(task, Search(beam=3, n_best=3, max_length=2, allow_empty=True))
    # The end (id 2) finishes first; 4 and 5 continue; then both end: all three slots are finished.
    assert [h.tokens for h in hypotheses] == [(), (4,), (5,)]
    wide = [[0.0, 0.0, 0.2, 0.0] + [0.8 / 296] * 296, [0.0, 0.0, 1.0, 0.0] + [0.0] * 296]
    (hypotheses,) = beam_search(scripted_task(wide), Search(beam=4, n_best=4, allow_empty=True))
    assert [h.tokens for h in hypotheses] == [(), (4,), (5,), (6,)]


def test_a_finished_hypothesis_keeps_its_slot() -> None:
    task = scripted_task([[0.0, 0.0, 0.3, 0.0, 0.6, 0.1], [0.0, 0.0, 0.1, 0.0, 0.5, 0.4]])
    (hypotheses,) = beam_search(task, Search(beam=2, n_best=2, max_length=3, allow_empty=True))
    # One slot holds the finished hypothesis; the other continues with 4, 4 up to the limit.
    assert [(h.tokens, h.finished) for h in hypotheses] == [((), True), ((4, 4, 4), False)]
    assert hypotheses[0].score == pytest.approx(math.log(0.3))


def test_no_hypothesis_is_finished_at_the_limit() -> None:
    task = scripted_task([[0.0, 0.0, 0.0, 0.0, 0.7, 0.3]])
    (hypotheses,) = beam_search(task, Search(beam=3, n_best=3, max_length=2))
    assert [h.tokens for h in hypotheses] == [(4, 4), (4, 5), (5, 4)]
    assert not any(h.finished for h in hypotheses)


def test_finished_hypotheses_are_ranked_before_unfinished_ones() -> None:
    task = scripted_task([[0.0, 0.0, 0.1, 0.0, 0.9, 0.0]])
    (hypotheses,) = beam_search(task, Search(beam=2, n_best=2, max_length=1, allow_empty=True))
    assert [(h.tokens, h.finished) for h in hypotheses] == [((), True), ((4,), False)]


def test_a_beam_may_be_larger_than_the_number_of_targets() -> None:
    task = scripted_task([[0.0, 0.0, 0.4, 0.0, 0.6]])
    (hypotheses,) = beam_search(task, Search(beam=50, n_best=50, max_length=2, allow_empty=True))
    assert [(h.tokens, h.finished) for h in hypotheses] == [
        ((), True),
        ((4,), True),
        ((4, 4), False),
    ]
    assert all(math.isfinite(h.score) for h in hypotheses)


def test_sentences_that_end_at_different_positions_do_not_mix() -> None:
    """Twenty sentences leave the batch in groups; each has the result of a search of it alone."""
    torch.manual_seed(0)
    scripts = torch.rand(20, 9, 12).softmax(-1)
    scripts[:, :, 2] *= torch.linspace(0.1, 3.0, 20)[:, None]
    scripts /= scripts.sum(-1, keepdim=True)
    options = Search(beam=4, n_best=4, length_penalty=1.0)
    together = beam_search(scripted_task(*scripts.tolist()), options)
    for row, hypotheses in enumerate(together):
        (alone,) = beam_search(scripted_task(scripts[row].tolist()), options)
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hypotheses])


SEARCHES = [
    Search(), Search(beam=2), Search(beam=2, length_penalty=0.6, stop="first"), Search(sample=True),
]  # fmt: skip


@pytest.mark.parametrize("options", SEARCHES)
@pytest.mark.parametrize("second", [False, True])
def test_scores_that_are_not_numbers_end_a_search(options: Search, second: bool) -> None:
    good, bad = [0.0, 0.0, 0.0, 0.0, 0.5, 0.5], [0.0, 0.0, -1.0, 0.0, 0.5, 0.5]
    task = scripted_task([good, bad, good], [good, good, good]) if second else scripted_task([bad])
    with pytest.raises(DecodingError, match="the model's scores are not numbers"):
        search(task, options)
