"""Numbers of a text that its translation lacks."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

import zoo
from tests.external_plugins.journey import TOP
from zoo.translation.lost_numbers import (
    NUMBER_WORDS,
    has_strange_number,
    lost_numbers,
    may_be_in_words,
)
from zoo.translation.number_formats import converted

CHECKPOINTS = TOP / "cards" / "checkpoints"


@pytest.mark.parametrize(("source", "translation", "lost"), [
    ("Ça coûte 12,50 €.", "It costs €1250.", ("12,50",)),
    ("Ça coûte 12,50 €.", "It costs €12.50.", ()),
    ("It costs $1,250.75.", "Ça coûte 1\u202f250,75 $.", ()),
    ("1.250.000 Euro", "1,250,000 euros", ()),
    ("1,250 people", "1250 personnes", ()),
    ("She was born in 1985.", "Elle est née en 1958.", ("1985",)),
    ("12,50 € and 12,05 €", "12 euros 50 et 12 euros 5", ()),
    ("4.50", "4,5", ()),
    ("0.001 and 0,125", "1 et 125", ("0.001", "0,125")),
    ("007", "7", ()),
    ("3 of 15, at 3:30", "trois de quinze, à 15 h 30", ()),
    ("100 years, 2000 men", "cent ans, deux mille hommes", ()),
    ("١٢٣٤", "1234", ()),
    ("١٬٢٣٤٫٥", "1,234.5", ()),
    ("१२,३४,५६७ रुपये", "1,234,567 rupees", ()),
    ("1,23,456.50 and 7,89", "₹123456.5", ("7,89",)),
    ("3 12 250", "312250", ("12 250",)),
    ("１，２３４．５", "1234.5", ()),
    ("١٢٫٥٠", "1250", ("١٢٫٥٠",)),
    ("Room 345 on page 678", "Chambre 345", ("678",)),
    ("x² and ½ of 999", "x²", ("999",)),
    ("no number", "12", ()),
    ("", "", ()),
])  # fmt: skip
def test_numbers_are_compared_as_languages_write_them(
    source: str, translation: str, lost: tuple[str, ...]
) -> None:
    assert lost_numbers(source, translation) == lost


@pytest.mark.parametrize(("source", "translation", "strange"), [
    ("Number 12", "Le numéro 1222", True),
    ("Number 12", "Le numéro 12", False),
    ("Number 12", "Le numéro douze", False),
    ("twelve", "12", False),
    ("3 pm", "15 h 30, 15:30, 15 heures", False),
    ("3.5 or 1,200", "3,5, 3 et 1 200", False),
])  # fmt: skip
def test_numbers_of_no_source_are_strange(source: str, translation: str, strange: bool) -> None:
    assert has_strange_number(source, translation) == strange


@pytest.mark.parametrize(("source", "translation", "target", "lost"), [
    ("Le vol 69 est en retard.", "The flight is late.", "en", ("69",)),
    ("Le vol 69 est en retard.", "Flight sixty-nine is late.", "en", ()),
    ("Le vol 69 est en retard.", "Der Flug hat Verspätung.", "de", ("69",)),
    ("Le vol 69 est en retard.", "Le vol est en retard.", "pt", ()),
    ("2 of 12 cats, 1 dog", "chats, chien", "fr", ()),
    ("3,000 people left.", "Des gens sont partis.", "fr", ()),
    ("200 people left.", "Des gens sont partis.", "fr", ("200",)),
    ("He is 97.", "Il a nonante-sept ans.", "fr", ()),
    ("Elle est née dans les années 50.", "She was born in the 1950s.", "en", ()),
    ("in 30 minutes", "dans une demi-heure", "fr", ()),
])  # fmt: skip
def test_numbers_are_lost_where_no_word_is_of_a_number(
    source: str, translation: str, target: str, lost: tuple[str, ...]
) -> None:
    assert lost_numbers(source, translation, may_be_in_words(source, translation, target)) == lost


@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_the_words_of_each_number_are_known(language: str) -> None:
    num2words = pytest.importorskip("num2words").num2words
    for number in (*range(13, 100), *range(100, 1000, 100), *range(1000, 100_000, 7000)):
        for kind in ("cardinal", "ordinal"):
            words = num2words(number, lang=language, to=kind)
            assert NUMBER_WORDS[language].search(words), words


def test_a_translation_says_which_numbers_it_lacks(
    run: Callable[..., Result],
) -> None:
    folder = CHECKPOINTS / "transformer-tiny.numbers-en-fr"
    texts = ["forty-two", "it costs 1234,5"]
    plain, lacking = zoo.load(folder).translate(texts, beam=2, n_best=2, details=True)
    assert plain.lost_numbers == ()
    assert lacking.lost_numbers == ("1234,5",)
    assert lacking.alternatives[0].lost_numbers == ("1234,5",)
    result = run("translate", str(folder), *texts)
    assert "1 text with a number that the translation lacks" in result.stderr
    assert "such as 1234,5: compare them; the first is text 2" in result.stderr
    result = run("translate", str(folder), *texts, "--json")
    assert [json.loads(line)["lost_numbers"] for line in result.stdout.splitlines()] == [
        [], ["1234,5"],
    ]  # fmt: skip


def test_dates_are_written_in_another_way() -> None:
    translator = zoo.load(CHECKPOINTS / "transformer-tiny.dates-en-iso")
    assert translator.translate(["3.5.2021 987"], details=True)[0].lost_numbers == ()


@pytest.mark.parametrize(("code", "system"), [
    ("ar", "1,250.5"), ("fa", "1,250.5"), ("ne", "1,250.5"), ("am", "1,250.5"), ("mn", "1,250.5"),
    ("lo", "1.250,5"), ("az", "1.250,5"), ("jv", "1.250,5"), ("bs", "1.250,5"), ("sq", "1 250,5"),
    ("hi", "1,250.5"), ("zh", "1,250.5"), ("tr", "1.250,5"), ("pl", "1 250,5"), ("ka", "1 250,5"),
])  # fmt: skip
def test_numbers_are_written_as_the_tables_of_unicode_say(code: str, system: str) -> None:
    """CLDR 46, of European digits; a space stands for a no-break one."""
    assert converted("1,250.5", "en", code) == system
