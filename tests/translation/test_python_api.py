"""The methods of a translator: names, checks, what they return, and other processes."""

import copy
import inspect
import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from click.testing import Result

import zoo
from zoo.decoding.options import search_options
from zoo.errors import DataError, DecodingError, UnknownNameError
from zoo.evaluation.metrics import Scores
from zoo.registry.builtin import top
from zoo.translation.options import DEFAULTS, Options, SearchOptions

NUMBERS = top() / "cards" / "checkpoints" / "rnnsearch-tiny.numbers-en-fr"
SHARED = top() / "cards" / "checkpoints" / "transformer-tiny.multi30k-en-de"
TEXT = "four hundred and five"


@pytest.fixture(scope="module")
def translator() -> zoo.Translator:
    return zoo.load(NUMBERS)


def test_the_options_are_the_fields_of_the_search_and_those_of_a_stream() -> None:
    fields = {option.name for option in search_options()}
    assert set(SearchOptions.__annotations__) == fields | {"recommended"}
    assert set(get_type_hints(Options)) == set(DEFAULTS)
    for option in search_options():
        expected = get_type_hints(zoo.Search)[option.name]
        assert get_type_hints(SearchOptions)[option.name] == expected


@pytest.mark.parametrize("name", ["translate", "stream"])
def test_signatures_list_every_option(name: str) -> None:
    parameters = inspect.signature(getattr(zoo.Translator, name)).parameters
    assert set(DEFAULTS) < set(parameters)
    assert parameters["beam"].default == 1
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_a_wrong_name_is_answered_with_a_near_one(translator: zoo.Translator) -> None:
    wrong: dict[str, Any] = {"beams": 3}
    calls = (
        lambda: translator.translate(TEXT, **wrong),
        lambda: translator.stream([TEXT], **wrong),
        lambda: translator.attention(TEXT, **wrong),
        lambda: zoo.Search(**wrong),
    )
    for call in calls:
        with pytest.raises(UnknownNameError, match="did you mean beam"):
            call()
    with pytest.raises(UnknownNameError, match="did you mean details"):
        translator.translate(TEXT, detail=True)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "what stands for texts is not a text: it is 'None'. Leave missing values out"),
        (3, "what stands for texts is not a text: it is '3'"),
        (b"a", "Decode bytes first"),
        (["one", None], "text 2 is not a text: it is 'None'"),
        (["one", float("nan")], "text 2 is not a text: it is 'nan'. Leave missing values out"),
        (["one", b"a"], "Decode bytes first"),
        (np.array("one"), "it is 'one'. A text is a string"),
        (np.array([["one", "two"]]), "text 1 is not a text"),
        ("\udcff", "it has half of a surrogate pair"),
        (["one", "twenty\0two"], "text 2 is not a text: it has a NUL character"),
    ],
)
def test_what_is_no_text_is_refused(translator: zoo.Translator, texts: Any, message: str) -> None:
    with pytest.raises(DecodingError, match=message.replace(".", r"\.")):
        translator.translate(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "x"}, "window is 'x', not a whole number from 1 on"),
        ({"window": 0}, "window is 0"),
        ({"max_source_length": -5, "first": -1}, "max_source_length is -5.*first is -1"),
        ({"long_texts": "maybe"}, "long_texts is 'maybe', not refuse or split"),
        ({"source_prefix": 3}, "source_prefix is 3, not a text"),
        ({"split": "no", "alignment": 1}, "alignment is 1, not True or False; split is 'no', not"),
        ({"recommended": None, "details": "x"}, "details is 'x', not True or False"),
        ({"splitter": 5, "on_batch": 5}, "splitter is 5, not a text; on_batch is 5, not a funct"),
        ({"max_source_length": None, "window": True}, "window is True.*_length is None, not a who"),
        ({"split": False, "splitter": "lines"}, "`--splitter lines` and `--no-split` exclude"),
        ({"length_penalty": 1.0}, "change nothing: `--length-penalty 1.0` needs a beam of at"),
        ({"prefix": "\udcff"}, "prefix is .*, not a text"),
        ({"n_best": 2, "beam": 2}, "n_best is 2, and one text is returned for each. Add details"),
        ({"n_best": 0}, "`--n-best` must be"),
        ({"source_lang": 5}, "source_lang is 5, not a text"),
    ],
)
def test_options_of_other_kinds_are_refused(
    translator: zoo.Translator, options: Any, message: str
) -> None:
    with pytest.raises(DecodingError, match=message):
        translator.translate("one", **options)


def test_a_translator_between_languages_refuses_other_kinds(translator: zoo.Translator) -> None:
    with pytest.raises(DecodingError, match="source_lang is 5, not a text"):
        translator.for_languages(5)  # type: ignore[arg-type]  # wrong
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.translation.translator.TextSearch", None)  # nothing is loaded again
        chosen = translator.for_languages("English", "fra")
    assert chosen.translate(TEXT) == translator.translate(TEXT)


def test_scores_of_texts_and_of_lists(translator: zoo.Translator) -> None:
    target = translator.translate(TEXT)
    scores = translator.score(TEXT, target)
    assert translator.score([TEXT, "one"], [target, "un"]) == [
        pytest.approx(scores, abs=1e-5), pytest.approx(translator.score("one", "un"), abs=1e-5)
    ]  # fmt: skip
    assert sum(scores) == pytest.approx(translator.translate(TEXT, details=True).score, abs=1e-4)
    assert translator.score([], []) == []
    with pytest.raises(DecodingError, match="2 sources and 1 targets"):
        translator.score(["one", "two"], ["un"])
    for pair in (("one", ["un"]), (["one"], "un"), (None, "un"), (["one"], [None])):
        with pytest.raises(DecodingError):
            translator.score(*pair)
    with pytest.raises(DecodingError, match=r"target is not a text: it is .*'un', 'deux'"):
        translator.score("one", ["un", "deux"])
    with pytest.raises(DecodingError, match=r"target is not a text: it is '5'"):
        translator.score("one", 5)  # type: ignore[call-overload]


@pytest.mark.parametrize("ids", [[5], ["ab"], "abc", None, [[5.0]], [["5"]], torch.ones(1, 1)])
def test_ids_to_score_are_lists_of_integers(translator: zoo.Translator, ids: Any) -> None:
    with pytest.raises(DecodingError, match=r"sources have no ids to score.*See `source_ids`"):
        translator.score_ids(ids, [[6]])
    with pytest.raises(DecodingError, match="targets have no ids to score"):
        translator.score_ids([[5]], ids)


def test_ids_to_score_may_be_arrays(translator: zoo.Translator) -> None:
    expected = translator.score_ids([[5, 6]], [[7]])
    make: Any
    for make in (np.array, torch.tensor):
        assert translator.score_ids(make([[5, 6]]), make([[7]])) == expected


def test_attention_has_panels_of_known_layers_alone(translator: zoo.Translator) -> None:
    attention = translator.attention(TEXT)
    assert len(attention.panels("cross", np.int64(1))) == 1  # type: ignore[arg-type]  # works too
    for layer in (0, 9, "1", None):
        with pytest.raises(DecodingError, match=f"no layer {layer!r}"):
            attention.panels("cross", layer)  # type: ignore[arg-type]  # wrong


def test_what_a_callback_raises_is_no_end_of_the_texts(translator: zoo.Translator) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        translator.translate([TEXT, "one"], on_step=lambda: next(iter(())))


def test_attention_is_that_of_the_translation(translator: zoo.Translator) -> None:
    attention = translator.attention(TEXT)
    given = translator.attention(TEXT, translator.translate(TEXT))
    assert attention.target == given.target
    assert set(attention.weights) == set(given.weights) == {"cross"}
    assert attention.weights["cross"].equal(given.weights["cross"])
    assert (attention.text, attention.parts) == (translator.translate(TEXT), 1)
    with pytest.raises(DecodingError, match="recommended cannot apply"):
        translator.attention(TEXT, "un", recommended=False)
    with pytest.raises(DecodingError, match="an ensemble has no attention"):
        zoo.load(NUMBERS, NUMBERS).attention(TEXT)


def test_the_parts_of_a_text_are_those_that_are_translated(translator: zoo.Translator) -> None:
    text = " one\n\ntwo hundred and six "
    parts = translator.parts(text)
    assert parts == ["one", "two hundred and six"]
    assert translator.attention(text).parts == 2
    made = translator.translate(text, details=True)
    rows = translator.score_ids(made.source_ids, [one.tokens for one in made.hypotheses])
    for row, wanted in zip(rows, translator.score(parts, made.text.split("\n\n")), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)
    assert translator.parts("") == []
    with pytest.raises(DecodingError, match="2 sources and 1 targets"):
        translator.score_ids([[5], [5]], [[5]])
    for sources, targets in (([[5, 10_000]], [[5]]), ([[5]], [[-1]])):
        with pytest.raises(DecodingError, match="there is no token"):
            translator.score_ids(sources, targets)
    for sources, targets in (([[5] * 1024], [[5]]), ([[5]], [[5] * 1023])):
        with pytest.raises(DecodingError, match="1 is too long"):
            translator.score_ids(sources, targets)
    assert len(translator.score_ids([[5] * 1023], [[5] * 1022])[0]) == 1023
    with pytest.raises(DecodingError, match="an ensemble cannot score"):
        zoo.load(NUMBERS, NUMBERS).score_ids([[5]], [[5]])


def test_what_is_shown_of_a_translator(translator: zoo.Translator) -> None:
    assert repr(translator).startswith("<Translator ")
    for part in ("rnnsearch-tiny.numbers-en-fr", "en→fr", "cpu", "float32"):
        assert part in repr(translator)
    assert "--beam 5 --length-penalty 1.5" in repr(zoo.load(SHARED))
    assert str(translator.device) == "cpu"
    assert zoo.load(NUMBERS, device=torch.device("cpu")).device == translator.device


def test_one_language_is_known_by_the_names_that_tags_of_several_are(
    translator: zoo.Translator,
) -> None:
    plain = translator.translate("twenty-one")
    for source, target in (("en-US", "fr_FR"), ("eng_Latn", "fra"), ("Anglais", "Französisch")):
        known = translator.translate("twenty-one", source_lang=source, target_lang=target)
        assert known == plain
    with pytest.raises(DecodingError, match=r"no language 'de-AT' can be chosen: .* reads en"):
        translator.translate("twenty-one", source_lang="de-AT")


def test_evaluate_scores_as_the_command_does(
    translator: zoo.Translator, run: Callable[..., Result], tmp_path: Path
) -> None:
    short = tmp_path / "short.tsv"
    short.write_text("one\tun\n")
    printed = json.loads(
        run("eval", NUMBERS, "--data", "numbers-en-fr", "--limit", "8", "--json").stdout
    )
    scores = translator.evaluate("numbers-en-fr", limit=8).by_name
    assert {name: score.value for name, score in scores.items()} == {
        name: printed[name] for name in scores
    }
    with pytest.raises(DataError, match=r"validation, is empty\. Name another"):
        translator.evaluate(str(short), "validation")
    assert translator.evaluate(str(short), "all", limit=10**30).sentences == 1
    exact = translator.evaluate([("one", translator.translate("one")), ("two", "x")])
    assert exact.by_name["exact_match"].value == 50
    wrong: tuple[Any, ...] = (5, [("one", 5)], ["ab"], np.array("a"))
    for data in wrong:
        with pytest.raises(DataError, match=r"pair|has no target"):
            translator.evaluate(data)
    for limit in (0, True, "x"):
        with pytest.raises(DataError, match="not a whole number from 1 on"):
            translator.evaluate("numbers-en-fr", limit=limit)  # type: ignore[arg-type]  # wrong
    with pytest.raises(DataError, match="split 'test' is of a dataset"):
        translator.evaluate([("one", "un")], "test")


def test_evaluate_says_what_makes_its_scores_misleading(translator: zoo.Translator) -> None:
    """A library prints nothing, but `problems` has what `zoo eval` warns of."""
    plain = translator.evaluate([{"source": "one", "target": translator.translate("one")}])
    assert plain.problems == (
        "BLEU is 0, as no translation has four words. Compare chrF or --bleu-order 1",
    )
    empty, parts, *_ = translator.evaluate([("one", "e\u0301"), ("two", " ")]).problems
    assert empty.startswith("1 pair of 2 has an empty source or reference, and counts in ")
    assert parts.startswith("1 of 2 reference has letters in parts")
    with pytest.raises(UnknownNameError, match="unknown score 'bleu': none is known"):
        Scores({}, 1).bleu  # noqa: B018


def test_attention_is_compared_by_identity(translator: zoo.Translator) -> None:
    """Its tensors have no one truth value."""
    one = translator.attention("one")
    assert one == one
    assert {one} != {translator.attention("one")}


def test_notebooks_show_tables_with_escaped_text(translator: zoo.Translator) -> None:
    hostile = "one <script>alert('x')</script> & two"
    details = translator.translate(hostile, details=True, beam=2, n_best=2)
    for shown in (
        details._repr_html_(),
        details._replace(text=hostile)._repr_html_(),
        translator.attention("<b> & one", "<i>un</i>")._repr_html_(),
    ):
        assert shown.startswith("<table>")
        assert not any(tag in shown for tag in ("<script", "<b>", "<i>"))
        assert "&lt;" in shown
    known = details._replace(unseen_words=())
    assert known._repr_html_().count("<tr>") == 4
    assert "<th>words not learned</th>" in known._replace(unseen_words=("dog",))._repr_html_()
    table = translator.attention("one", "un")._repr_html_()
    assert table.count("<tr>") == 1 + len(translator.attention("one", "un").queries("cross"))


@pytest.mark.parametrize("folder", [NUMBERS, SHARED])
def test_a_translator_can_be_copied_by_pickle(folder: Any) -> None:
    translator = zoo.load(folder, folder, precision="int8")
    copied = pickle.loads(pickle.dumps(translator))  # noqa: S301 — our own bytes
    text = "</s> one <unk> dog"
    assert copied.translate(text, details=True) == translator.translate(text, details=True)
    first = copied.checkpoint
    shared = translator.checkpoint.source_tokenizer is translator.checkpoint.target_tokenizer
    assert (first.source_tokenizer is first.target_tokenizer) == shared
    assert copied.precision == "int8"
    assert first.about == translator.checkpoint.about


class Shouting(zoo.Translator):
    """A translator with a result, an argument and an attribute of its own."""

    def __init__(self, *checkpoints: Any, mark: str, **options: Any) -> None:
        super().__init__(*checkpoints, **options)
        self.mark = mark

    def parts(self, text: Any) -> list[str]:
        return [part + self.mark for part in super().parts(text)]


def test_copies_of_a_subclass_are_of_that_class(translator: zoo.Translator) -> None:
    shouting = Shouting(translator.checkpoint, mark="!", precision="int8")
    pickled = pickle.loads(pickle.dumps(shouting))  # noqa: S301 — our own bytes
    for copied in (pickled, copy.copy(shouting), copy.deepcopy(shouting)):
        assert type(copied) is Shouting
        assert copied.precision == "int8"
        assert copied.parts(TEXT) == [f"{TEXT}!"]
        assert copied.translate(TEXT) == shouting.translate(TEXT)


def test_a_translator_works_in_another_process(translator: zoo.Translator) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(translator.translate, (TEXT,)) == translator.translate(TEXT)


def test_a_network_that_was_moved_is_said_to_be_so() -> None:
    """Torch names two devices and no remedy. Weights on the device `meta` have no values."""
    translator = zoo.load("transformer-tiny.numbers-en-fr")
    translator.checkpoint.model.to("meta")
    message = "was moved from cpu to meta.* Move it back, or load it there"
    for call in (translator.translate, lambda text: translator.score(text, "vingt")):
        with pytest.raises(DecodingError, match=message):
            call("twenty")


@pytest.mark.parametrize(
    ("given", "argument"), [("cuda", "device"), ("cpu", "device"), ("cuda:1", "device"),
                            ("mps", "device"), ("int8", "precision"), ("bf16", "precision")],
)  # fmt: skip
def test_a_device_is_no_member_of_an_ensemble(given: str, argument: str) -> None:
    message = f"no checkpoint '{given}': .* members of an ensemble. Write {argument}=\"{given}\""
    with pytest.raises(TypeError, match=message):
        zoo.load("hf://ann/nothing", given)


def test_a_tokenizer_refuses_one_text_in_place_of_several() -> None:
    """Each of its characters was a text."""
    tokenizer = zoo.load("transformer-tiny.numbers-en-fr").checkpoint.source_tokenizer
    with pytest.raises(TypeError, match="texts must be a list: this is one text"):
        tokenizer.encode("twenty")
    assert tokenizer.encode(["twenty"]) == tokenizer.encode(("twenty",))
