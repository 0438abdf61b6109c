"""Large amounts, whose second word small networks lose."""

from __future__ import annotations

import re

import pytest

import zoo
from tests.external_plugins.journey import TOP
from zoo.translation.large_amounts import (
    FORMS,
    SCALES,
    amounts_of,
    has_amount,
    stand_in_pattern,
    written,
)

CHECKPOINTS = TOP / "cards" / "checkpoints"


@pytest.mark.parametrize(("text", "source", "amounts"), [
    ("Il a gagné 250 millions d'euros.", "fr", {"250 millions d'": ("250", 6, "")}),
    ("2,5 milliards de dollars, 3 millions", "fr",
     {"2,5 milliards de": ("2,5", 9, ""), "3 millions": ("3", 6, "")}),
    ("3 millions de plus, 2 500 millions de moins", "fr",
     {"3 millions": ("3", 6, ""), "2 500 millions": ("2 500", 6, "")}),
    ("Ça coûte 3 milliards € ou 4 Md€.", "fr",
     {"3 milliards €": ("3", 9, "€"), "4 Md€": ("4", 9, "€")}),
    ("It cost $3.5 billion, not 2-million pounds.", "en",
     {"$3.5 billion": ("3.5", 9, "$"), "2-million": ("2", 6, "")}),
    ("Sie kostet 3 Mio. Euro, 2 Milliarden im Jahr und 1,5 Mrd.", "de",
     {"3 Mio.": ("3", 6, ""), "2 Milliarden": ("2", 9, ""), "1,5 Mrd": ("1,5", 9, "")}),
    ("12 biljoen euro", "nl", {"12 biljoen": ("12", 12, "")}),
    ("10 à 20 millions, 10-20 millions, in 2020 3 millions, millions, 3 millionaires", "fr", {}),
    ("2 or 3 million, a million, v2.million, 3 billionths", "en", {}),
])  # fmt: skip
def test_amounts_are_read(text: str, source: str, amounts: dict[str, tuple[str, int, str]]) -> None:
    target = "en" if source != "en" else "de"
    made = {text[start:end]: tuple(rest) for start, end, *rest in amounts_of(text, source, target)}
    assert made == amounts
    assert not [*amounts_of(text, source, "zh")]
    assert not [*amounts_of(text, "", target)]


@pytest.mark.parametrize(("number", "power", "target", "right", "wrong"), [
    ("2,5", 6, "en", ["2.5 million", "$2.5 million", "2,500,000 euros", "2500000"],
     ["2.5", "25 million", "2.5 billion", "a million", "2.5 thousand", "250,000"]),
    ("3", 9, "en", ["3 billion", "three billion", "3bn", "3,000,000,000"],
     ["3", "three", "billionaire", "3 million"]),
    ("2 500", 6, "en", ["2,500 million", "2.5 billion"], ["2.5 million", "2,500", "250 billion"]),
    ("250", 6, "fr", ["250 millions d'euros", "250 000 000"], ["250ions", "deux millions"]),
    ("1.000", 6, "de", ["1.000 Millionen", "1000 Mio. Euro"], ["1.000"]),
])  # fmt: skip
def test_what_has_an_amount(
    number: str, power: int, target: str, right: list[str], wrong: list[str]
) -> None:
    amount = number, power
    assert [text for text in right if not has_amount(text, amount, target)] == []
    assert [text for text in wrong if has_amount(text, amount, target)] == []


@pytest.mark.parametrize(("number", "power", "languages", "text", "expected"), [
    ("250", 6, "fr-en", "He won 47 euros.", "He won 250 million euros."),
    ("2,5", 9, "fr-en", "47 people", "2.5 billion people"),
    ("67", 6, "en-fr", "Il y a 47 habitants.", "Il y a 67 millions d'habitants."),
    ("1.5", 6, "en-fr", "47 personnes en 2020", "1,5 million de personnes en 2020"),
    ("2", 12, "en-fr", "Il a perdu 47.", "Il a perdu 2 billions."),
    ("4", 6, "en-fr", "Ils ont investi 47 en 2020.", "Ils ont investi 4 millions en 2020."),
    ("4", 6, "en-fr", "47 à Paris", "4 millions à Paris"),
    ("1", 9, "en-de", "47 Euro", "1 Milliarde Euro"),
    ("1.5", 9, "en-de", "47 Euro", "1,5 Milliarden Euro"),
    ("3", 6, "de-nl", "47 euro", "3 miljoen euro"),
])  # fmt: skip
def test_an_amount_is_written_for_its_stand_in(
    number: str, power: int, languages: str, text: str, expected: str
) -> None:
    source, target = languages.split("-")
    (match,) = stand_in_pattern("47", target).finditer(text)
    new = written((number, power, ""), match, source, target)
    assert text[: match.start()] + new + text[match.end() :] == expected
    assert has_amount(expected, (number, power), target)


@pytest.mark.parametrize(("symbol", "languages", "expected"), [
    ("$", "en-fr", "3 milliards de dollars"), ("€", "en-fr", "3 milliards d'euros"),
    ("£", "en-fr", "3 milliards de £"), ("€", "fr-en", "€3 billion"),
    ("$", "en-de", "3 Milliarden Dollar"), ("¥", "en-nl", "3 miljard ¥"),
])  # fmt: skip
def test_an_amount_of_money_has_its_currency(symbol: str, languages: str, expected: str) -> None:
    match = re.search("47 dollars", "It was 47 dollars.")
    assert match is not None
    assert written(("3", 9, symbol), match, *languages.split("-")) == expected


def test_each_form_is_read_in_its_language() -> None:
    for language, forms in FORMS.items():
        assert len(forms) == len(SCALES[language])
        for (one, several), words in zip(forms, SCALES[language], strict=True):
            assert re.fullmatch(words, one)
            assert re.fullmatch(words, several)


def test_the_everyday_networks_keep_large_amounts() -> None:
    french, search = (
        zoo.load(CHECKPOINTS / name, device="cpu")
        for name in ("transformer-tiny.tatoeba-fr-en-76k", "transformer-tiny.tatoeba-en-fr-76k")
    )
    text = "Il vaut 2 500 millions d'euros."
    made = french.translate(text, details=True, alignment=True)
    assert made.text == "It's 2,500 million euros."
    assert made.copied == ("2 500 millions d'",)
    assert "million" not in french.translate(text, split=False)
    assert "3 billion dollars" in french.translate("Ça a coûté 3 milliards de dollars.")
    assert not search.translate("He won 2.5 million euros.", details=True).copied  # known to it
