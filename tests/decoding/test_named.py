"""Logits processors, searches and splitters by name: built in, of plugins, broken, recommended."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zoo
from docs.build import hook_parts
from tests.decoding.reference import SEARCHES, scripted_task
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as zoo_command
from tests.shelves import registry_with
from zoo.checkpoint.about import About
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.errors import (
    CheckpointError,
    ConfigError,
    DecodingError,
    PluginError,
    UnknownNameError,
)
from zoo.registry.open_shelf import parse_named
from zoo.registry.registry import Registry
from zoo.testing import SEARCH_LAWS, BrokenLawError, search_case
from zoo.translation.sentences import Piece, Sentencex, make_splitter, split_sentences


def example(hook: str) -> str:
    """Return the code of a hook's documentation, for a module of the visitor."""
    *_, code = hook_parts(hook)
    return re.sub(r"zoo_(early|starts|marks):", "zoo_visitor:", code)


BROKEN = """
import torch
from zoo import Hypothesis, LogitsProcessor, Processor, SearchMethod, Splitter

@hookimpl
def zoo_logits_processors():
    for name in ("Number", "NoTask", "Raises", "Shape", "InPlace", "Silent", "Positive", "Nan",
                 "State", "Bans", "Outside", "Penalty", "Lengths", "Nothing", "NotOne", "NoBans"):
        yield Processor(name, "a test", f"zoo_visitor:{name}")
    yield Processor("elsewhere", "a test", "no_such_module:Name")

@hookimpl
def zoo_searches():
    for name in ("number", "empty", "many", "wrong", "ordered", "raises", "special", "infinite"):
        yield SearchMethod(name, "a test", f"zoo_visitor:{name}")
    yield SearchMethod("elsewhere", "a test", "no_such_module:Name")
    yield SearchMethod("greedy", "another", "zoo_visitor:empty")

@hookimpl
def zoo_splitters():
    for name in ("upper", "wordy", "text", "raises", "number"):
        yield Splitter(name, "a test", f"zoo_visitor:{name}_splitter")
    yield Splitter("elsewhere", "a test", "no_such_module:Name")

Number = 3

class NoTask(LogitsProcessor):
    def __init__(self):
        pass

class Base(LogitsProcessor):
    changes_scores = True
    def __init__(self, task):
        self.task = task
    def bans(self, position, state):
        return None

class Raises(Base):
    def process(self, scores, rows, state):
        raise RuntimeError("no\\nluck")

class Shape(Base):
    def process(self, scores, rows, state):
        return scores[:, :2]

class InPlace(Base):
    def process(self, scores, rows, state):
        scores[:, 4] = -1.0
        return scores

class Silent(Base):
    changes_scores = False
    def process(self, scores, rows, state):
        return scores * 2

class Positive(Base):
    def process(self, scores, rows, state):
        return scores + 9

class Nan(Base):
    def process(self, scores, rows, state):
        return scores * float("nan")

class State(Base):
    def init_state(self, sentence):
        return torch.zeros(1, 3)

class Bans(Base):
    changes_scores = False
    def bans(self, position, state):
        return ["the"]

class Outside(Base):
    changes_scores = False
    def bans(self, position, state):
        return [999]

class NoBans(LogitsProcessor):
    def __init__(self, task):
        pass
    def process(self, scores, rows, state):
        banned = torch.zeros_like(scores, dtype=torch.bool)
        banned[:, 4] = True
        return scores.masked_fill(banned, -torch.inf)

class Penalty(Base):
    def process(self, scores, rows, state):
        return scores
    def penalty(self, state, sentence):
        return torch.ones(len(sentence))

class Lengths(Base):
    def max_lengths(self):
        return torch.zeros(2)

def Nothing(task):
    return None

def NotOne(task):
    return 3

number = 3
def empty(task, search): return []
def many(task, search): return [[Hypothesis((4,), -1.0, True, -1.0)] * 2] * len(task)
def wrong(task, search): return [[(4, 5)]] * len(task)
def special(task, search): return [[Hypothesis((2,), -1.0, True, -1.0)]] * len(task)
def infinite(task, search): return [[Hypothesis((4,), float("-inf"), True, -1.0)]] * len(task)
def ordered(task, search):
    one, other = Hypothesis((4,), -1.0, True, -1.0), Hypothesis((5,), -1.0, True, -0.5)
    return [[one, other]] * len(task)
def raises(task, search): raise LookupError("lost")

def upper_splitter(language): return lambda line: [line.upper()]
def wordy_splitter(language): return lambda line: [3]
def text_splitter(language): return lambda line: line
def raises_splitter(language): raise LookupError("lost")
def number_splitter(language): return 3
"""


CUTTING = """
import torch
from zoo import LogitsProcessor, Processor

@hookimpl
def zoo_logits_processors():
    yield Processor("cut", "a test", "zoo_visitor:Cut")

class Cut(LogitsProcessor):
    changes_scores = True
    def __init__(self, task, length: int):
        self.lengths = torch.full((len(task),), length)
    def max_lengths(self):
        return self.lengths
    def process(self, scores, rows, state):
        scores = scores - 5
        scores[:, 4] += 5
        return scores
"""


@pytest.mark.parametrize("kind", SEARCHES, ids=str)
def test_a_processor_that_cuts_leaves_no_blank_translation(
    kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token 4 is white space, which this processor favors."""
    registry = registry_with(monkeypatch, CUTTING)
    sure = [[0.0, 0.0, 0.1, 0.0, 0.8, 0.1]] * 4
    task = replace(scripted_task(sure, blank=[4]), registry=registry)
    for length in (1, 2, 3):
        ((best, *_),) = search(
            task, Search(max_length=4, processors=(f"cut:length={length}",), **kind)
        )
        assert 5 in best.tokens
        assert len(best.tokens) + best.finished <= length


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return registry_with(monkeypatch, BROKEN)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a", {"name": "a"}),
        ("a:b=3", {"name": "a", "b": 3}),
        ("a-b.c:d=x,e=[1,2],f=", {"name": "a-b.c", "d": "x", "e": [1, 2], "f": ""}),
        ("a:f=a,b,g=c", {"name": "a", "f": "a,b", "g": "c"}),
        ("a:b=true,c=1=2", {"name": "a", "b": True, "c": "1=2"}),
    ],
)
def test_a_name_with_options_is_one_text(text: str, table: dict[str, Any]) -> None:
    assert parse_named(text) == table


@pytest.mark.parametrize("text", ["", "a:", ":b=3", "a:b", "a b", "-a", "a:3=b", "a" * 1001])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME or NAME:option=value"):
        parse_named(text)
    with pytest.raises(DecodingError, match="`--processor` must be NAME or NAME:option=value"):
        Search(processors=(text,))
    with pytest.raises(DecodingError, match="`--search` must be NAME or NAME:option=value"):
        Search(method=text)


@pytest.mark.parametrize(
    ("by_name", "by_field"),
    [
        ("no-repeat-ngrams:size=2", {"no_repeat_ngram_size": 2}),
        ("repetition-penalty:penalty=1.5", {"repetition_penalty": 1.5}),
        ("min-length:length=4", {"min_length": 4}),
        ("banned-tokens:tokens=[4,5]", {"banned": (4, 5)}),
    ],
)
@pytest.mark.parametrize("method", ["greedy", "beam", "sampling", "exhaustive"])
def test_a_built_in_processor_has_a_name_and_a_field(
    by_name: str, by_field: dict[str, Any], method: str
) -> None:
    beam = {"beam": 3, "n_best": 2} if method == "beam" else {}
    case = search_case(method, max_length=4, **beam)
    assert case.run(processors=(by_name,)) == case.run(**by_field)


@pytest.mark.parametrize(
    ("method", "options"),
    [("greedy", {}), ("beam", {"beam": 3}), ("sampling", {"sample": True}),
     ("exhaustive", {"exhaustive": True})],
)  # fmt: skip
def test_a_search_has_a_name_and_its_flags(method: str, options: dict[str, Any]) -> None:
    case = search_case(method, max_length=4, **({"beam": 3} if method == "beam" else {}))
    assert search(case.task, Search(max_length=4, **options)) == case.run()
    assert Search(**options).searching == method


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "beam", "sample": True}, "`--sample` and `--search beam` exclude each other"),
        ({"method": "sampling", "exhaustive": True}, "`--exhaustive` and `--search sampling` exc"),
        ({"method": "greedy", "beam": 3}, "`--search greedy` and `--beam 3` exclude each other"),
        ({"method": "sampling", "beam": 3}, "`--search sampling` and `--beam 3` exclude each oth"),
        ({"method": "greedy", "n_best": 3}, "`--n-best 3` needs a beam of at least 3"),
        ({"method": "beam", "top_k": 3}, "`--top-k` needs `--sample`"),
        ({"method": 3}, "`--search` must be a name, or a tuple of names, not 3"),
        ({"processors": "a"}, "`--processor` must be a name, or a tuple of names, not 'a'"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodingError, match=re.escape(message)):
        Search(**options)
    assert Search(method="of-a-plugin", n_best=3, top_k=4).searching == "of-a-plugin"


@pytest.mark.sweep
@pytest.mark.parametrize("law", SEARCH_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize(
    ("method", "options"),
    [("greedy", {}), ("beam", {"beam": 3, "n_best": 3}), ("sampling", {"n_best": 3}),
     ("exhaustive", {"n_best": 3}), ("starts:starts=4", {"n_best": 3})],
)  # fmt: skip
def test_every_search_keeps_the_laws(
    law: Any, method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the hook's documentation too."""
    law(search_case(method, registry_with(monkeypatch, example("zoo_searches")), **options))


WRONG = {
    "log_prob[parent] + log_probs[parent, token]": ("score", "scores_equal_forced_scores"),
    "score[parent] + best.flatten()": (
        "log_prob[parent] + log_probs[parent, token]", "ranks_follow_the_options limits_hold"),
    "scores = pipeline.process(states, Rows(rows, written, log_probs))": (
        "scores = log_probs",
        "hypotheses_are_complete scores_equal_forced_scores ranks_follow_the_options limits_hold "
        "batches_do_not_matter"),
    "gather(step.state, parent), gather": (
        "gather(step.state, parent * 0), gather",
        "scores_equal_forced_scores ranks_follow_the_options"),
    "(written.shape[1] >= pipeline.max_lengths[rows])": (
        "(written.shape[1] >= 4)", "hypotheses_are_complete limits_hold"),
    "task.sentence(i), options": (
        "task.sentence(0), options",
        "scores_equal_forced_scores ranks_follow_the_options batches_do_not_matter"),
}  # fmt: skip
"""Mistakes in the example, and the laws that each breaks."""


@pytest.mark.parametrize("right", WRONG)
def test_the_laws_catch_a_wrong_search(right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, laws = WRONG[right]
    code = example("zoo_searches")
    assert code.count(right) == 1
    registry = registry_with(monkeypatch, code.replace(right, wrong))
    caught = []
    for law in SEARCH_LAWS:
        with contextlib.suppress(BrokenLawError):
            law(search_case("starts", registry, n_best=3))
            continue
        caught.append(law.name)
    assert caught == laws.split()


def test_a_broken_law_of_searches_is_named_with_its_causes(visitor: Registry) -> None:
    first = SEARCH_LAWS[0]
    with pytest.raises(BrokenLawError, match=f"law {first.name}: .*\nobserved: .*\nusual causes: "):
        first(search_case("special", visitor))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("elsewhere", "no_such_module:Name gave ModuleNotFoundError"),
        ("Number", "it is 3, which cannot be called"),
        ("NoTask", "it is called with (task, option=…), and takes ()"),
        ("NotOne", "it made 3, which is no zoo.LogitsProcessor"),
        ("Raises", "RuntimeError: no luck"),
        ("Shape", "process returned (4, 2), not scores (4, 9)"),
        ("InPlace", "process changed the scores that it was given, in place"),
        ("Silent", "process changed a score: set changes_scores = True"),
        ("Positive", "process returned a score that is not a number or above 0"),
        ("Nan", "process returned a score that is not a number or above 0"),
        ("State", "its state holds a tensor (1, 3) for 4 rows"),
        ("Bans", "bans returned ['the'], not token ids"),
        ("Penalty", "penalty returned a value above 0"),
        ("Lengths", "max_lengths returned tensor([0., 0.]), not one a sentence"),
    ],
)
def test_a_broken_processor_is_reported_in_one_line(
    visitor: Registry, name: str, reason: str
) -> None:
    case = search_case("greedy", visitor)
    with pytest.raises(PluginError) as caught:
        case.run(processors=(name,))
    message = str(caught.value)
    assert message.startswith(f"logits processor {name!r} of visitor (zoo-visitor 1.0) is broken: ")
    assert reason in message
    assert "\n" not in message
    assert case.run(processors=("Nothing",)) == case.run(), "the others still work"


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_processor_needs_no_bans_where_it_overrides_process(
    visitor: Registry, method: str
) -> None:
    case = search_case(method, visitor)
    named, banned, free = (
        [[one.tokens for one in ranked] for ranked in case.run(**options)]
        for options in ({"processors": ("NoBans",)}, {"banned": (4,)}, {})
    )
    assert named == banned
    assert named != free


def test_a_processor_that_bans_what_is_no_token_is_named(visitor: Registry) -> None:
    message = "processor Outside cannot ban token 999: the vocabulary's ids are 0 to 8. Change its"
    with pytest.raises(DecodingError, match=message):
        search_case("greedy", visitor).run(processors=("Outside",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("elsewhere", "no_such_module:Name gave ModuleNotFoundError"),
        ("number", "it is 3, which cannot be called"),
        ("empty", "it returned [] for 4 sentences"),
        ("many", "it returned 2 hypotheses of a sentence, not 1 to n_best"),
        ("wrong", "it returned (4, 5)"),
        ("special", "it returned Hypothesis(tokens=(2,)"),
        ("infinite", "it returned Hypothesis(tokens=(4,)"),
        ("ordered", "its hypotheses are not ordered, best first"),
        ("raises", "LookupError: lost"),
    ],
)
def test_a_broken_search_is_reported_in_one_line(visitor: Registry, name: str, reason: str) -> None:
    with pytest.raises(PluginError) as caught:
        search_case(name, visitor, n_best=2 if name == "ordered" else 1).run()
    message = str(caught.value)
    assert message.startswith(f"search {name!r} of visitor (zoo-visitor 1.0) is broken: ")
    assert reason in message
    assert "\n" not in message
    greedy = search_case("greedy", visitor).run()
    assert greedy == search_case("greedy").run(), "a plugin replaces no built-in search"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("elsewhere", "no_such_module:Name gave ModuleNotFoundError"),
        ("upper", "its sentences ['A B. C'] do not make up the line"),
        ("text", "TypeError: it returned the text 'a b. c', not sentences"),
        ("wordy", "TypeError: sequence item 0: expected str instance, int found"),
        ("raises", "LookupError: lost"),
        ("number", "it made 3, which is no function of a line"),
    ],
)
def test_a_broken_splitter_is_reported_in_one_line(
    visitor: Registry, name: str, reason: str
) -> None:
    with pytest.raises(PluginError) as caught:
        split_sentences("a b. c", make_splitter(name, "en", visitor))
    assert str(caught.value).startswith(f"splitter {name!r} of visitor (zoo-visitor 1.0) is broken")
    assert reason in str(caught.value)


def test_a_splitter_s_sentences_are_pieces_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, example("zoo_splitters"))
    marks = make_splitter("marks:marks=;!", "", registry)
    text = "  One;  two. Three!;\n\nFour ;"
    assert split_sentences(text, marks) == [
        Piece("  ", "One;"), Piece("  ", "two. Three!;"), Piece("\n\n", "Four ;")
    ]  # fmt: skip
    assert split_sentences(text, make_splitter("lines", "en", registry)) == [
        Piece("  ", "One;  two. Three!;"), Piece("\n\n", "Four ;")
    ]  # fmt: skip
    default = make_splitter("sentencex", "eng_Latn", registry)
    assert split_sentences(text, default) == split_sentences(text, Sentencex("en"))
    with pytest.raises(UnknownNameError, match="unknown splitter 'mark': did you mean marks"):
        make_splitter("mark", "", registry)
    with pytest.raises(ConfigError, match="splitter 'marks': unknown key 'mark'"):
        make_splitter("marks:mark=3", "", registry)
    with pytest.raises(ConfigError, match="invalid splitter 'a b'"):
        make_splitter("a b", "", registry)


def translator(registry: Registry | None = None) -> zoo.Translator:
    return zoo.load("seq2seq-tiny.numbers-en-fr", registry=registry)


TEXTS = ["two hundred and five", "seven"]


def test_python_translates_with_the_examples_of_the_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, example("zoo_logits_processors"))
    registry = registry_with(monkeypatch, example("zoo_searches").replace("zoo_visitor", "zoo_two"),
                             "two", registry)  # fmt: skip
    registry = registry_with(monkeypatch, example("zoo_splitters").replace("zoo_visitor", "zoo_3"),
                             "3", registry)  # fmt: skip
    loaded = translator(registry)
    assert all(loaded.translate(TEXTS, method="starts", recommended=False))
    unsure = ["thousand thousand and", "and five hundred and", "five five five", "and and"]
    plain = loaded.translate(unsure, details=True)
    early = loaded.translate(unsure, details=True, processors=("early-end:after=0",))
    before, after = [[one.hypotheses[0].rank_score for one in made] for made in (plain, early)]
    assert sum(before) < sum(after) - 0.01  # the end token is not certain for all of them
    details = loaded.translate("seven; two; nine", splitter="marks:marks=;", details=True)
    assert details.text.count(";") <= 3
    joined = " ".join(loaded.translate(["seven;", "two;", "nine"]))
    assert details.text == joined
    with pytest.raises(UnknownNameError, match="unknown search 'start': did you mean starts"):
        loaded.translate(TEXTS, method="start")
    with pytest.raises(UnknownNameError, match="unknown logits processor 'early'"):
        loaded.translate(TEXTS, processors=("early",))
    with pytest.raises(ConfigError, match="logits processor 'early-end': after = 'x': input"):
        loaded.translate(TEXTS, processors=("early-end:after=x",))


def test_recommended_entries_are_used_and_bounded(tmp_path: Path) -> None:
    about = About(decoding={"processors": ("min-length:length=6",), "method": "beam", "beam": 2})
    assert about.as_json()["decoding"]["processors"] == ("min-length:length=6",)
    again = About.parse(json.loads(json.dumps(about.as_json())))
    assert again == about
    for decoding, message in (
        ({"method": "exhaustive"}, "decoding.method cannot be exhaustive, which is the user's"),
        ({"method": "a:b=100000"}, "decoding.method has an option over 10,000"),
        ({"processors": ["a b"]}, "decoding.processors must be NAME or NAME:option=value"),
        ({"processors": ["a:" + "b" * 100 + "=1"]}, "decoding.processors is too large"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            About.parse({"decoding": decoding})
    loaded = translator()
    loaded.checkpoint = replace(loaded.checkpoint, about=about)
    recommending = zoo.Translator(loaded.checkpoint)
    (first,) = recommending.translate(["seven"], details=True)
    (plain,) = recommending.translate(["seven"], details=True, recommended=False)
    assert len(first.hypotheses[0].tokens) > len(plain.hypotheses[0].tokens)
    greedy = recommending.search_options({"method": "greedy"})
    assert greedy == {"method": "greedy", "processors": ("min-length:length=6",)}
    missing = About(decoding={"processors": ("of-a-plugin",)})
    lacking = zoo.Translator(replace(loaded.checkpoint, about=missing))
    with pytest.raises(DecodingError, match=r"the recommended search is not possible: unknown log"):
        lacking.translate("seven")
    assert lacking.translate("seven", recommended=False)
    with pytest.raises(UnknownNameError, match="unknown search 'gredy': did you mean greedy"):
        lacking.translate("seven", method="gredy", recommended=False)


def test_an_engine_with_a_search_of_its_own_refuses_named_entries() -> None:
    pytest.importorskip("ctranslate2")
    loaded = zoo.load("transformer-tiny.numbers-en-fr", engine="ctranslate2")
    with pytest.raises(DecodingError, match="`--processor`: it has no logits processors of pl"):
        loaded.translate("seven", processors=("min-length:length=6",))


def test_the_command_line_runs_a_package_with_each_entry(tmp_path: Path) -> None:
    """Each is listed, used and gone when the package is not loaded; broken ones block nothing."""
    for name, hook in (("early", "zoo_logits_processors"), ("starts", "zoo_searches"),
                       ("marks", "zoo_splitters")):  # fmt: skip
        put(tmp_path, name, hook_parts(hook)[2])
    put(tmp_path, "visitor", f"from zoo import hookimpl\nZOO_API = 2\n{BROKEN}")
    shown = {row["name"]: row["adds"] for row in
             json.loads(zoo_command(tmp_path, "plugins", "--json").stdout)["plugins"]}  # fmt: skip
    assert shown["early"]["processors"] == ["early-end"]
    assert shown["starts"]["searches"] == ["starts"]
    assert shown["marks"]["splitters"] == ["marks"]
    command = ("translate", "seq2seq-tiny.numbers-en-fr", "two hundred; five")
    used = zoo_command(tmp_path, *command, "--processor", "early-end:after=1", "--search", "starts",
                       "--splitter", "marks:marks=;")  # fmt: skip
    assert used.stdout.strip()
    assert "Warning: search 'greedy' of visitor (zoo-visitor 1.0) is ignored" in used.stderr
    wrong = zoo_command(tmp_path, *command, "--processor", "early-end:afer=1", code=1)
    assert "'early-end': unknown key 'afer' (did you mean after?). See `zoo list " in wrong.stderr
    broken = zoo_command(tmp_path, *command, "--search", "raises", code=1)
    assert broken.stderr.splitlines()[-1].startswith(
        "Error: search 'raises' of visitor (zoo-visitor 1.0) is broken: "
    )
    gone = zoo_command(tmp_path, "--no-plugins", *command, "--search", "starts", code=1)
    assert "unknown search 'starts'" in gone.stderr
