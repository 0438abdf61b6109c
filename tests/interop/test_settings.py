"""Settings of foreign checkpoints: what is printed, and what aliases may cost."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from zoo.interop.reasons import LONGEST, Reasons
from zoo.interop.settings import Settings, brief, read_yaml


def nested(levels: int) -> list[Any]:
    """Return a list that prints 10 ** levels values, and is small in memory."""
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"),
        ("gelu", "'gelu'"),
        (0.5, "0.5"),
        (None, "None"),
        ({"mode": "none"}, "{'mode': 'none'}"),
        (10**5000, "<a large number>"),
        ([10**5000], "[<a large number>]"),
        (Namespace(a=1), "<Namespace>"),
        ("a\nb", "'a\\nb'"),
    ],
    ids=brief,
)
def test_brief(value: Any, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    "value", [nested(40), "x" * 10**6, {str(i): i for i in range(10**4)}], ids=brief
)
def test_brief_is_short(value: Any) -> None:
    assert len(brief(value)) < 200


def test_a_reason_is_cut() -> None:
    reasons = Reasons("it")
    reasons.add("x" * 10**6)
    assert reasons.all == ["x" * LONGEST + "…"]


def test_settings_are_of_the_kind_of_their_default() -> None:
    given = {"layers": "6", "dropout": "0.1", "tied": "True", "other": 0, "kind": ["a"], "no": None}
    settings = Settings(given, Reasons("it"))
    assert settings.get("layers", 1) == 6
    assert settings.get("dropout", 0.0) == 0.1
    assert (settings.get("tied", False), settings.get("other", True)) == (True, False)
    assert settings.get("kind", "relu") == "['a']"
    assert settings.get("no", 7) == settings.get("missing", 7) == 7
    assert not settings.reasons.all


def test_yaml_with_aliases_is_read() -> None:
    text = "base: &base {a: 1, b: [2, 3]}\none: {<<: *base, c: 4}\ntwo: *base\n"
    base = {"a": 1, "b": [2, 3]}
    assert read_yaml(text) == {"base": base, "one": {**base, "c": 4}, "two": base}
    assert read_yaml("") is None


MULTIPLYING = {
    "lists": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)),
    "merged mappings": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 60)),
    "itself": "a: &a [*a]\n",
}


@pytest.mark.parametrize("name", MULTIPLYING)
def test_yaml_that_multiplies_values_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^describes more than 100,000 values$"):
        read_yaml(MULTIPLYING[name])


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "9" * 5000,
        "[" * 1500,
        "a: [",
        "a: !!timestamp 2000-99-99",
        "? {a: b}\n: c",
        "a: \x06",
        'a: !!int ""',
        'a: !!bool "x"',
        'a: !!timestamp "x"',
        'a: "\\U99999999"',
    ],
)
def test_what_is_not_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is not YAML: ") as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)
