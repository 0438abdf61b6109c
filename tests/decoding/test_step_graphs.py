"""Steps that are repeated as they were recorded; here a processor repeats them, call by call."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

import zoo
from tests.external_plugins.journey import TOP
from zoo.data.batches import rounded
from zoo.decoding import pipeline, step_graph, step_graphs
from zoo.decoding.encode_graph import EncodeGraph
from zoo.decoding.named import CheckedProcessor
from zoo.decoding.options import Search
from zoo.decoding.processor import LogitsProcessor
from zoo.decoding.search import search
from zoo.decoding.step_graph import StepGraph
from zoo.decoding.step_graphs import encode_recorded
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.tree import plain_tensors
from zoo.registry.registry import default_registry
from zoo.testing.case import Case
from zoo.testing.case import case as make_case
from zoo.translation import source_reader
from zoo_rnnsearch.network import RNNSearch
from zoo_transformer.network import Transformer

FAMILIES = ("transformer", "rnnsearch", "convs2s", "seq2seq")
SEARCHES = {
    "greedy": Search(max_length=40),
    "beam": Search(beam=4, n_best=3, length_penalty=1.0, max_length=40),
    "first": Search(beam=4, stop="first", max_length=12),
    "lengths": Search(beam=3, min_length=36, max_length=39),
    "short": Search(beam=3, min_length=3, n_best=2, max_length=12),
    "processors": Search(beam=3, no_repeat_ngram_size=2, repetition_penalty=1.3, max_length=12),
    "sampling": Search(sample=True, n_best=4, top_k=9, seed=3, max_length=12),
}
NUMBERS = TOP / "cards" / "checkpoints"
TEXTS = ["405", "780099", "7", "1000000", "21", "999999"] * 3


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StepGraph]]:
    """Record steps on the CPU; return the recorded steps that have been repeated.

    As on a GPU, a step overwrites its last logits, and those of the steps that share its memory.
    """
    uses: list[StepGraph] = []
    shared: list[Tensor] = []

    def record(function: Callable[[], None], pool: Any, stream: Any) -> Callable[[], None]:
        function()
        given = inspect.getclosurevars(function).nonlocals
        graph = given["self"]
        if not isinstance(graph, StepGraph):
            return function
        logits = graph._logits.clone()

        def overwriting() -> None:
            uses.append(graph)
            for other in shared:
                other.fill_(torch.nan)
            function()
            if "turns" not in given:
                graph._logits = logits.copy_(graph._logits)

        if "turns" not in given:
            shared.append(logits)
            graph._logits = logits
        return overwriting

    monkeypatch.setattr(step_graphs, "can_record", lambda device: True)
    monkeypatch.setattr(step_graphs, "record", record)
    monkeypatch.setattr(step_graphs, "new_pool", lambda: (0, 1))
    monkeypatch.setattr(step_graphs, "new_stream", lambda device: SimpleNamespace())
    yield uses
    step_graphs._GRAPHS.clear()


@pytest.mark.sweep
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_search_is_the_same(family: str, name: str, repeated: list[StepGraph]) -> None:
    case = make_case(family)
    config: Any = case.model.config
    task = task_of(case.model, case, config.length_limits.target)
    for _ in range(2):
        actual = search(task, SEARCHES[name])
    assert repeated
    with unrecorded():
        expected = search(task, SEARCHES[name])
    for one, other in zip(actual, expected, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_graphs, "can_record", lambda device: False)
        yield


def task_of(model: Any, case: Case, limit: int | None = None) -> Task[Any, Any]:
    with torch.inference_mode():
        return Task(model, model.encode(case.source, case.mask).memory, case.mask, limit)


def tokens_of(task: Task[Any, Any], options: Search) -> list[list[tuple[int, ...]]]:
    return [[h.tokens for h in one] for one in search(task, options)]


def test_equally_good_continuations_are_chosen_as_without_a_recording(
    repeated: list[StepGraph],
) -> None:
    """With weights of zero, every token is as good as every other one."""
    case = make_case("transformer")
    torch.nn.init.zeros_(case.model.target_embedding.weight)  # type: ignore[union-attr,arg-type]
    for name, weight in case.model.named_parameters():
        if name.startswith("output"):
            torch.nn.init.zeros_(weight)
    task = task_of(case.model, case)
    actual = search(task, SEARCHES["beam"])
    assert repeated
    with unrecorded():
        expected = search(task, SEARCHES["beam"])
    for one, other in zip(actual, expected, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_search_has_the_score_of_another(family: str, repeated: list[StepGraph]) -> None:
    """The second step that is recorded, for more positions, is taken once in each search."""
    case = make_case(family)
    config: Any = case.model.config
    length = min(config.length_limits.target or 34, 34) - 1
    options = Search(min_length=length, max_length=length)
    for source in (case.source, case.source.flip(0), case.source):
        mask = source != 0
        task = task_of(case.model, replace(case, source=source, mask=mask))
        actual = [one[0].score for one in search(task, options)]
        with unrecorded():
            expected = [one[0].score for one in search(task, options)]
        assert actual == pytest.approx(expected, abs=1e-5)
    assert repeated


@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [
    {}, {"beam": 4, "n_best": 3}, {"beam": 3, "stop": "first", "length_penalty": 1.0},
    {"beam": 2, "min_length": 7, "max_length": 9, "n_best": 2}, {"beam": 2, "max_length": 4},
], ids=str)  # fmt: skip
def test_a_smaller_batch_goes_on_once_sentences_are_done(
    family: str, options: dict[str, Any], repeated: list[StepGraph]
) -> None:
    translator = zoo.load(NUMBERS / f"{family}-tiny.numbers-en-fr", device="cpu")
    texts = [f"{ten}-{one}" for ten in ("twenty", "thirty") for one in ("one", "two", "six")] * 4
    texts += [f"{text} thousand four hundred and {text}" for text in texts[:6]]
    actual = translator.translate(texts, details=True, **options)
    assert repeated
    if "min_length" not in options and "max_length" not in options:
        assert len({graph.sentences for graph in repeated}) > 1
    with unrecorded():
        expected = translator.translate(texts, details=True, **options)
    for one, other in zip(actual, expected, strict=True):
        assert [t.text for t in one.alternatives] == [t.text for t in other.alternatives]
        assert (one.text, one.finished) == (other.text, other.finished)
        assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_sources_that_come_a_second_time_are_encoded_as_they_were_recorded(
    family: str, repeated: list[StepGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def repeat(self: EncodeGraph, source: Tensor, mask: Tensor) -> Any:
        used.append(len(source))
        return original(self, source, mask)

    original = EncodeGraph.repeat
    monkeypatch.setattr(EncodeGraph, "repeat", repeat)
    case = make_case(family)
    sources = [case.source, case.source[:3], case.source.flip(0)[:4]]
    with torch.inference_mode():
        case.model.encode(case.source, case.mask)  # it may make a table
        for source in sources:
            mask = source != 0
            actual = encode_recorded(case.model, source, mask)
            expected = case.model.encode(source, mask).memory
            for one, other in zip(plain_tensors(actual), plain_tensors(expected), strict=True):
                torch.testing.assert_close(one, other, equal_nan=True)
    assert used == [3, 4], "the first one is not recorded"


@pytest.mark.sweep
@pytest.mark.parametrize("second", [
    {"beam": 4, "n_best": 2}, {"sample": True, "seed": 1}, {"banned": (7,)}, {"beam": 3},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("first", [{}, {"beam": 4}], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_recorded_anew_is_not_at_the_last_position_of_an_earlier_search(
    family: str, first: dict[str, Any], second: dict[str, Any], repeated: list[StepGraph]
) -> None:
    """There it would write beyond its memory."""
    case = make_case(family)
    config: Any = case.model.config
    task = task_of(case.model, case, config.length_limits.target)
    last = min(config.length_limits.target or 33, 33) - 1
    for _ in range(2):
        search(task, Search(min_length=last, max_length=last, **first))
    actual = search(task, Search(max_length=9, **second))
    assert step_graphs._GRAPHS[case.model].failure == ""
    with unrecorded():
        expected = search(task, Search(max_length=9, **second))
    for one, other in zip(actual, expected, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]


def test_no_turn_is_taken_beyond_the_longest_length(repeated: list[StepGraph]) -> None:
    """A table of positions may end there."""
    case = make_case("convs2s")
    config: Any = case.model.config
    positions = config.max_positions
    task = task_of(case.model, case, positions + 1)
    for beam in (1, 3):
        for _ in range(2):
            search(task, Search(beam=beam, min_length=positions, max_length=positions))
    assert step_graphs._GRAPHS[case.model].failure == ""


def test_what_an_earlier_batch_has_left_is_not_taken_for_an_error(
    repeated: list[StepGraph],
) -> None:
    case = make_case("transformer")
    source = torch.cat([case.source, case.source[:3]])
    options = Search(beam=3, max_length=10)
    good = task_of(case.model, replace(case, source=source, mask=source != 0))
    keys = [key.clone() for key in good.memory.keys]
    keys[0][7] = torch.nan
    for _ in range(2):
        search(good, options)
    with pytest.raises(DecodingError, match="not numbers"):
        search(replace(good, memory=good.memory._replace(keys=tuple(keys))), options)
    # With a token that is blank, turns begin after the first step.
    small = replace(task_of(case.model, case), blank=torch.tensor([5]))
    actual = tokens_of(small, options)
    with unrecorded():
        assert actual == tokens_of(small, options)


class Constant(LogitsProcessor):
    """Bans a token; `penalty` ranks sentences, where a subclass has it."""

    def bans(self, position: int, state: tuple[()]) -> tuple[int, ...]:
        return (6,)

    def bans_last(self, position: int, state: tuple[()]) -> int:
        return sys.maxsize


class Ranking(Constant):
    def penalty(self, state: Tensor | tuple[()], sentence: Tensor) -> Tensor:
        return -1.0 - sentence.double()


@pytest.mark.parametrize("kind", [Constant, Ranking])
def test_a_plugins_processor_that_only_bans_tokens_is_part_of_turns(
    kind: type[Constant], repeated: list[StepGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(task: Any, text: str) -> Any:
        shelf = default_registry().processors
        return CheckedProcessor(shelf, "mine", kind(), len(task))

    monkeypatch.setattr(pipeline, "named_processor", named)
    case = make_case("rnnsearch")
    options = Search(beam=3, n_best=2, max_length=12, processors=("mine",))
    for _ in range(2):
        actual = search(task_of(case.model, case), options)
    turns = [turn for graph in repeated for turn in graph._turns]
    assert bool(turns) == (kind is Constant)
    with unrecorded():
        expected = search(task_of(case.model, case), options)
    for one, other in zip(actual, expected, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        scores = [h.rank_score for h in other]
        assert [h.rank_score for h in one] == pytest.approx(scores, abs=1e-9)


def test_an_ensemble_is_recorded(repeated: list[StepGraph]) -> None:
    folders = [NUMBERS / f"{family}-tiny.numbers-en-fr" for family in ("transformer", "rnnsearch")]
    ensemble = zoo.load(*folders, device="cpu")
    actual = ensemble.translate(TEXTS, beam=3)
    assert repeated
    with unrecorded():
        assert actual == ensemble.translate(TEXTS, beam=3)


def test_other_weights_settings_and_hooks_are_not_those_that_were_recorded(
    repeated: list[StepGraph],
) -> None:
    case = make_case("transformer")
    model: Any = case.model
    task = task_of(model, case)
    before = tokens_of(task, SEARCHES["beam"])
    graphs = set(repeated)
    assert tokens_of(task, SEARCHES["beam"]) == before
    assert set(repeated) == graphs
    with torch.no_grad():
        model.target_embedding.weight.mul_(-1)
    repeated.clear()
    changed = tokens_of(task, SEARCHES["beam"])
    assert repeated
    assert graphs.isdisjoint(repeated)
    with unrecorded():
        assert changed == tokens_of(task, SEARCHES["beam"])
    graphs = set(repeated)
    model.decoder[0].cross_norm.eps = 0.5
    repeated.clear()
    tokens_of(task, SEARCHES["beam"])
    assert graphs.isdisjoint(repeated)
    hooks: list[Callable[[], Any]] = [
        lambda: model.decoder[0].register_forward_hook(lambda *given: None),
        lambda: model.decoder[0].register_full_backward_hook(lambda *given: None),
        lambda: model.target_embedding.weight.register_hook(lambda gradient: None),
        lambda: register_module_forward_hook(lambda *given: None),
    ]
    for register in hooks:
        handle = register()
        repeated.clear()
        tokens_of(task, SEARCHES["beam"])
        assert not repeated, "a hook would not be called"
        handle.remove()
    tokens_of(task, SEARCHES["beam"])
    assert repeated


def test_a_table_that_a_network_replaces_is_not_freed(repeated: list[StepGraph]) -> None:
    case = make_case("transformer")
    model: Any = case.model
    model.register_buffer("table", torch.zeros(3), persistent=False)
    tokens_of(task_of(model, case), SEARCHES["greedy"])
    table, positions = weakref.ref(model.table), weakref.ref(model._sinusoids)
    model.table, model._sinusoids = torch.zeros(4), None
    gc.collect()
    assert table() is not None
    assert positions() is not None


def test_a_network_that_failed_is_freed(repeated: list[StepGraph]) -> None:
    case = make_case("transformer")
    model = copy.deepcopy(case.model)
    model.__class__ = ReadsLength  # type: ignore[assignment]  # it has the same weights
    tokens_of(task_of(model, case), SEARCHES["greedy"])
    assert "length" in step_graphs._GRAPHS[model].failure
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_a_search_leaves_no_batch_behind(repeated: list[StepGraph]) -> None:
    case = make_case("transformer")
    task = task_of(case.model, case)
    tokens_of(task, SEARCHES["greedy"])
    memory = weakref.ref(task.memory.keys[0])
    del task
    gc.collect()
    assert memory() is None


def test_few_turns_of_a_step_are_kept(
    repeated: list[StepGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_graph, "MOST_TURNS", 3)
    case = make_case("rnnsearch")
    task = task_of(case.model, case)
    for banned in range(4, 9):
        options = Search(banned=(banned,), min_length=9, max_length=9)
        actual = tokens_of(task, options)
        with unrecorded():
            assert actual == tokens_of(task, options)
    kinds = [turns for graph in repeated for turns in graph._turns.values()]
    assert max(len(turns.recorded) for turns in kinds) == 3


class Swapping(RNNSearch):
    """Two parts of its state change places in each step."""

    recordable = True

    def init_state(self, memory: Any) -> Any:
        state = super().init_state(memory)
        rows = state.hidden[0].shape[0]
        tick = torch.arange(rows)[:, None].double()
        return (state, tick, tick + 100)

    def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
        own, a, b = state
        made: Any = super().step(token, own, memory, attention)
        return made._replace(logits=made.logits + a * 1e-3, state=(made.state, b, a))


def test_a_part_of_the_next_state_may_be_another_part_of_this_one(
    repeated: list[StepGraph],
) -> None:
    case = make_case("rnnsearch")
    case.model.__class__ = Swapping  # type: ignore[assignment]  # it has the same weights
    task = task_of(case.model, case)
    options = Search(beam=2, min_length=8, max_length=8)
    actual = [one[0].score for one in search(task, options)]
    assert repeated
    with unrecorded():
        expected = [one[0].score for one in search(task, options)]
    assert actual == pytest.approx(expected, abs=1e-9)


class Inherited(Transformer):
    """It may do other things in its step, and does not say that it can be recorded."""


class ReadsLength(Transformer):
    """Its step reads the number of positions, which is another one in the next step."""

    recordable = True

    def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
        assert state.length >= 0
        return super().step(token, state, memory, attention)


@pytest.mark.parametrize("kind", [Inherited, ReadsLength])
def test_what_cannot_be_recorded_is_computed_as_usual(
    kind: type[Transformer], repeated: list[StepGraph]
) -> None:
    case = make_case("transformer")
    expected = tokens_of(task_of(case.model, case), SEARCHES["beam"])
    assert repeated
    repeated.clear()
    case.model.__class__ = kind  # type: ignore[assignment]  # it has the same weights
    assert tokens_of(task_of(case.model, case), SEARCHES["beam"]) == expected
    assert not repeated


def test_one_search_at_a_time_uses_the_recorded_steps(repeated: list[StepGraph]) -> None:
    case = make_case("rnnsearch")
    task = task_of(case.model, case)
    inside: list[list[list[tuple[int, ...]]]] = []

    def search_again() -> None:
        if not inside:
            inside.append([])
            inside[0] = tokens_of(replace(task, on_step=None), SEARCHES["greedy"])

    actual = tokens_of(replace(task, on_step=search_again), SEARCHES["greedy"])
    assert inside[0] == actual
    assert repeated
    with unrecorded():
        assert actual == tokens_of(task, SEARCHES["greedy"])


def test_steps_that_are_unused_for_longest_are_dropped(
    repeated: list[StepGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_graphs, "MOST_BYTES", 1)
    case = make_case("transformer")
    task = task_of(case.model, case)
    expected = tokens_of(task, SEARCHES["beam"])
    with unrecorded():
        assert expected == tokens_of(task, SEARCHES["beam"])
    assert len(step_graphs._GRAPHS[case.model]._graphs) == 1


@pytest.mark.parametrize(("length", "limit", "expected"), [
    (1, None, 8), (8, None, 8), (9, None, 16), (9, 12, 12), (12, 10, 12),
])  # fmt: skip
def test_sources_are_padded_to_few_lengths(length: int, limit: int | None, expected: int) -> None:
    source = torch.ones(2, length, dtype=torch.long)
    padded = rounded(source, limit)
    assert padded.shape == (2, expected)
    assert padded.sum() == source.sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_sources_have_the_same_translations(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = zoo.load(NUMBERS / f"{family}-tiny.numbers-en-fr", device="cpu")
    expected = translator.translate(TEXTS, beam=3)
    monkeypatch.setattr(source_reader, "can_record", lambda device: True)
    assert translator.translate(TEXTS, beam=3) == expected
