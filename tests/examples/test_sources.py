"""Several sources: as data, in training, in the checkpoint, in Python and on the command line."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest
import torch
from click.testing import Result
from torch import Tensor

import zoo
from tests.core.test_training import same
from tests.examples.data import ANIMALS, COLORS, SETTINGS, VERBS, WORDS
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.sources import split_text
from zoo.errors import CheckpointError, ConfigError, ConversionError, DataError, DecodingError
from zoo.nn import END, split_sources
from zoo.registry.registry import Registry
from zoo.testing import (
    INITIALIZATION_LAWS,
    LAWS,
    OBJECTIVE_LAWS,
    Law,
    case,
    initialization_case,
    objective_case,
)
from zoo.testing.initializations import InitializationCase
from zoo.testing.law import LawOf
from zoo.testing.objectives import ObjectiveCase

Run = Callable[..., Result]
ITEMS = [
    (f"it {verb}", f"the {color} {animal}", f"{WORDS[animal]} {WORDS[color]} {WORDS[verb]}")
    for color, animal, verb in product(COLORS, ANIMALS, VERBS)
]
"""A text, a context without which it cannot be translated, and its translation."""
BOTH = {"text": "it eats", "context": "the blue dog"}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(law: Law, networks: Registry) -> None:
    law(case("context", networks))


@pytest.mark.parametrize("law", OBJECTIVE_LAWS, ids=lambda law: law.name)
def test_the_laws_of_objectives_draw_several_sources(
    law: LawOf[ObjectiveCase], networks: Registry
) -> None:
    made = objective_case("cross_entropy", "context", networks)
    assert (made.batch.source == END).sum(1).eq(2).all()
    law(made)


@pytest.mark.parametrize("law", INITIALIZATION_LAWS, ids=lambda law: law.name)
def test_the_laws_of_initializations_draw_several_sources(
    law: LawOf[InitializationCase], networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(source: Tensor, mask: Tensor, count: int) -> list[tuple[Tensor, Tensor]]:
        assert (source == END).sum(1).eq(count).all()
        return split_sources(source, mask, count)

    monkeypatch.setattr("zoo_networks.context.split_sources", checked)
    law(initialization_case("xavier", "context", networks))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`corpus.en`, `corpus.context` and `corpus.fr`; and the same in `corpus.jsonl`."""
    folder = tmp_path_factory.mktemp("files")
    for index, name in enumerate(("en", "context", "fr")):
        (folder / f"corpus.{name}").write_text("".join(f"{item[index]}\n" for item in ITEMS * 20))
    records = (json.dumps(dict(zip(("en", "context", "fr"), i, strict=True))) for i in ITEMS * 20)
    (folder / "corpus.jsonl").write_text("\n".join(records))
    return folder / "corpus"


@pytest.fixture(scope="module")
def trained(files: Path) -> Path:
    out = files.parent / "trained"
    settings = {**SETTINGS, "validate_every": 140}
    return zoo.train("context-small", f"{files}:en+context-fr", out, settings=settings, steps=140)


def test_it_learns_from_both_sources(trained: Path) -> None:
    translator = zoo.load(trained)
    texts = [{"text": text, "context": context} for text, context, _ in ITEMS]
    made = translator.translate(texts, beam=2)
    assert sum(a == b[2] for a, b in zip(made, ITEMS, strict=True)) >= 25
    assert translator.translate(BOTH) == "chien bleu mange"
    assert translator.translate({**BOTH, "context": "the red cow"}) == "vache rouge mange"
    assert translator.translate({"text": "", "context": "the red cow"}) == ""
    assert translator.translate("it eats") == translator.translate({"text": "it eats"})
    assert (
        translator.evaluate([(json.dumps(BOTH), "chien bleu mange")]).by_name["chrf"].value == 100
    )
    assert len(translator.score(BOTH, "chien bleu mange")) == 4
    again = copy.deepcopy(translator.checkpoint.source_tokenizer)  # as another process gets it
    assert again.encode([json.dumps(BOTH)])[0][3] > 3


def test_files_jsonl_and_python_give_the_same_data(files: Path, trained: Path) -> None:
    """And the same tokenizers and weights."""
    folder = files.parent
    two = zoo.train("context-small", f"{files}.jsonl:en+context-fr", folder / "two",
                    settings=SETTINGS, steps=3)  # fmt: skip
    pairs = [({"text": text, "context": context}, target) for text, context, target in ITEMS * 20]
    three = zoo.train("context-small", pairs, folder / "three", settings=SETTINGS, steps=3)
    assert same(two, three)
    name = "source.tokenizer.json"
    assert (two / name).read_text() == (three / name).read_text() == (trained / name).read_text()


def test_each_source_has_its_tokenizer_and_its_ids(trained: Path) -> None:
    tokenizer = zoo.load(trained).checkpoint.source_tokenizer
    assert isinstance(tokenizer, SourceTokenizer)
    assert list(tokenizer.members) == ["text", "context"]
    (ids,) = tokenizer.encode([json.dumps(BOTH)])
    assert [tokenizer.token(i) for i in ids] == ["▁it", "▁eats", "</s>", "▁the", "▁blue", "▁dog"]
    first = tokenizer.members["text"].size
    assert [i >= first for i in ids] == [False, False, False, True, True, True]
    assert tokenizer.size == first + tokenizer.members["context"].size - 4
    assert tokenizer.encode(["it eats"]) == [ids[:3]]
    again = load_tokenizer(trained / "source.tokenizer.json")
    assert again.vocabulary() == tokenizer.vocabulary()
    assert again.to_json() == tokenizer.to_json()


def test_the_command_line_reads_json(trained: Path, files: Path, run: Run, tmp_path: Path) -> None:
    assert run("translate", trained, json.dumps(BOTH)).stdout == "chien bleu mange\n"
    done = run("translate", trained, input=f"{json.dumps(BOTH)}\n\nit eats\n")
    assert done.stdout.splitlines()[:2] == ["chien bleu mange", ""]
    printed = run("translate", trained, json.dumps({**BOTH, "contxt": ""}))
    assert printed.stderr == (
        "Error: no source 'contxt': this model reads text, context. Did you mean context?\n"
    )
    scores = run(
        "eval",
        trained,
        "--data",
        f"{files}:en+context-fr",
        "--split",
        "all",
        "--limit",
        27,
        "--json",
    )
    assert json.loads(scores.stdout)["chrf"] > 90, scores.stderr
    shown = json.loads(run("attention", trained, json.dumps(BOTH), "--json").stdout)
    assert shown["source"] == ["▁it", "▁eats", "</s>", "▁the", "▁blue", "▁dog"]
    assert "</s>" not in shown["kinds"]["cross"]["keys"]
    aligned = run("translate", trained, json.dumps(BOTH), "--alignment")
    assert "stand for no source tokens" in aligned.stderr
    with pytest.raises(ConversionError, match="its two sources are divided by their end tokens"):
        zoo.export(trained, "onnx", tmp_path / "out")


def test_the_server_and_its_page_read_json(trained: Path) -> None:
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    from tests.serving.browser import CHROMIUM, DRIVER, browser
    from tests.serving.client import start

    with start(str(trained), forked=True, PYTHONPATH=os.pathsep.join(sys.path)) as server:
        (model,) = server.send("/api/models").json["models"]
        assert model["sources"] == ["text", "context"]
        asked = {"checkpoint": model["name"], "texts": [json.dumps(BOTH), "it eats"]}
        one, other = server.send("/api/translate", asked).json["translations"]
        assert one["text"] == "chien bleu mange" != other["text"]
        asked["texts"] = [json.dumps({**BOTH, "contxt": ""})]
        refused = server.send("/api/translate", asked)
        assert refused.status == 400
        assert "no source 'contxt': this model reads text, context" in refused.json["error"]
        if CHROMIUM and DRIVER:
            state = urlencode({"checkpoint": model["name"], "text": json.dumps(BOTH)})
            with browser() as page:
                page.open(f"{server.url}/#{state}")
                shown = "return document.querySelector(arguments[0]).textContent"
                assert page.script(shown, "#translation") == "chien bleu mange"
                assert page.script(shown, "#examples") == '{"text":"","context":""}'


def test_the_automatic_recipe_suits_several_sources(files: Path, run: Run, tmp_path: Path) -> None:
    data = f"{files}:en+context-fr"
    done = run("train", "context-small", "--data", data, "--recipe", "auto", "--steps", 1,
               "--out", tmp_path / "out")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "auto: word tokenizer" in done.stderr
    assert f"zoo serve {tmp_path / 'out'}" in done.stderr
    # The whole text, not its beginning: the command can be run.
    assert re.search(
        r"""zoo translate \S+ '\{"text": "[^"]+", "context": "[^"]+"\}'""", done.stderr
    )


def test_a_run_is_tuned_and_resumed(trained: Path, files: Path, tmp_path: Path) -> None:
    data = f"{files}:en+context-fr"
    given = {"from_": trained, "settings": {"batch_tokens": 120}}
    tuned = zoo.train(None, data, tmp_path / "tuned", steps=4, **given)  # type: ignore[arg-type]
    cut = zoo.train(None, data, tmp_path / "cut", steps=2, **given)  # type: ignore[arg-type]
    assert zoo.load(tuned).translate(BOTH)
    zoo.resume(cut, steps=4)
    name = "source.tokenizer.json"
    assert (tuned / name).read_text() == (cut / name).read_text() == (trained / name).read_text()


@pytest.mark.parametrize(
    ("model", "spec", "settings", "message"),
    [
        ("pooled-small", ":en+context-fr", {}, "has several sources: this model reads one"),
        ("context-small", ":en-fr", {}, "no text has the source 'context'"),
        ("context-small", ":en+speaker-fr", {}, "there is no file"),
        ("context-small", ".tsv:en+context-fr", {}, "a .tsv file has one source"),
        (
            "context-small",
            ":en+context-fr",
            {"shared_vocab": True},
            "shared_vocab is for one source of text, the model reads text, context",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(
    model: str, spec: str, settings: dict[str, bool], message: str, files: Path, tmp_path: Path
) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        zoo.train(
            model, f"{files}{spec}", tmp_path / "a", settings={**SETTINGS, **settings}, steps=1
        )


def test_a_model_of_one_source_refuses_several(files: Path, tmp_path: Path) -> None:
    out = zoo.train("pooled-small", f"{files}:en-fr", tmp_path / "a", settings=SETTINGS, steps=1)
    with pytest.raises(DecodingError, match="these are several sources: a reads one"):
        zoo.load(out).translate(BOTH)


def test_a_model_of_one_source_is_not_tuned_or_validated_on_several(
    files: Path, tmp_path: Path
) -> None:
    """Their JSON would be read as text."""
    one, several = f"{files}:en-fr", f"{files}:en+context-fr"
    out = zoo.train("pooled-small", one, tmp_path / "a", settings=SETTINGS, steps=1)
    with pytest.raises(DataError, match=r"\+context-fr has several sources: this model reads one"):
        zoo.train(None, several, tmp_path / "b", from_=out, steps=1)
    with pytest.raises(DataError, match=r"\+context-fr has several sources: this model reads one"):
        zoo.train("pooled-small", one, tmp_path / "c", validation=several, settings=SETTINGS,
                  steps=1)  # fmt: skip


def test_files_of_different_lengths_are_refused(files: Path, tmp_path: Path) -> None:
    for name, count in (("en", 3), ("context", 2), ("fr", 3)):
        (tmp_path / f"c.{name}").write_text("word\n" * count)
    with pytest.raises(DataError, match="context is too short: another source has a line 3"):
        zoo.train("context-small", f"{tmp_path}/c:en+context-fr", tmp_path / "a",
                  settings=SETTINGS, steps=1)  # fmt: skip


def test_join_and_split() -> None:
    text = zoo.join_sources({"text": "a {b", "context": 'c "d"'})
    assert split_text(text, ["text", "context"]) == ["a {b", 'c "d"']
    assert split_text("{not json", ["text", "context"]) == ["{not json", ""]
    assert zoo.join_sources({"text": " ", "context": "c"}) == ""
    with pytest.raises(DataError, match="no source 'text'"):
        zoo.join_sources({"context": "c"})
    with pytest.raises(DataError, match="source 'text' is not a text"):
        split_text('{"text": 3}', ["text"])


def test_split_sources_divides_rows_of_different_lengths() -> None:
    source = torch.tensor([[5, END, 6, 7, 8, END], [5, 6, 7, END, END, 0]])
    (one, of_one), (two, of_two) = split_sources(source, source != 0, 2)
    assert one.tolist() == [[5, END, 0, 0], [5, 6, 7, END]]
    assert two.tolist() == [[6, 7, 8, END], [END, 0, 0, 0]]
    assert torch.equal(of_one, one != 0)
    assert torch.equal(of_two, two != 0)


@pytest.mark.parametrize(
    "content", ['{"sources": []}', '{"sources": {"text": {}}}', '{"sources": {"text": 3}, "a": 1}']
)
def test_a_damaged_tokenizer_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CheckpointError, match="is not a tokenizer"):
        load_tokenizer(tmp_path / "a.json")
