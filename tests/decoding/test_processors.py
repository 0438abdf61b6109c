"""Every logits processor in every search, compared with rules stated for whole targets."""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.decoding.reference import (
    ARCHITECTURES,
    SEARCHES,
    WORDS,
    Oracle,
    Rules,
    ScoredTarget,
    Small,
    enumerate_targets,
    reference_beam_search,
    scripted_task,
    with_oracles,
)
from tests.shelves import registry_with
from zoo.decoding.beam import beam_search
from zoo.decoding.greedy import greedy_search
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.processor import LogitsProcessor, Rows
from zoo.decoding.processors import FIRST, Prefix
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.nn.contract import END

MAX_LENGTH = 4
TARGET_COUNT = sum(WORDS**n for n in range(MAX_LENGTH)) + WORDS**MAX_LENGTH
"""The number of targets of at most `MAX_LENGTH` tokens: a beam of this size holds all."""


class Case(NamedTuple):
    """Options of a search, blank tokens, and prefixes by sentence."""

    options: dict[str, Any]
    blank: tuple[int, ...] = ()
    prefixes: tuple[tuple[int, ...], ...] = ((), (), ())

    def search(self, **more: Any) -> Search:
        return Search(**{"max_length": MAX_LENGTH, **self.options, **more})

    def task(self, given: Small) -> Task:
        blank = torch.tensor(self.blank, dtype=torch.long)
        return given.task(blank=blank, prefixes=self.prefixes)

    def rules(self, options: Search, row: int) -> Rules:
        assert options.max_length is not None
        longest = max(options.max_length, len(self.prefixes[row]) + 1)
        return Rules(options, longest, self.blank, self.prefixes[row])


CASES = {
    "nothing": Case({"allow_empty": True}),
    "not empty": Case({}),
    "blank": Case({}, (4,)),
    "all but one blank": Case({}, (4, 6)),
    "one token": Case({"max_length": 1}, (5,)),
    "banned word": Case({"banned": (5,)}),
    "banned end": Case({"banned": (END, 6)}),
    "minimum length": Case({"min_length": 3}),
    "no token twice": Case({"no_repeat_ngram_size": 1}),
    "no bigram twice": Case({"no_repeat_ngram_size": 2}),
    "dead ends": Case({"no_repeat_ngram_size": 1, "banned": (END, 4)}),
    "dead ends in blanks": Case({"no_repeat_ngram_size": 1, "banned": (5, 6)}, (4,)),
    "repetition": Case({"repetition_penalty": 1.7}),
    "repetition favored": Case({"repetition_penalty": 0.4}),
    "prefix": Case({}, prefixes=((), (5,), (6, 6, 4))),
    "prefix against rules": Case(
        {"no_repeat_ngram_size": 1, "banned": (6,), "repetition_penalty": 1.3, "min_length": 4},
        (5,),
        ((5,), (6, 6), (5, 5, 5)),
    ),
    "longer prefix": Case({"max_length": 2}, prefixes=((4, 5, 6), (), (4, 4))),
    "coverage": Case({"coverage_penalty": 0.4, "repetition_penalty": 1.2}),
    "coverage and dead ends": Case(
        {"coverage_penalty": 0.3, "no_repeat_ngram_size": 1, "banned": (END,)}
    ),
    "all": Case(
        {"banned": (6,), "no_repeat_ngram_size": 2, "repetition_penalty": 1.4, "min_length": 2,
         "length_penalty": 1.1},
        (4,),
        ((), (5,), (4, 4)),
    ),
}  # fmt: skip


def set_up(
    architecture: str, name: str, words: int = WORDS
) -> tuple[Case, Small, tuple[Oracle, ...]]:
    case = CASES[name]
    given, oracles = with_oracles(architecture, words=words)
    if "coverage_penalty" in case.options:
        with torch.no_grad():
            if "cross" not in given.model(given.source, given.mask, given.source, True)[1]:
                pytest.skip(f"{architecture} has no attention")
    return case, given, oracles


@functools.cache
def enumerated(architecture: str, name: str, row: int) -> list[ScoredTarget]:
    """Return every target that a case permits, best first: the same ones for all searches."""
    case, _, oracles = set_up(architecture, name)
    return enumerate_targets(oracles[row], case.rules(case.search(), row))


def assert_same(hypotheses: list[Hypothesis], expected: list[ScoredTarget]) -> None:
    """Both have the same targets in the same order, scores equal to 1e-9, and no duplicates."""
    targets = [(*h.tokens, *[END] * h.finished) for h in hypotheses]
    assert targets == [target.tokens for target in expected]
    assert len({*targets}) == len(targets)
    for hypothesis, target in zip(hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(target.score, abs=1e-9)
        assert hypothesis.rank_score == pytest.approx(target.rank, abs=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exhaustive_search_and_a_full_beam_equal_the_enumeration(
    architecture: str, name: str
) -> None:
    case, given, _ = set_up(architecture, name)
    for options in (
        case.search(exhaustive=True, n_best=9),
        case.search(beam=TARGET_COUNT, n_best=9),
    ):
        for row, hypotheses in enumerate(search(case.task(given), options)):
            assert_same(hypotheses, enumerated(architecture, name, row)[:9])


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_narrow_beams_and_greedy_search_equal_the_reference(architecture: str, name: str) -> None:
    case, given, oracles = set_up(architecture, name, words=5)
    task = case.task(given)
    for beam in (1, 2, 3):
        options = case.search(beam=beam, n_best=beam)
        expected = [
            reference_beam_search(oracle, case.rules(options, row))[:beam]
            for row, oracle in enumerate(oracles)
        ]
        for row, hypotheses in enumerate(beam_search(task, options)):
            assert_same(hypotheses, expected[row])
            alone = beam_search(task.sentence(row), options)[0]
            assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        if beam == 1:
            for row, hypotheses in enumerate(greedy_search(task, options)):
                assert_same(hypotheses, expected[row])
                assert greedy_search(task.sentence(row), options)[0][0].tokens == (
                    hypotheses[0].tokens
                )


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("words", [9, 300])
def test_longer_targets_and_larger_vocabularies_equal_the_reference(name: str, words: int) -> None:
    """Above 256 tokens, the search finds continuations by chunks; the reference has no chunks."""
    case, given, oracles = set_up("rnnsearch", name, words)
    longest = case.options.get("max_length", 9 if words == 9 else 5)
    options = case.search(beam=4, n_best=4, max_length=longest)
    for row, hypotheses in enumerate(beam_search(case.task(given), options)):
        assert_same(hypotheses, reference_beam_search(oracles[row], case.rules(options, row))[:4])


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_samples_break_no_rule_and_do_not_depend_on_the_batch(architecture: str, name: str) -> None:
    case, given, _ = set_up(architecture, name)
    options = case.search(sample=True, n_best=20)
    for row, hypotheses in enumerate(search(case.task(given), options)):
        possible = {target.tokens: target for target in enumerated(architecture, name, row)}
        for hypothesis in hypotheses:
            target = possible[(*hypothesis.tokens, *[END] * hypothesis.finished)]
            assert hypothesis.score == pytest.approx(target.score, abs=1e-9)
            assert hypothesis.rank_score == pytest.approx(target.rank, abs=1e-9)
        assert sorted(h.order for h in hypotheses) == [h.order for h in hypotheses]
        alone = replace(case.task(given).sentence(row), indices=[row])
        assert [h.tokens for h in search(alone, options)[0]] == [h.tokens for h in hypotheses]


#           pad  beg  end  unk  a    b    c
SCRIPT = [[0.0, 0.0, 0.3, 0.1, 0.3, 0.2, 0.1], [0.0, 0.0, 0.2, 0.0, 0.4, 0.1, 0.3],
          [0.0, 0.0, 0.3, 0.0, 0.2, 0.4, 0.1]]  # fmt: skip


def probabilities(rules: Rules) -> dict[tuple[int, ...], float]:
    """Return each target's sampling probability: processed scores, normalized at every step."""
    shares: dict[tuple[int, ...], float] = {}

    def draw(prefix: tuple[int, ...], share: float) -> None:
        weights = {}
        for token in (END, 4, 5, 6):
            longer = (*prefix, token)
            log_probs = [math.log(SCRIPT[i][t]) for i, t in enumerate(longer)]
            if rules.permit(longer):
                gained = rules.score(longer, log_probs) - rules.score(prefix, log_probs[:-1])
                weights[longer] = math.exp(gained)
        if not weights:
            shares[prefix] = share
        for longer, weight in weights.items():
            reached = share * weight / sum(weights.values())
            if longer[-1] == END or len(longer) == rules.longest:
                shares[longer] = reached
            else:
                draw(longer, reached)

    draw((), 1.0)
    return shares


@pytest.mark.parametrize("name", [name for name in CASES if "coverage" not in name])
def test_samples_follow_the_processed_distribution(name: str) -> None:
    case = CASES[name]
    if any(case.prefixes):
        pytest.skip("scripted sentences have no prefix")
    options = case.search(sample=True, max_length=min(3, case.search().max_length or 3))
    count = 2000
    task = scripted_task(*[SCRIPT] * count, blank=case.blank)
    drawn = Counter((*h[0].tokens, *[END] * h[0].finished) for h in search(task, options))
    expected = probabilities(case.rules(options, 0))
    assert {*drawn} <= {*expected}
    for tokens, share in expected.items():
        deviation = math.sqrt(count * share * (1 - share))
        assert abs(drawn[tokens] - count * share) <= 4.5 * deviation + 1e-6


class Remember(LogitsProcessor[Tensor]):
    """Bans the token that the row read two steps ago; its state is the last two tokens read."""

    def __init__(self, task: Task[Any, Any]) -> None:
        pass

    def init_state(self, sentence: Tensor) -> Tensor:
        return sentence.new_zeros(len(sentence), 2)

    def update(self, state: Tensor | tuple[()], token: Tensor, attention: object) -> Tensor:
        assert isinstance(state, Tensor)
        return torch.stack([state[:, 1], token], 1)

    def bans(self, position: int, state: Tensor | tuple[()]) -> None:
        return None

    def process(self, scores: Tensor, rows: Rows, state: Tensor | tuple[()]) -> Tensor:
        assert isinstance(state, Tensor)
        # Each row's state holds the tokens that this row has written.
        if rows.position > 2:
            assert torch.equal(state, rows.written[:, -2:])
        return scores.scatter(1, state[:, :1], -torch.inf)


@pytest.mark.parametrize("kind", SEARCHES, ids=str)
def test_state_moves_with_the_rows(kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A new processor needs only an entry on the shelf; every search can then use it."""
    code = f"""
from zoo import Processor

@hookimpl
def zoo_logits_processors():
    yield Processor("remember", "a test", "{__name__}:Remember")
"""
    registry = registry_with(monkeypatch, code)
    given, _ = with_oracles("transformer")
    n_best = 1 if not kind else 3
    task = replace(given.task(), registry=registry)
    options = Search(max_length=6, n_best=n_best, processors=("remember",), **kind)
    for hypotheses in search(task, options):
        for h in hypotheses:
            assert all(a != b for a, b in zip(h.tokens, h.tokens[2:], strict=False))


def test_a_processor_changes_nothing_in_place() -> None:
    script = torch.tensor(SCRIPT)
    rows = Rows(torch.tensor([0, 0]), torch.tensor([[4, 4, 5], [5, 6, 5]]), script[:2].log())
    task = scripted_task(SCRIPT, blank=[5])
    options = Search(
        banned=(4,), no_repeat_ngram_size=2, repetition_penalty=2.0, max_length=4, min_length=2
    )
    kinds: list[type[LogitsProcessor[Any]]] = [*FIRST, Prefix]
    for kind in kinds:
        processor = kind.create(task, options)
        if processor is not None:
            state = processor.init_state(rows.sentence)
            before = rows.log_probs.clone()
            processor.process(rows.log_probs, rows, state)
            assert torch.equal(rows.log_probs, before)


def test_states_follow_when_ended_rows_leave_the_batch() -> None:
    scripts = torch.rand(16, 6, 9, generator=torch.Generator().manual_seed(1)).softmax(-1)
    scripts[:, :, 2] *= torch.linspace(0.2, 3.0, 16)[:, None]
    options = Search(no_repeat_ngram_size=2, repetition_penalty=1.5, beam=3, n_best=3, max_length=9)
    for chosen in (options, replace(options, beam=1, n_best=1)):
        together = search(scripted_task(*scripts.tolist(), blank=[4]), chosen)
        for row, hypotheses in enumerate(together):
            (alone,) = search(scripted_task(scripts[row].tolist(), blank=[4]), chosen)
            assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
            assert [h.rank_score for h in alone] == pytest.approx(
                [h.rank_score for h in hypotheses]
            )
