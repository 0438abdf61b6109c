"""Pairs with symbols, which the everyday Transformers learn: both sides say the same."""

import random
import re
from typing import Any

import pytest

from tests.conftest import ImportScript
from zoo import Pair

PAIRS = [
    Pair("The sun is shining.", "Le soleil brille."),
    Pair("Who's there?", "Qui est là ?"),
    Pair("Wait for Anna!", "Attendez Anna !"),
]
MANY = 400
directions = pytest.mark.parametrize("english_first", [True, False], ids=["en-fr", "fr-en"])


@pytest.fixture
def scripts(import_script: ImportScript) -> Any:
    return import_script("symbols")


def maker(scripts: Any, english_first: bool) -> Any:
    return scripts.Symbols(PAIRS, ["Anna", "Paul"], english_first, random.Random(1))


@directions
def test_numbers_are_equal(scripts: Any, english_first: bool) -> None:
    """English groups thousands by commas and has a decimal point, French spaces and a comma."""
    symbols = maker(scripts, english_first)
    for english, french in (symbols.amount() for _ in range(MANY)):
        numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", english)
        assert len(numbers) == 1, english
        numerals = re.findall(r"-?\d[\d ]*(?:,\d+)?", french)
        assert [float(x.replace(" ", "").replace(",", ".")) for x in numerals] == [
            float(numbers[0].replace(",", ""))
        ], (english, french)
    for english, french in (symbols.money() for _ in range(MANY)):
        for symbol in "$€£":
            assert (symbol in english) == (symbol in french)
        assert (" pounds" in english) == (" livres" in french)


@directions
def test_times_are_equal(scripts: Any, english_first: bool) -> None:
    symbols = maker(scripts, english_first)
    for english, french in (symbols.time() for _ in range(MANY)):
        hour, minute = (int(each) for each in re.findall(r"\d+", english))
        if "p" in english:
            hour += 12
        assert [hour, minute] == [int(each) for each in re.findall(r"\d+", french)]


@directions
def test_addresses_are_the_same_on_both_sides(scripts: Any, english_first: bool) -> None:
    symbols = maker(scripts, english_first)
    for english, french in (symbols.addressed() for _ in range(MANY)):
        shared = set(english.strip("?. ").split()) & set(french.strip("?. ").split())
        assert any(re.search(r"[@#./]", each) for each in shared), (english, french)


@directions
def test_the_target_is_written_in_one_way(scripts: Any, english_first: bool) -> None:
    """The source is as people type it: quotes of any kind, for example."""
    symbols = maker(scripts, english_first)
    pairs = [symbols.quoted() for _ in range(MANY)]
    targets = [pair[english_first] for pair in pairs]
    assert all(
        len(re.findall("« .* »" if english_first else '".*"', each)) == 1 for each in targets
    )
    kinds = ("“", "‘", " '", '"') if english_first else ("« ", "«B", "“", " '", '"')
    text = " ".join(pair[not english_first] for pair in pairs).replace("«Q", "«B")
    assert all(kind in text for kind in kinds)


@directions
def test_pairs_are_the_same_each_time(
    scripts: Any, english_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = scripts.symbols(PAIRS, english_first)
    assert all(text.strip() == text and text for pair in every for text in pair)
    for kind in ("AMOUNTS", "CLOCK_TIMES", "COUNTS", "CODES", "ADDRESSES", "QUOTES"):
        monkeypatch.setattr(scripts, kind, MANY)
    assert scripts.symbols(PAIRS, english_first) == scripts.symbols(PAIRS, english_first)
