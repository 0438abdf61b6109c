"""Pairs with details, which an everyday Transformer learns last: both sides say the same."""

import random
import re
from typing import Any

import pytest
from num2words import num2words

from tests.conftest import ImportScript
from zoo import Pair

PAIRS = [
    Pair("The sun is shining.", "Le soleil brille."),
    Pair("Who's there?", "Qui est là ?"),
    Pair("She lost her keys, again.", "Elle a encore perdu ses clés."),
    Pair("He said that he was ill.", "Il a dit qu'il était malade."),
]
MANY = 400
directions = pytest.mark.parametrize("english_first", [True, False], ids=["en-fr", "fr-en"])


@pytest.fixture
def scripts(import_script: ImportScript) -> Any:
    return import_script("details")


def maker(scripts: Any, english_first: bool) -> Any:
    return scripts.Details(PAIRS, english_first, random.Random(1))


def digits(text: str) -> list[float]:
    return [float(each.replace(",", ".")) for each in re.findall(r"\d+(?:[.,]\d+)?", text)]


@directions
def test_ordinals_are_equal(scripts: Any, english_first: bool) -> None:
    """In digits, in words, and centuries in Roman numerals in a French source."""
    details = maker(scripts, english_first)
    english = {num2words(number, to="ordinal"): number for number in range(1, 21)}
    french = {num2words(n, lang="fr", to="ordinal"): n for n in range(1, 21)} | {"première": 1}
    romans = {f"{scripts.roman(number)}e": number for number in range(9, 23)}
    for one, other in (details.ordinal() for _ in range(MANY)):
        if numbers := digits(one):
            written = digits(other) or [romans[word] for word in other.split() if word in romans]
            assert [int(each) for each in written] == numbers, (one, other)
        else:
            words = re.findall(r"[\w-]+", one)
            assert [english[word] for word in words if word in english] == [
                french[word] for word in re.findall(r"[\w-]+", other) if word in french
            ], (one, other)


def test_roman_numerals(scripts: Any) -> None:
    values = {"X": 10, "V": 5, "I": 1}
    for number in range(1, 40):
        figures = [values[each] for each in scripts.roman(number)]
        signed = [
            -figure if figure < after else figure
            for figure, after in zip(figures, [*figures[1:], 0], strict=True)
        ]
        assert sum(signed) == number


@directions
def test_large_amounts_are_equal(scripts: Any, english_first: bool) -> None:
    """A French billion is a milliard, plural from 2 on, and *de* is shortened before a vowel."""
    details = maker(scripts, english_first)
    for english, french in (details.amount() for _ in range(MANY)):
        assert digits(english) == digits(french)
        assert ("billion" in english) == ("milliard" in french)
        plural = re.search(r"(?:million|milliard)s", french) is not None
        assert plural == (digits(french)[0] >= 2)
        assert not re.search(r"\bde [aeiouéh]", french.partition("illi")[2]), french
        for symbol, name in (("$", "dollars"), ("€", "euros"), ("£", "livres")):
            assert symbol not in french
            assert symbol not in english or name in french


@directions
def test_periods_have_the_same_limits(scripts: Any, english_first: bool) -> None:
    details = maker(scripts, english_first)
    for english, french in (details.period() for _ in range(MANY)):
        dates = [scripts.WEEKDAYS, scripts.MONTHS]
        for words in dates:
            names = [word for pair in words for word in pair]
            one = [names.index(w) // 2 for w in re.findall(r"\w+", english) if w in names]
            other = [names.index(w) // 2 for w in re.findall(r"\w+", french) if w in names]
            assert one == other or one == other * 2, (english, french)  # "du 3 au 5 mai"
        if "." not in english[:-1] and "s." not in english:  # hours before and after noon, decades
            shown = [number % 12 if "ouvert" in french else number for number in digits(french)]
            assert not digits(english) or len(digits(english)) == len(shown), (english, french)


@directions
def test_ages_and_letters_have_the_same_numbers_and_names(
    scripts: Any, english_first: bool
) -> None:
    details = maker(scripts, english_first)
    for _ in range(MANY):
        english, french = details.aged()
        assert digits(english) == digits(french)
        assert re.search(r"\ba (?:8|11\b|18\b)", english, re.IGNORECASE) is None, english
        assert "{" not in english + french + "".join(details.letter())


@directions
def test_a_statement_is_extended_on_both_sides(scripts: Any, english_first: bool) -> None:
    details = maker(scripts, english_first)
    assert [pair.source for pair in details.statements] == [
        "The sun is shining",
        "he said that he was ill",
    ]
    known = [*scripts.WHERE, *scripts.WHEN, *scripts.HOW]
    for english, french in (details.extended() for _ in range(MANY)):
        more = [pair for pair in known if pair[0] in english]
        assert more
        assert all(other in french for _, other in known if any(other == f for _, f in more))


@directions
def test_pairs_are_the_same_each_time(
    scripts: Any, english_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = scripts.details(PAIRS, english_first)
    assert all(text.strip() == text and text for pair in every for text in pair)
    for kind in ("ORDINALS", "AMOUNTS", "PERIODS", "AGES", "LETTERS", "EXTENDED", "JOINED"):
        monkeypatch.setattr(scripts, kind, MANY)
    assert scripts.details(PAIRS, english_first) == scripts.details(PAIRS, english_first)
