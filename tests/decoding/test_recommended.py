"""Recommended search options: a checkpoint brings them, and given options win."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from zoo.checkpoint.format import about_of, describe
from zoo.decoding.options import as_flags, combine, faults
from zoo.errors import DecodingError
from zoo.registry.builtin import top

CAPTIONS = top() / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
TEXT = "An old sailor mends his torn nets with patience while the gulls quarrel above him."
ADVICE: dict[str, Any] = {"beam": 5, "length_penalty": 1.5}
SAMPLING = {"sample": True, "temperature": 0.5, "top_k": 3}


@pytest.mark.parametrize(
    ("given", "recommended", "expected"),
    [
        ({}, ADVICE, ADVICE),
        ({"beam": 2}, ADVICE, {"beam": 2, "length_penalty": 1.5}),
        ({"sample": True}, ADVICE, {"sample": True, "length_penalty": 1.5}),
        ({"exhaustive": True}, ADVICE, {"exhaustive": True, "length_penalty": 1.5}),
        ({"n_best": 3}, ADVICE, {"n_best": 3, **ADVICE}),
        ({"n_best": 3}, {"beam": 5, "stop": "first"}, {"n_best": 3, "beam": 5}),
        ({"beam": 3}, SAMPLING, {"beam": 3}),
        ({"temperature": 0.9}, SAMPLING, {**SAMPLING, "temperature": 0.9}),
        ({"max_length": 3}, {"min_length": 5}, {"max_length": 3}),
    ],
)
def test_given_options_win(
    given: dict[str, Any], recommended: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert combine(given, recommended) == expected
    assert not faults(expected)


def test_wrong_options_stay_wrong() -> None:
    with pytest.raises(DecodingError, match="`--n-best 8` needs a beam of at least 8"):
        zoo.load(CAPTIONS).translate(TEXT, n_best=8, details=True)


def test_flags_are_those_of_the_command_line() -> None:
    values = {"sample": True, "banned": ("a b", 7), "beam": 5}
    assert as_flags(values) == "--beam 5 --banned 'a b' --banned 7 --sample"


def test_the_released_checkpoints_recommend_how_they_were_scored() -> None:
    for folder in (top() / "cards" / "checkpoints").iterdir():
        decoding = about_of(describe(folder)).decoding
        for record in json.loads((folder / "scores.json").read_text())["scores"]:
            assert {key: record[key] for key in ("beam", "length_penalty") if key in record} == (
                dict(decoding)
            )


def test_the_python_api_uses_them_unless_told_otherwise() -> None:
    translator = zoo.load(CAPTIONS)
    details = translator.translate(TEXT, details=True)
    assert details == translator.translate(TEXT, details=True, recommended=False, **ADVICE)
    greedy = translator.translate(TEXT, details=True, recommended=False)
    assert greedy.text == translator.translate(TEXT, beam=1)
    assert details.score != greedy.score
    assert translator.translate(TEXT, sample=True, seed=3) == translator.translate(
        TEXT, sample=True, seed=3, recommended=False
    )


def test_an_ensemble_uses_those_of_its_first_member(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(CAPTIONS, other)
    config = json.loads((other / "config.json").read_text())
    config["about"]["decoding"] = {"coverage_penalty": 0.2, "beam": 3}
    (other / "config.json").write_text(json.dumps(config))
    assert zoo.load(CAPTIONS, other).search_options({}) == ADVICE
    # An ensemble has no attention, which a coverage penalty needs.
    assert zoo.load(other, CAPTIONS).search_options({}) == {"beam": 3}


@pytest.mark.usefixtures("corpora")
def test_the_commands_use_them_and_say_so(run: Callable[..., Result]) -> None:
    def translated(*options: str) -> str:
        return str(run("translate", CAPTIONS, TEXT, *options).stdout)

    assert translated() == translated("--no-recommended", "--beam", "5", "--length-penalty", "1.5")
    assert translated("--sample") == translated("--sample", "--no-recommended")
    assert translated("--n-best", "2").count("\n") == 2
    command = ("eval", CAPTIONS, "--data", "multi30k-en-de", "--limit", "3")
    assert "recommended search options: --beam 5 --length-penalty 1.5" in run(*command).stdout
    record = json.loads(run(*command, "--beam", "2", "--json").stdout)
    assert (record["beam"], record["length_penalty"]) == (2, 1.5)
    plain = json.loads(run(*command, "--no-recommended", "--json").stdout)
    assert plain["no_recommended"] is True
    assert "beam" not in plain


def test_a_card_says_them_and_a_command_sets_them(
    tmp_path: Path, run: Callable[..., Result]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(CAPTIONS, folder)
    changed = run(
        "card", folder, "--write", "--about", "decoding.beam=4", "--about", "terms=CC0",
        "--about", "decoding.length_penalty=null", "--about", "examples=Two dogs.",
    )  # fmt: skip
    assert changed.exit_code == 0, changed.output
    about = about_of(describe(folder))
    assert (about.decoding, about.terms, about.examples) == ({"beam": 4}, "CC0", ("Two dogs.",))
    card = (folder / "README.md").read_text()
    assert "Recommended decoding: `--beam 4`." in card
    assert 'translate("Two dogs.")' in card
    assert "Terms of the data: CC0." in card
    refused = run("card", folder, "--write", "--about", "term=x")
    assert "did you mean terms?" in refused.output
    refused = run("card", folder, "--write", "--about", "decoding.beams=5")
    assert "did you mean beam?" in refused.output
    assert about_of(describe(folder)) == about
    whole = json.dumps({"beam": 3, "banned": [7, "x"], "length_penalty": None})
    assert run("card", folder, "--write", "--about", f"decoding={whole}").exit_code == 0
    assert about_of(describe(folder)).decoding == {"beam": 3, "banned": (7, "x")}
    refused = run("card", folder, "--write", "--about", "decoding=5")
    assert "decoding must be an object of search options" in refused.output
