"""The search that an imported folder recommends, of what its settings say about `generate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.refused import require_refused
from tests.interop.t5_folder import imported, write_folder
from tests.interop.test_families import folder_of
from zoo.errors import ConversionWarning
from zoo.interop import Generation
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

SEARCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "a beam": ({"num_beams": 4}, {"beam": 4, "length_penalty": 1.0}),
    "a beam and a penalty": (
        {"num_beams": 4, "length_penalty": 0}, {"beam": 4, "length_penalty": 0.0}),
    "a preference for short outputs": ({"num_beams": 4, "length_penalty": -2.0}, {}),
    "a penalty of text": ({"num_beams": 4, "length_penalty": "long"}, {}),
    "groups of beams": ({"num_beams": 6, "num_beam_groups": 3, "diversity_penalty": 0.5}, {}),
    "one group": ({"num_beams": 6, "num_beam_groups": 1}, {"beam": 6, "length_penalty": 1.0}),
    "a beam that draws": (
        {"num_beams": 4, "do_sample": True, "top_k": 9}, {"sample": True, "top_k": 9}),
    "sampling": (
        {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 0},
        {"sample": True, "temperature": 0.7, "top_p": 0.9}),
    "lengths with the first token": (
        {"num_beams": 1, "min_length": 5, "max_length": 60}, {"min_length": 5, "max_length": 59}),
    "the default length": ({"max_length": 60}, {}),
    "few tokens": ({"num_beams": 1, "max_length": 8}, {"max_length": 7}),
    "the library's own length": ({"num_beams": 1, "max_length": 20}, {}),
    "lengths of new tokens": (
        {"min_new_tokens": 5, "max_new_tokens": 30}, {"min_length": 6, "max_length": 30}),
    "both": (
        {"num_beams": 1, "max_length": 60, "max_new_tokens": 30, "min_length": 2,
         "min_new_tokens": 9}, {"min_length": 10, "max_length": 30}),
    "no shortest length of new tokens": (
        {"num_beams": 1, "min_length": 8, "min_new_tokens": 0}, {}),
    "a longest length of new tokens without bounds": (
        {"num_beams": 1, "max_length": 60, "max_new_tokens": 10**9}, {}),
    "lengths that contradict": (
        {"min_new_tokens": 50, "max_new_tokens": 30}, {"max_length": 30}),
    "lengths without bounds": (
        {"min_new_tokens": 10**9, "max_new_tokens": 10**9, "no_repeat_ngram_size": 10**9}, {}),
    "repetition": ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES)
def test_the_search_that_settings_say(case: str) -> None:
    settings, expected = SEARCHES[case]
    assert Generation(settings).search() == expected


LEFT_OUT: list[tuple[dict[str, Any], list[str]]] = [
    ({"repetition_penalty": 1.0, "num_beam_groups": 1, "early_stopping": None, "typical_p": 1.0,
      "num_beams": 4, "sequence_bias": None, "begin_suppress_tokens": [2], "eos_token_id": 2,
      "bad_words_ids": [[7]], "suppress_tokens": [1], "encoder_no_repeat_ngram_size": 0}, []),
    ({"repetition_penalty": 1.3, "encoder_repetition_penalty": 2, "stop_strings": ["a"]},
     ["repetition_penalty 1.3", "encoder_repetition_penalty 2", "stop_strings"]),
    ({"encoder_no_repeat_ngram_size": 3, "sequence_bias": [[[5], 2.0]],
      "exponential_decay_length_penalty": [3, 1.1], "force_words_ids": [[5]],
      "penalty_alpha": 0.6, "guidance_scale": 2.0},
     ["encoder_no_repeat_ngram_size 3", "sequence_bias", "force_words_ids",
      "exponential_decay_length_penalty", "penalty_alpha 0.6", "guidance_scale 2.0"]),
    ({"num_beams": 4, "num_beam_groups": 2, "early_stopping": True, "length_penalty": -1.0},
     ["num_beam_groups 2", "early_stopping True", "length_penalty -1.0"]),
    ({"early_stopping": True, "length_penalty": -1.0, "typical_p": 0.5, "num_beams": 1}, []),
    ({"num_beams": 2, "do_sample": True, "typical_p": 0.5, "min_p": 0.1},
     ["num_beams 2", "typical_p 0.5", "min_p 0.1"]),
    ({"num_beams": 100}, ["num_beams 100"]),
    ({"bad_words_ids": [[7], [7, 8]], "begin_suppress_tokens": [2, 9], "eos_token_id": 2,
      "suppress_tokens": [2, 3]},
     ["bad_words_ids of several tokens", "begin_suppress_tokens",
      "suppress_tokens with the end token"]),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "expected"), LEFT_OUT)
def test_settings_that_no_search_option_has(settings: dict[str, Any], expected: list[str]) -> None:
    assert Generation(settings).left_out() == expected


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_an_import_warns_of_settings_that_it_leaves_out(family: str, tmp_path: Path) -> None:
    if family == "t5":
        write_folder(tmp_path / "a")
    else:
        folder_of(tmp_path / "a", "bart")
    settings = {"repetition_penalty": 1.3, "bad_words_ids": [[5, 6]]}
    (tmp_path / "a" / "generation_config.json").write_text(json.dumps(settings))
    lacking = "settings repetition_penalty 1.3, bad_words_ids of several tokens are left out, "
    with pytest.warns(ConversionWarning, match=lacking):
        import_checkpoint(tmp_path / "a", tmp_path / "b", default_registry())


def test_a_generation_config_replaces_the_search_of_the_config() -> None:
    config = {"num_beams": 4, "no_repeat_ngram_size": 3, "forced_bos_token_id": 0}
    assert Generation.of(config, None).search() == Generation(config).search()
    of_both = Generation.of(config, {"max_length": 200})
    assert of_both.search() == {"max_length": 199}
    assert "forced_bos_token_id" not in of_both.values
    assert Generation.of(config, {"num_beams": 2}).search()["beam"] == 2


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_more_banned_tokens_than_a_checkpoint_lists_are_refused(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.interop.generation.LIST_LIMIT", 2)
    if family == "t5":
        write_folder(tmp_path / "a")
    else:
        folder_of(tmp_path / "a", "bart")
    (tmp_path / "a" / "generation_config.json").write_text('{"suppress_tokens": [5, 6, 7]}')
    require_refused(tmp_path / "a", "its search never writes 3 tokens: 2 at most")


def test_what_is_never_written() -> None:
    settings = {"suppress_tokens": [3, True, "x"], "bad_words_ids": [[5], [6, 7], "x", [True]]}
    assert Generation(settings).never() == {3}
    assert Generation(settings).banned() == {3, 5}
    assert Generation({"suppress_tokens": 3, "bad_words_ids": [3]}).banned() == set()


def test_t5_recommends_what_its_settings_say(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5")
    settings = {"num_beams": 5, "length_penalty": 0.6, "suppress_tokens": [0, 2, 8, 17, 20]}
    (tmp_path / "t5" / "generation_config.json").write_text(json.dumps(settings))
    checkpoint = imported(tmp_path / "t5")
    tokenizer = checkpoint.target_tokenizer
    (word,) = (tokenizer.token(i) for i in range(tokenizer.size) if tokenizer.token(i) == "▁ab")
    assert dict(checkpoint.about.decoding) == {
        "beam": 5, "length_penalty": 0.6, "banned": (word, "<extra_id_1>", "<unused_20>")
    }  # fmt: skip
