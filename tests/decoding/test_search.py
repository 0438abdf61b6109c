"""Sampling, prefixes, ensembles, forced decoding, invalid options."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.decoding.reference import (
    ARCHITECTURES,
    Oracle,
    Rules,
    Scripted,
    enumerate_targets,
    reference_beam_search,
    scripted_task,
    small,
    with_oracles,
)
from zoo.decoding.beam import beam_search
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.forced import (
    align,
    aligning,
    forced_attention,
    forced_log_probs,
    most_pairs,
)
from zoo.decoding.options import Search
from zoo.decoding.sampling import sample
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.contract import END

SCRIPT = [[0.0, 0.0, 0.1, 0.0, 0.5, 0.3, 0.1], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]


def drawn(count: int = 2000, **options: Any) -> Counter[tuple[int, ...]]:
    """Return how often each target was drawn for `count` sentences of one script."""
    task = scripted_task(*[SCRIPT] * count)
    search_options = Search(sample=True, allow_empty=True, **options)
    return Counter(h[0].tokens for h in sample(task, search_options))


def assert_shares(shares: dict[tuple[int, ...], float], counts: Counter[tuple[int, ...]]) -> None:
    """Every count is within four standard deviations of its expected value."""
    total = sum(counts.values())
    assert set(counts) <= set(shares)
    for tokens, share in shares.items():
        deviation = math.sqrt(total * share * (1 - share))
        assert abs(counts[tokens] - total * share) <= 4 * deviation + 1e-9


def test_tokens_are_drawn_by_their_probability() -> None:
    assert_shares({(): 0.1, (4,): 0.5, (5,): 0.3, (6,): 0.1}, drawn())


def test_temperature_sharpens_or_flattens() -> None:
    powers = {(): 0.1**2, (4,): 0.5**2, (5,): 0.3**2, (6,): 0.1**2}
    total = sum(powers.values())
    assert_shares({key: power / total for key, power in powers.items()}, drawn(temperature=0.5))


def test_top_k_and_top_p_keep_only_the_most_probable_tokens() -> None:
    assert_shares({(4,): 5 / 8, (5,): 3 / 8}, drawn(top_k=2))
    # 0.5 is less than 0.6, 0.5 + 0.3 is not; the first token alone reaches 0.5.
    assert_shares({(4,): 5 / 8, (5,): 3 / 8}, drawn(top_p=0.6))
    assert_shares({(4,): 1.0}, drawn(top_p=0.5))
    assert drawn(count=50, top_p=1e-9) == {(4,): 50}


def test_samples_depend_on_the_seed_and_the_index_alone() -> None:
    options = Search(sample=True, allow_empty=True, n_best=3)
    samples = sample(scripted_task(*[SCRIPT] * 40), options)
    repeated = sample(scripted_task(*[SCRIPT] * 40), options)
    assert samples == repeated
    assert samples != sample(scripted_task(*[SCRIPT] * 40), replace(options, seed=2))
    whole = scripted_task(*[SCRIPT] * 5)
    indices = [7, 3, 39, 0, 20]
    part = Task(whole.model, whole.memory, whole.mask, indices=indices)
    assert sample(part, options) == [samples[index] for index in indices]
    more = sample(scripted_task(*[SCRIPT] * 40), Search(sample=True, allow_empty=True, n_best=4))
    for three, four in zip(samples, more, strict=True):
        assert not Counter(h.tokens for h in three) - Counter(h.tokens for h in four)


@pytest.mark.parametrize("options", [{}, {"top_k": 1000}], ids=str)
def test_rounding_rarely_changes_what_is_drawn(options: dict[str, Any]) -> None:
    # 500 sentences, of which each draws one of 2,000 tokens of nearly equal probabilities.
    draw = torch.Generator().manual_seed(3)
    exact = torch.rand(2000, generator=draw) + 1
    exact[:4] = 0
    source = torch.arange(4, 504)[:, None]
    tokens = []
    for noise in (0.0, 3e-5):
        script = exact * (1 + noise * torch.randn(500, 1, 2000, generator=draw))
        task = Task(Scripted(script), script, source > 0)
        searched = sample(task, Search(sample=True, max_length=1, **options))
        tokens.append([hypotheses[0].tokens for hypotheses in searched])
    changed = sum(one != other for one, other in zip(*tokens, strict=True))
    assert changed <= 5


def test_the_lowest_temperature_draws_the_best_token() -> None:
    task = small("rnnsearch").task()
    (best,), *_ = search(task, Search(max_length=4))
    for temperature in (1e-3, 5e-324):
        (drawn,), *_ = search(task, Search(sample=True, temperature=temperature, max_length=4))
        assert drawn.tokens == best.tokens


def test_the_score_of_a_sample_does_not_depend_on_the_temperature() -> None:
    task = scripted_task(SCRIPT)
    (samples,) = sample(task, Search(sample=True, allow_empty=True, n_best=20, temperature=3.0))
    for hypothesis in samples:
        first = hypothesis.tokens[0] if hypothesis.tokens else END
        assert hypothesis.score == pytest.approx(math.log(SCRIPT[0][first]), abs=1e-6)
    assert [h.score for h in samples] == sorted((h.score for h in samples), reverse=True)


@pytest.mark.sweep
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "exhaustive"])
def test_every_target_begins_with_its_prefix(architecture: str, kind: str) -> None:
    given, oracles = with_oracles(architecture)
    prefixes = [(), (5,), (6, 6, 4)]
    options = {
        "greedy": Search(max_length=6),
        "beam": Search(beam=4, n_best=4, max_length=6),
        "sample": Search(sample=True, allow_empty=True, n_best=4, max_length=6),
        "exhaustive": Search(exhaustive=True, n_best=4, max_length=5),
    }[kind]
    results = search(given.task(prefixes=prefixes), options)
    for row, (hypotheses, prefix) in enumerate(zip(results, prefixes, strict=True)):
        oracle = oracles[row]
        assert hypotheses
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            tokens = (*hypothesis.tokens, *[END] * hypothesis.finished)
            score = sum(oracle.log_probs(tokens))
            assert hypothesis.score == pytest.approx(score, abs=1e-9)
    if kind == "exhaustive":  # of all targets, those with the prefix, in the same order
        for row, prefix in enumerate(prefixes):
            targets = [t.tokens for t in enumerate_targets(oracles[row], Rules(options, 5))]
            expected = [tokens for tokens in targets if tokens[: len(prefix)] == prefix][:4]
            assert [(*h.tokens, *[END] * h.finished) for h in results[row]] == expected


@pytest.mark.parametrize("other", ARCHITECTURES)
def test_an_ensemble_averages_probabilities(other: str) -> None:
    one, two = small("rnnsearch", 1), small(other, 2)
    ensemble = Ensemble([one.model, two.model])
    with torch.no_grad():
        memory = ensemble.encode([(one.source, one.mask), (two.source, two.mask)])
    options = Search(beam=3, n_best=3, max_length=5)
    results = beam_search(Task(ensemble, memory, one.mask), options)

    class Mean(Oracle):
        def __init__(self, row: int) -> None:
            super().__init__(one, row)
            self.members = (Oracle(one, row), Oracle(two, row))

        def _next(self, prefix: tuple[int, ...]) -> list[float]:
            log_probs = torch.tensor([m.next(prefix) for m in self.members])
            return log_probs.double().exp().mean(0).log().tolist()

    for row, hypotheses in enumerate(results):
        expected = reference_beam_search(Mean(row), Rules(options, 5))
        assert [h.score for h in hypotheses] == pytest.approx([t.score for t in expected], abs=1e-6)
        ends = [(*h.tokens, *[END] * h.finished) for h in hypotheses]
        assert ends == [t.tokens for t in expected]


def test_members_of_an_ensemble_need_equal_target_vocabularies() -> None:
    with pytest.raises(DecodingError, match="7 and 9 entries"):
        Ensemble([small("rnnsearch").model, small("rnnsearch", words=5).model])


def test_an_ensemble_refuses_a_coverage_penalty() -> None:
    one = small("rnnsearch")
    ensemble = Ensemble([one.model, one.model])
    with torch.no_grad():
        memory = ensemble.encode([(one.source, one.mask)] * 2)
    with pytest.raises(DecodingError, match="coverage penalty"):
        search(Task(ensemble, memory, one.mask), Search(beam=2, coverage_penalty=0.1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_forced_log_probs_equal_those_of_the_search(architecture: str) -> None:
    given = small(architecture, words=9)
    results = beam_search(given.task(), Search(beam=3, n_best=1, max_length=9))
    targets = [hypotheses[0].tokens for hypotheses in results]
    for scores, (best,) in zip(
        forced_log_probs(given.model, given.source, given.mask, targets), results, strict=True
    ):
        assert len(scores) == len(best.tokens) + 1
        assert sum(scores[: None if best.finished else -1]) == pytest.approx(best.score, abs=1e-9)


@pytest.mark.parametrize("architecture", sorted({*ARCHITECTURES} - {"seq2seq"}))
def test_alignments_equal_the_attention_maxima_of_steps(architecture: str) -> None:
    given = small(architecture, words=9)
    targets = [(4, 5, 6), (7,), (8, 8, 4, 5)]
    alignments = align(given.model, given.source, given.mask, targets)
    for row, (target, aligned) in enumerate(zip(targets, alignments, strict=True)):
        length = int(given.mask[row].sum())
        memory = given.model.encode(given.source[[row], :length], given.mask[[row], :length]).memory
        state = given.model.init_state(memory)
        expected = []
        for token in (1, *target[:-1]):
            _, state, kinds = given.model.step(torch.tensor([token]), state, memory, True)
            expected.append(int(kinds["cross"].mean((1, 2))[0, 0].argmax()))
        assert aligned == tuple(expected)


def test_attention_of_many_pairs_is_computed_in_pieces_or_refused() -> None:
    given = small("transformer", words=9)
    targets = [(4, 5, 6), (7,), (8, 8, 4, 5)]
    model, source, mask = given.model, given.source, given.mask
    whole, length = align(model, source, mask, targets), source.shape[1]
    tokens = length + 5
    token = most_pairs.set(2 * tokens**2)
    try:
        assert align(model, source, mask, targets) == whole
        with pytest.raises(
            DecodingError, match=f"too large: .* over {math.isqrt(2 * tokens**2 // 3)} t"
        ):
            forced_attention(model, source, mask, targets)
    finally:
        most_pairs.reset(token)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_of_what_is_aligned_ends_where_it_would_be_refused(beam: int) -> None:
    given = small("transformer", words=9)
    model, source, mask = given.model, given.source, given.mask
    options = Search(beam=beam, min_length=6, max_length=8)
    whole = search(given.task(), options)
    with aligning(source.shape[1], 1):  # no limit by default
        assert search(given.task(), options) == whole
    length = source.shape[1]
    token = most_pairs.set((length + 8) ** 2)
    try:
        with aligning(length, 6):
            assert search(given.task(), options) == whole
        most_pairs.set((length + 5) ** 2)
        with aligning(length, 1), pytest.raises(DecodingError, match=r"too large: .* have over"):
            search(given.task(), options)
        assert search(given.task(), options) == whole
        with (
            pytest.raises(DecodingError, match=f"the text has {length} tokens"),
            aligning(length, 6),
        ):
            pass
        align(model, source[:1], mask[:1], [(4,) * 4])
        with pytest.raises(DecodingError, match="too large"):
            align(model, source[:1], mask[:1], [(4,) * 5])
    finally:
        most_pairs.reset(token)


def test_alignment_and_coverage_need_attention() -> None:
    given = small("seq2seq")
    with pytest.raises(DecodingError, match="no attention from target to source"):
        align(given.model, given.source, given.mask, [(4,)] * 3)
    for options in (Search(coverage_penalty=0.5), Search(coverage_penalty=0.5, beam=3)):
        with pytest.raises(DecodingError, match="Leave out the coverage penalty"):
            search(given.task(), options)


def test_the_error_of_a_too_large_exhaustive_search_states_its_size() -> None:
    task = small("rnnsearch", words=100).task()
    with pytest.raises(DecodingError, match=r"100 tokens .* of 5.* make 10,101,010,101 targets"):
        search(task, Search(exhaustive=True, max_length=5))
    with pytest.raises(DecodingError, match=r"about 10\^"):
        search(task, Search(exhaustive=True))
    with pytest.raises(DecodingError, match=r"about 10\^40000 targets"):
        search(task, Search(exhaustive=True, max_length=20_000))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"beam": 0}, "`--beam` must be an integer of at least 1 and at most 10,000, not 0"),
        ({"beam": True}, "`--beam` must be an integer of at least 1 and at most 10,000, not True"),
        ({"beam": 2, "n_best": 3}, "`--n-best 3` needs a beam of at least 3"),
        ({"sample": True, "temperature": -1.0}, "above 0 and at most 1,000,000, not -1"),
        ({"temperature": 0.5}, "`--temperature` needs `--sample`"),
        ({"length_penalty": -1.0}, "`--length-penalty` must be a number of at least 0"),
        ({"length_penalty": math.nan}, "`--length-penalty` must be a number of at least 0"),
        ({"length_penalty": "1"}, "`--length-penalty` must be a number of .* at most 10, not '1'"),
        (
            {"length_penalty": 10.5},
            "`--length-penalty` must be a number of at least 0 and at most 10",
        ),
        (
            {"max_length": 10**20},
            "`--max-length` must be an integer of at least 1 and at most 100,000",
        ),
        ({"coverage_penalty": -0.1}, "`--coverage-penalty` must be a number of at least 0"),
        ({"sample": True, "top_p": 0.0}, "`--top-p` must be a number above 0 and at most 1"),
        ({"sample": True, "top_p": 1.1}, "`--top-p` must be a number above 0 and at most 1"),
        ({"sample": True, "top_k": 0}, "`--top-k` must be an integer"),
        ({"sample": True, "beam": 3}, "`--sample` and `--beam 3` exclude each other"),
        ({"exhaustive": True, "beam": 3}, "`--exhaustive` and `--beam 3` exclude each other"),
        ({"exhaustive": True, "sample": True}, "`--sample` and `--exhaustive` exclude each other"),
        ({"beam": 3, "n_best": 2, "stop": "first"}, "`--n-best 2` needs `--stop safe`"),
        ({"min_length": 5, "max_length": 4}, "`--min-length 5` exceeds `--max-length 4`"),
        ({"stop": "soon"}, "`--stop` must be safe or first, not 'soon'"),
        ({"allow_empty": 1}, "`--allow-empty` must be true or false, not 1"),
        ({"banned": {"x"}}, "`--banned` must be a tuple of token ids and tokens"),
        ({"no_repeat_ngram_size": 0}, "`--no-repeat-ngram-size` must be an integer of at least 1"),
        ({"repetition_penalty": 0.0}, "`--repetition-penalty` must be a number above 0"),
        ({"beam": 0, "n_best": 0}, "`--beam` must be .*; `--n-best` must be "),
        (
            {"beam": "x", "seed": 2, "min_length": 5, "max_length": 4},
            "`--beam` must be .*; `--seed` needs `--sample`; `--min-length 5` exceeds",
        ),
    ],
)
def test_invalid_options_are_all_reported(options: dict[str, Any], error: str) -> None:
    with pytest.raises(DecodingError, match=error):
        Search(**options)
