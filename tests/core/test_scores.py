"""Records of scores: which replace each other, and the command that reproduces one."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from zoo.checkpoint.scores import command, is_score, metrics, scores_table, with_score
from zoo.cli import cli


def record(**more: Any) -> dict[str, Any]:
    plain = {"checkpoint": "x", "data": "dogs", "split": "test", "bleu": 30.0,
             "bleu_signature": "a|b", "sentences": 9}  # fmt: skip
    return {**plain, **more}


@pytest.mark.parametrize(
    "other",
    [
        {"split": "validation"},
        {"beam": 5},
        {"lowercase": True},
        {"limit": 3},
        {"by_sentences": True},
        {"banned": ["a", "b"]},
        {"with": ["other"]},
        {"bleu_2": 1.0, "bleu_2_signature": "c"},
    ],
)
def test_a_record_of_another_evaluation_is_added(other: dict[str, Any]) -> None:
    records = with_score(with_score([], record()), record(**other))
    assert len(records) == 2
    first = with_score(records, record(bleu=1.0))
    assert first[0]["bleu"] == 1.0, "a new score is in the place of the old one"
    again = with_score(records, record(**{**other, "bleu": 31.0}))
    assert [kept["bleu"] for kept in again] == [30.0, 31.0], "the same evaluation is replaced"
    assert "checkpoint" not in again[0]


def test_the_command_exists_with_its_options() -> None:
    evaluated = record(
        beam=5, length_penalty=0.6, lowercase=True, bleu_2=50.0, bleu_2_signature="c",
        bleu_confidence=1.5, bleu_mean=30.1, against="other", against_bleu=20.0, bleu_p_value=0.01,
        benchmark="ann/dogs", banned=["a", "▁b"], by_sentences=True, method="beam",
        processors=["no-repeat-ngrams:size=3"], **{"with": ["second"]},
    )  # fmt: skip
    assert is_score(evaluated)
    assert metrics(evaluated) == ["bleu", "bleu_2"]
    words = shlex.split(command(evaluated, "my-dogs"))
    assert words[:3] == ["zoo", "eval", "my-dogs"]
    context = cli.commands["eval"].make_context("eval", words[2:])
    expected = {"data": "dogs", "split": "test", "beam": 5, "length_penalty": 0.6,
              "lowercase": True, "orders": (2,), "confidence": True, "against": None,
              "banned": ("a", "▁b"), "sentences": True, "method": "beam",
              "processors": ("no-repeat-ngrams:size=3",), "more": ("second",)}  # fmt: skip
    assert expected.items() <= context.params.items()


def test_a_table_has_score_interval_signature_and_command() -> None:
    shown = scores_table([record(beam=5, bleu_mean=30.1, bleu_confidence=1.5)], "my-dogs")
    assert "9 sentences of `dogs`, test: `zoo eval my-dogs --data dogs" in shown
    assert "| BLEU | 30.00 ± 1.50 | `a|b` |".replace("a|b", r"a\|b") in shown
    assert "| beam |" not in shown
