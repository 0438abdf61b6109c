"""Beam search against enumeration, against a slow reference, and on scripted probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.decoding.reference import (
    ARCHITECTURES,
    WORDS,
    Found,
    Oracle,
    Rules,
    everything,
    scripted_task,
    slow_beam,
    small,
)
from zoo.decoding.beam import beam_search
from zoo.decoding.greedy import greedy_search
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.nn.contract import END

MOST = 4
EVERY = sum(WORDS**n for n in range(MOST)) + WORDS**MOST
"""Targets of at most `MOST` tokens: a beam with this many slots has room for all."""


def same(found: list[Hypothesis], wanted: list[Found]) -> None:
    """The same hypotheses in the same order, scores to 1e-9."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.tokens == (other.tokens[:-1] if other.tokens[-1] == END else other.tokens)
        assert one.finished == (other.tokens[-1] == END)
        assert one.score == pytest.approx(other.score, abs=1e-9)
        assert one.rank_score == pytest.approx(other.rank, abs=1e-9)


def has_attention(architecture: str) -> bool:
    given = small(architecture)
    with torch.no_grad():
        return "cross" in given.model(given.source, given.mask, given.source, True)[1]


# Length penalty, coverage penalty, minimum length.
PENALTIES = [(0.0, 0.0, 1), (0.8, 0.0, 1), (2.0, 0.0, 3), (0.0, 0.3, 1), (1.0, 0.7, 2)]


@pytest.mark.parametrize(("length", "coverage", "least"), PENALTIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_beam_with_room_for_all_is_exhaustive(
    architecture: str, length: float, coverage: float, least: int
) -> None:
    if coverage and not has_attention(architecture):
        pytest.skip(f"{architecture} has no attention")
    given = small(architecture)
    options = Search(beam=EVERY, n_best=6, length_penalty=length, coverage_penalty=coverage,
                     min_length=least, max_length=MOST)  # fmt: skip
    found = beam_search(given.task(), options)
    for row, hypotheses in enumerate(found):
        same(hypotheses, everything(Oracle(given, row), Rules(options, MOST))[:6])
    by_exhaustion = Search(exhaustive=True, n_best=6, length_penalty=length, min_length=least,
                           coverage_penalty=coverage, max_length=MOST)  # fmt: skip
    for row, hypotheses in enumerate(search(given.task(), by_exhaustion)):
        same(hypotheses, everything(Oracle(given, row), Rules(options, MOST))[:6])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_narrow_beam_is_the_slow_reference(architecture: str, beam: int, seed: int) -> None:
    """All the hypotheses, and so the best: the safe stop, which the reference has not, is safe."""
    given = small(architecture, seed, words=9)
    for penalty in (0.0, 1.0):
        options = Search(beam=beam, n_best=beam, length_penalty=penalty, max_length=7)
        found = beam_search(given.task(), options)
        first = beam_search(given.task(), Search(beam=beam, length_penalty=penalty, max_length=7))
        for row, hypotheses in enumerate(found):
            wanted = slow_beam(Oracle(given, row), Rules(options, 7))
            same(hypotheses, wanted)
            same(first[row], wanted[:1])  # n-best does not change the best
            assert len({h.tokens for h in hypotheses}) == len(hypotheses)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_large_vocabularies_are_searched_alike(architecture: str) -> None:
    """Over 256 tokens, candidates come by chunks: the reference knows nothing of them."""
    given = small(architecture, words=300, sharp=8.0)
    for beam in (2, 4):
        options = Search(beam=beam, n_best=beam, length_penalty=0.6, min_length=3, max_length=6)
        for row, hypotheses in enumerate(beam_search(given.task(), options)):
            same(hypotheses, slow_beam(Oracle(given, row), Rules(options, 6)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_beam_of_one_is_greedy(architecture: str) -> None:
    for seed in range(4):
        given = small(architecture, seed, words=9)
        options = Search(max_length=12)
        greedy = greedy_search(given.task(), options)
        for one, other in zip(beam_search(given.task(), options), greedy, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert one[0].score == pytest.approx(other[0].score, abs=1e-9)


def test_the_first_stop_ends_sooner_and_may_miss_the_best() -> None:
    # The end comes first; going on is better only by the length penalty of three tokens more.
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


def test_equal_continuations_come_by_slot_then_by_token() -> None:
    third = 1 / 3
    task = scripted_task([[0.0, 0.0, third, 0.0, third, third], [0.0, 0.0, 0.5, 0.0, 0.25, 0.25]])
    (found,) = beam_search(task, Search(beam=3, n_best=3, max_length=2, allow_empty=True))
    # The end (id 2) goes first; 4 and 5 go on; then 4's end, 5's end: three slots, all finished.
    assert [h.tokens for h in found] == [(), (4,), (5,)]
    wide = [[0.0, 0.0, 0.2, 0.0] + [0.8 / 296] * 296, [0.0, 0.0, 1.0, 0.0] + [0.0] * 296]
    (found,) = beam_search(scripted_task(wide), Search(beam=4, n_best=4, allow_empty=True))
    assert [h.tokens for h in found] == [(), (4,), (5,), (6,)]


def test_an_end_in_the_beam_keeps_its_slot() -> None:
    task = scripted_task([[0.0, 0.0, 0.3, 0.0, 0.6, 0.1], [0.0, 0.0, 0.1, 0.0, 0.5, 0.4]])
    (found,) = beam_search(task, Search(beam=2, n_best=2, max_length=3, allow_empty=True))
    # One slot is the end's; the other goes on alone: 4, 4, and is cut.
    assert [(h.tokens, h.finished) for h in found] == [((), True), ((4, 4, 4), False)]
    assert found[0].score == pytest.approx(math.log(0.3))


def test_nothing_finished_at_the_limit() -> None:
    task = scripted_task([[0.0, 0.0, 0.0, 0.0, 0.7, 0.3]])
    (found,) = beam_search(task, Search(beam=3, n_best=3, max_length=2))
    assert [h.tokens for h in found] == [(4, 4), (4, 5), (5, 4)]
    assert not any(h.finished for h in found)


def test_the_finished_go_before_the_cut() -> None:
    task = scripted_task([[0.0, 0.0, 0.1, 0.0, 0.9, 0.0]])
    (found,) = beam_search(task, Search(beam=2, n_best=2, max_length=1, allow_empty=True))
    assert [(h.tokens, h.finished) for h in found] == [((), True), ((4,), False)]


def test_fewer_targets_than_the_beam() -> None:
    task = scripted_task([[0.0, 0.0, 0.4, 0.0, 0.6]])
    (found,) = beam_search(task, Search(beam=50, n_best=50, max_length=2, allow_empty=True))
    assert [(h.tokens, h.finished) for h in found] == [
        ((), True),
        ((4,), True),
        ((4, 4), False),
    ]
    assert all(math.isfinite(h.score) for h in found)


def test_sentences_that_end_at_different_places_do_not_mix() -> None:
    """Twenty sentences leave the batch in groups; each finds what it finds alone."""
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
