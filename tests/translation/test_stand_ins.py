"""Numbers, amounts of money and addresses that a network loses, and that are copied."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import pytest
from click.testing import Result
from hypothesis import assume, given
from hypothesis import strategies as st

import zoo
from tests.external_plugins.journey import TOP
from zoo.translation.copying import copied, unread
from zoo.translation.garbled_names import garbled_names, lost_acronyms, unknown_names
from zoo.translation.lost_items import Item, has_lost, items_of
from zoo.translation.lost_numbers import may_be_in_words
from zoo.translation.parts import Part
from zoo.translation.spelling import stays
from zoo.translation.stand_ins import (
    ATTEMPTS,
    Reading,
    replaced,
    replacements_in,
    with_stand_ins,
)
from zoo.translation.translation import Translation
from zoo.translation.vocabulary import Vocabularies

CHECKPOINTS = TOP / "cards" / "checkpoints"
FROM_FRENCH = CHECKPOINTS / "transformer-tiny.tatoeba-fr-en-76k"
FRENCH_ENGLISH = "fr", "en"
MATCH = next(re.finditer("", ""))
"""What most kinds of stand-ins look not at."""
WORDS = Vocabularies(str.islower, lambda word: False, lambda word: False, lambda word: True)


def reading_of(text: str, source: str, target: str, attempt: int = 0) -> Reading | None:
    """Return a text with stand-ins for all its items."""
    return with_stand_ins(text, items_of(text), source, target, attempt)


@pytest.mark.parametrize(("text", "items"), [
    ("It costs $4.75 or 12,50 €.", ["$4.75", "12,50 €"]),
    ("€1,234.56 and £ 5", ["€1,234.56", "£ 5"]),
    ("3.5 kg, 1500m, in 1987", ["3.5", "1500", "1987"]),
    ("It's -3,5 °C, or -12.", ["-3,5", "-12"]),
    ("12 000 000 habitants", ["12 000 000"]),
    ("Write to jean.dupont+x@mail.example.fr.", ["jean.dupont+x@mail.example.fr"]),
    ("(https://a.org/b_c?d=1,2)!", ["https://a.org/b_c?d=1,2"]),
    ("See www.a.com, b-c.co.uk/x or report_v2.pdf: it's @tom_x #love.",
     ["www.a.com", "b-c.co.uk/x", "report_v2.pdf", "@tom_x", "#love"]),
    ("at 14h30, 3:30, 2.30 pm or 14.30 Uhr on 12.03.2021 or 2021-03-12",
     ["12.03.2021", "2021-03-12"]),
    ("01 23 45 67 89, +33 6 12 34 56 78, 0800 123 456",
     ["01 23 45 67 89", "+33 6 12 34 56 78", "0800 123 456"]),
    ("v1.2.3, 192.168.0.1, A12, 1990s, 3/4", ["v1.2.3", "192.168.0.1", "3/4"]),
    ("2-3 hours, 4–5 men, 10 x 20 cm, 5×6, 7 to 9, 1990 to 1995, 1 to 2.5",
     ["2-3", "4–5", "10 x 20", "5×6", "7 to 9", "1990", "1995", "2.5"]),
    ("½ cup, 1½ or 2 ¾ m², 10² and x²", ["½", "1½", "2 ¾", "10²"]),
    ("00:1A:2b:3C:4D:5E, 00-1a-2b-3c-4d-5e or fe80::1, ::1, 2001:db8::7334. At 10:30: yes::no.",
     ["00:1A:2b:3C:4D:5E", "00-1a-2b-3c-4d-5e", "fe80::1", "::1", "2001:db8::7334"]),
    ("type `make x`, `a`. I can`t and won`t", ["`make x`", "`a`"]),
    ("GitHub.Com, well.Come on.Net", ["GitHub.Com", "on.Net"]),
    ("+1 (555) 123-4567, #1234", ["+1 (555) 123-4567", "1234"]),
    ("at 12:30:45, 3:30 or 01:02:03", ["12:30:45", "01:02:03"]),
    ("the code A1B2C3, 4X7Y or A123, 1234, ABCD, mp3", ["A1B2C3", "4X7Y", "A123", "1234"]),
    ("bit.ly/x1, youtu.be/dQ and/or yes.no/ maybe", ["bit.ly/x1", "youtu.be/dQ"]),
    ("setup.exe, README.md, a.php", ["setup.exe", "README.md", "a.php"]),
    ("$1.5 million, 2,5 Mio. Euro, 3,5 milliards, 250 mille, $1.5M, 1,5 M€, $5k", []),
    ("US$5, 12€50, 3 €20 et 12 € 50", ["US$5", "12€50", "3 €20", "12 € 50"]),
    ("(555) 123-4567, 555-1234, pages 101-115", ["(555) 123-4567", "555-1234", "101-115"]),
    ("https://en.wikipedia.org/wiki/A_(b). (www.c.org/d).",
     ["https://en.wikipedia.org/wiki/A_(b)", "www.c.org/d"]),
    ("NOTES.PDF", ["NOTES.PDF"]),
    ("I like it.It is fun. C'est fini.Tu viens.", []),
    ("5 of 20, or 100", []),
    ("", []),
])  # fmt: skip
def test_what_a_network_may_lose(text: str, items: list[str]) -> None:
    assert [item.text for item in items_of(text)] == items


@pytest.mark.parametrize(("number", "languages", "written"), [
    ("1,234.56", "en-fr", "1 234,56"), ("1,234", "en-fr", "1 234"), ("1.234", "en-fr", "1,234"),
    ("1,234", "fr-en", "1.234"), ("1 234", "fr-en", "1,234"), ("12.50", "fr-en", "12.50"),
    ("-3,5", "fr-en", "-3.5"), ("1.234.567,89", "de-en", "1,234,567.89"), ("1987", "de-en", "1987"),
    ("1,234,567.5", "en-de", "1.234.567,5"), ("1.234,5", "de-fr", "1.234,5"), ("2,5", "fr-", "2,5"),
    ("0.001", "zh-ru", "0,001"), ("0.001", "fr-en", "0.001"),
])  # fmt: skip
def test_a_number_is_written_as_in_the_target_language(
    number: str, languages: str, written: str
) -> None:
    source, target = languages.split("-")
    reading = reading_of(f"x {number} kg", source, target)
    assert reading is not None
    assert [each.written(MATCH) for each in reading.stand_ins] == [written]


@pytest.mark.parametrize(("amount", "languages", "read", "written"), [
    ("12,50 €", "fr-en", "47 dollars", "€12.50"), ("12,50€", "fr-en", "47 dollars", "€12.50"),
    ("$4.75", "en-fr", "47 dollars", "4,75 $"), ("£15", "en-de", "47 dollars", "15 £"),
    ("-2,50 €", "fr-en", "47 dollars", "-€2.50"), ("¥1,000", "en-ru", "¥47", "1 000 ¥"),
    ("12,50 €", "-", "47 €", "12,50 €"),
])  # fmt: skip
def test_an_amount_is_written_as_in_the_target_language(
    amount: str, languages: str, read: str, written: str
) -> None:
    source, target = languages.split("-")
    reading = reading_of(f"it is {amount}.", source, target)
    assert reading is not None
    assert reading.text == f"it is {read}."
    assert reading.stand_ins[0].written(MATCH) == written


@pytest.mark.parametrize(("text", "translation", "lost"), [
    ("Ça coûte 12,50 €.", "It costs €1250.", True),
    ("Ça coûte 12,50 €.", "It costs 12.50.", True),
    ("Ça coûte 12,50 €.", "It costs 12.50 euros.", False),
    ("Écris à a@b.fr.", "Write to a@b.fr.", False),
    ("Écris à a@b.fr.", "Write to A@b.fr.", True),
    ("Il pèse 1,5 kg.", "It weighs 1,5 kg.", True),
    ("Il y a 1 500 livres.", "There are 1500 books.", False),
    ("Écris à a@b.fr.", "Write to a@b.", True),
    ("10,50 € et 20,50 £", "£10.50 and €20.50", True),
    ("10,50 € et 20,50 £", "€10.50 and £20.50", False),
    ("10,50 € et 20,50 £", "10.50 and 20.50 pounds", True),
    ("5 €", "five euros", False),
    ("Le 12/05/2021.", "On 12,05 U2021.", True),
    ("Le 12/05/2021.", "On May 12th, 2021.", False),
    ("Le 12/05/2021.", "On May 2021.", True),
    ("Appelez le 06 12 34 56 78.", "Call 06.12.34.56.78.", False),
    ("Appelez le 06 12 34 56 78.", "Call 06 12, 346 78.", True),
    ("Il fait -3 °C.", "It's 3°C.", True),
    ("Il fait -3 °C.", "It's minus 3°C.", False),
    ("Il fait -3 °C.", "It's three below zero.", False),
    ("Bonjour.", "", False),
    ("Pas moins de -3 °C.", "At least 3°C, understood.", True),
    ("J'ai 5 € et tu as 5 €.", "I have 5 €5.", False),
    ("J'ai 5 € et tu as 5 €.", "I have 5 and you €5.", True),
    ("J'ai 1 000 000 €.", "I have €000,000.", True),
    ("J'ai 1 000 000 €.", "I have a million euros.", False),
    ("Ça coûte US$5.", "It costs $65.", True),
    ("Ça coûte US$5.", "It costs US $.", True),
    ("Le 05/12/21.", "On May 12th, 2021.", False),
    ("01 01 01 01 01", "01 01 01 01 011", True),
    ("192.168.0.1", "192.168,0.1", True),
    ("La version 2.0.1", "Version 2.0", True),
    ("La v2.0.1", "The v2,0.1", True),
    ("À 01:02:03.", "At 1:02.", True),
    ("À 01:02:03.", "At 01:02:03.", False),
    ("Mon numéro est le 555-1234.", "My number is 55-1234.", True),
    ("Pages 101-115", "pages 101 to 115", False),
    ("2-3 jours", "two or three days", False),
    ("10 x 20 cm", "10 by 20 cm", False),
    ("J'ai ½ verre.", "I have half a glass.", True),
    ("Voir section 3,2.", "See section 3,2.", False),
    ("Python 3.11 est sorti.", "Python 3.11 is out.", False),
    ("Python 3.11 est sorti.", "Python 311 is out.", True),
    ("Il vient le 4.5. ou le 12.10.", "He comes on May 4th or October 12th.", False),
    ("a@b.fr ou a@b.fr", "a@b.fr", True),
])  # fmt: skip
def test_a_translation_lacks_what_is_not_in_it(text: str, translation: str, lost: bool) -> None:
    assert has_lost(list(items_of(text, "fr")), translation, *FRENCH_ENGLISH) == lost


@pytest.mark.parametrize(("text", "translation", "lost"), [
    ("Le numéro 12.", "Number 1222.", True),
    ("Le numéro 12.", "Number 12.", False),
    ("Pages 3-7.", "Pages 37.", True),
    ("Pages 3-7.", "Pages 3 to 7.", False),
    ("De 10 à 12.", "From 102.", True),
    ("10 x 20 cm", "10 0 cm", True),
    ("Il a 3/4 du gâteau.", "He has 344.", True),
])  # fmt: skip
def test_a_number_of_none_of_the_source_shows_that_one_is_lost(
    text: str, translation: str, lost: bool
) -> None:
    in_words = may_be_in_words(text, translation, "en")
    items = list(items_of(text, "fr", in_words))
    assert has_lost(items, translation, *FRENCH_ENGLISH, in_words) == lost


PIECES = st.sampled_from([
    "12,50 €", "$4.75", "a@b.fr", "www.x.org/y.", "1 234,5", "-7", "Tom", "47", "is", "é", " ", ".",
    "#tag", "2021-03-12", "\n", "(", "250",
])  # fmt: skip


@given(st.lists(PIECES).map(" ".join), st.sampled_from(range(len(ATTEMPTS))))
def test_what_stands_for_an_item_replaces_its_stand_in(text: str, attempt: int) -> None:
    reading = reading_of(text, *FRENCH_ENGLISH, attempt)
    assume(reading is not None)
    assert reading is not None
    replacements = replacements_in(reading.text, reading.stand_ins)
    assert replacements is not None
    assert [each[2] for each in replacements] == [each.written(MATCH) for each in reading.stand_ins]
    originals = [(*r, text[slice(*t)]) for t, r in (each.spans for each in reading.stand_ins)]
    assert replaced(reading.text, originals) == text


@pytest.mark.parametrize(("translation", "result"), [
    ("It costs 47 dollars.", "It costs €12.50."), ("It costs $47.", "It costs €12.50."),
    ("a 47-dollar ticket", "a €12.50 ticket"), ("IT COSTS 47 DOLLARS", "IT COSTS €12.50"),
    ("Tomorrow, 47 dollars", "Tomorrow, €12.50"), ("It costs 47.", None),
    ("It costs 47 dollars, 47.", None), ("It costs 470 dollars.", None),
    ("It costs forty-seven dollars.", None), ("It costs 47.5 dollars.", None), ("", None),
])  # fmt: skip
def test_a_stand_in_must_be_in_the_translation_once(translation: str, result: str | None) -> None:
    reading = reading_of("Ça coûte 12,50 €.", *FRENCH_ENGLISH)
    assert reading is not None
    replacements = replacements_in(translation, reading.stand_ins)
    assert (replacements and replaced(translation, replacements)) == result


@pytest.mark.parametrize(("translation", "are_apart"), [
    ("C'est 47 $ puis 58 $.", True), ("C'est $47 58 dollars.", True), ("C'est 47 $58.", False),
    ("47 dollars58 dollars", False), ("C'est 58 $ puis $47.", True),
])  # fmt: skip
def test_stand_ins_that_share_a_currency_are_lost(translation: str, are_apart: bool) -> None:
    reading = reading_of("It is $12.50 then $7.30.", "en", "fr")
    assert reading is not None
    replacements = replacements_in(translation, reading.stand_ins)
    assert (replacements is not None) == are_apart
    if replacements is not None:
        made = replaced(translation, replacements)
        assert ("12,50 $" in made, "7,30 $" in made) == (True, True)


def test_an_amount_in_two_numbers_has_a_stand_in_in_every_language() -> None:
    for languages in (("fr", "pl"), ("fr", "en"), ("", "")):
        reading = reading_of("5 € 20 x", *languages)
        assert reading is not None
        assert reading.text in ("47 € x", "47 dollars x")


def test_names_with_signs_are_items() -> None:
    text = "C++ and AT&T, R&D (C#), an A+; A+B, a+b, Q & A, fish&chips, C+++, A&B&C"
    assert [item.text for item in items_of(text, "en")] == ["C++", "AT&T", "R&D", "C#", "A+"]


def test_a_stand_in_is_no_word_of_the_text() -> None:
    reading = reading_of("Tom, TOMATES : maria@b.fr et 47,5 kg de tom.", *FRENCH_ENGLISH)
    assert reading is not None
    assert reading.text == "Tom, TOMATES : John et 58 kg de tom."


def test_more_items_than_stand_ins_are_left_as_they_are() -> None:
    text = " ".join(f"{i}.5 kg" for i in range(200))
    assert reading_of(text, *FRENCH_ENGLISH) is None


def translations(
    texts: Mapping[str, list[str]],
) -> Callable[[list[Part]], dict[tuple[int, int], list[Translation]]]:
    """Return a function that translates parts as a table says; other texts word by word."""

    def translate(parts: list[Part]) -> dict[tuple[int, int], list[Translation]]:
        made = {}
        for part in parts:
            words = tuple((i, i) for i in range(len(part.text.split())))
            made[part.key] = [
                Translation(part.text, text, alignment=words[: len(text.split())])
                for text in texts.get(part.text, [part.text])
            ]
        return made

    return translate


def read(parts: list[Part], texts: list[str]) -> list[Part]:
    return [part._replace(text=text) for part, text in zip(parts, texts, strict=True)]


def test_later_attempts_follow_where_a_stand_in_is_lost() -> None:
    parts = [Part(i, 0, "", text, ()) for i, text in enumerate(
        ["Ça coûte 12,50 €.", "Écris à a@b.fr.", "Va sur www.a.fr.", "1,5 kg", "rien"]
    )]  # fmt: skip
    translate = translations({
        "Ça coûte 12,50 €.": ["It costs 1250."], "Ça coûte 47 dollars.": ["It costs 47 dollars."],
        "Écris à a@b.fr.": ["Write."], "Écris à Tom.": ["Write to me."],
        "Écris à Boston.": ["Write to Boston."],
        "Va sur www.a.fr.": ["Go."], "Va sur Tom.": ["Go."], "Va sur Boston.": ["Go, go."],
        "Va sur 47.": ["Go to 47."],
        "1,5 kg": ["kilos"], "47 kg": ["pounds"], "250 kg": ["pounds"],
        "20 kg": ["pounds"], "10 kg": ["pounds"], "24 kg": ["pounds"],
    })  # fmt: skip
    before = translate(parts)
    new = copied(parts, before, FRENCH_ENGLISH, WORDS, read, translate)
    assert {key[0]: ranked[0].text for key, ranked in new.items()} == {
        0: "It costs €12.50.", 1: "Write to a@b.fr.", 2: "Go to www.a.fr.",
    }  # fmt: skip
    one = new[0, 0][0]
    assert (one.source, one.copied) == ("Ça coûte 12,50 €.", ("12,50 €",))
    # The words "47 dollars" are one word of the translation and two of the text.
    assert one.alignment == ((0, 0), (1, 1), (2, 2))


@pytest.mark.parametrize(("text", "before", "read_as", "after"), [
    ("Mes 3 frères ont 15,5 kg.", "My 3 brothers", "Mes 3 frères ont 47 kg.", "My brothers 47 kg"),
    ("Maria a 1,5 kg, Tom.", "Maria has 15, Tom.", "Maria a 47 kg, Tom.", "Maria has 47 kg."),
    ("Il a 1,5 kg.", "He has 15 kg.", "Il a 47 kg.", "He has 47 kg and 8."),
])  # fmt: skip
def test_what_the_translation_before_had_is_not_lost(
    text: str, before: str, read_as: str, after: str
) -> None:
    """The second attempt, which is translated word by word, is taken instead of the first."""
    part = Part(0, 0, "", text, ())
    translate = translations({text: [before], read_as: [after]})
    new = copied([part], translate([part]), FRENCH_ENGLISH, WORDS, read, translate)
    assert [one.text for one in new[0, 0]] == [text.replace("5,5", "5.5").replace("1,5", "1.5")]


def test_there_are_as_many_alternatives_as_before() -> None:
    part = Part(0, 0, "", "x 1,5 kg", ())
    texts = {"x 1,5 kg": ["x 15 kg", "y", "z"], "x 47 kg": ["x kg", "x 47 kg", "47 x 47"]}
    translate = translations(texts)
    ((_, ranked),) = copied(
        [part], translate([part]), FRENCH_ENGLISH, WORDS, read, translate
    ).items()
    assert [one.text for one in ranked] == ["x 1.5 kg", "x 15 kg", "y"]


def test_a_small_network_translates_what_it_has_never_read() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    texts = [
        "Ça coûte 12,50 €.",
        "Bonjour !",
        "J'ai écrit à anne_roy@lys.fr hier. Il pèse 80,5 kg.",
    ]
    made = translator.translate(texts, details=True, alignment=True)
    assert made[0].text == "It costs €12.50."
    assert made[0].copied == ("12,50 €",)
    assert made[1].copied == ()
    assert "anne_roy@lys.fr" in made[2].text
    assert "80.5" in made[2].text
    assert made[2].copied == ("anne_roy@lys.fr", "80,5")
    assert all(one.source == text for one, text in zip(made, texts, strict=True))
    assert not any(one.lost_numbers for one in made)
    for one in made:
        assert one.alignment
        for source, target in one.alignment:
            assert source < len(one.source.split())
            assert target < len(one.text.split())
    assert (2, 2) in (made[0].alignment or ())  # coûte 12,50: costs €12.50
    as_it_is = translator.translate(texts[0], split=False, details=True)
    assert as_it_is.copied == ()
    assert "12.50" not in as_it_is.text
    several = translator.translate(texts[0], details=True, beam=4, n_best=4)
    assert len(several.alternatives) == 3


@pytest.mark.parametrize("text", ["-" * 80, " ".join(["https://example.com/a"] * 8)])
def test_of_what_stays_as_it_is_few_tokens_are_read(text: str) -> None:
    """A network may write thousands of tokens for them, which are not used."""
    translator = zoo.load("transformer-tiny.tatoeba-en-fr-76k", device="cpu")
    made = translator.translate(text, details=True)
    assert made.text == text
    assert len(made.tokens) <= 3 * 17 + 20


def test_what_is_no_text_stays_as_it_is() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    texts = [
        "...",
        "12,50 €",
        "00:00:01,000 --> 00:00:03,500",
        "\u3053\u3093",
        "1. Bonjour !",
        "</i>",
    ]
    made = translator.translate(texts, details=True, alignment=True, beam=2, n_best=2)
    assert [one.text for one in made[:4]] == ["...", "€12.50", texts[2], texts[3]]
    assert made[4].text.startswith("1. ")
    assert made[5].text == ""
    assert [bool(one.copied) for one in made] == [True] * 4 + [False] * 2
    assert made[2].alignment == ((0, 0), (1, 1), (2, 2))
    assert [one.unknown for one in made] == [False] * 3 + [True] + [False] * 2
    as_it_is = translator.translate("...", split=False, details=True)
    assert (as_it_is.copied, as_it_is.text == "...") == ((), False)


def test_addresses_without_words_stay_as_they_are() -> None:
    translator = zoo.load("transformer-tiny.multi30k-en-de", device="cpu")
    texts = ["https://example.com/A", "README.TXT", "a@b.com, <b>@tom</b> 1.5", "`ls -l a`"]
    made = translator.translate(texts, details=True, alignment=True)
    kept = [*texts[:2], "a@b.com, @tom 1,5", texts[3]]
    assert [one.text for one in made] == kept
    assert [one.copied for one in made] == [(text,) for text in kept]
    assert made[1].alignment == ((0, 0),)
    assert not stays("A dog.")
    assert not stays("See example.com")


def test_a_line_of_tags_alone_stays_a_line() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    one = translator.translate("Bonjour !")
    assert translator.translate("<p>\nBonjour !\n</p>\n\n<br>\nBonjour !\n</p>") == (
        f"\n{one}\n\n\n\n{one}\n"
    )


def test_amounts_without_words_are_aligned() -> None:
    translator = zoo.load("transformer-tiny.tatoeba-en-fr-76k", device="cpu")
    made = translator.translate("- $5 + $6.", details=True, alignment=True)
    assert (made.text, made.alignment) == ("- 5 $ + 6 $.", ((1, 1), (2, 3), (3, 4)))


def test_a_letter_that_a_vocabulary_lacks_makes_a_stand_in() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    made = translator.translate("J'ai vu Ay\u015fe hier.", details=True)
    assert "Ay\u015fe" in made.text
    assert made.copied == ("Ay\u015fe",)


def test_the_command_line_says_what_was_copied(run: Callable[..., Result]) -> None:
    result = run("translate", str(FROM_FRENCH), "Ça coûte 12,50 €.", "Bonjour !")
    assert result.stdout.splitlines()[0] == "It costs €12.50."
    assert "Note: 1 text with numbers, dates, addresses or names that were copied" in result.stderr
    result = run("translate", str(FROM_FRENCH), "Ça coûte 12,50 €.", "Bonjour !", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["copied"] for line in lines] == [["12,50 €"], []]


@pytest.mark.parametrize(("text", "translation", "names"), [
    ("I know John Smith.", "Je connais Johnmith.", ["John Smith"]),
    ("Jan Kowalski is here.", "Jan Kovalsky est ici.", ["Jan Kowalski"]),
    ("Yesterday Jan Kowalski left.", "Hier, Jan Kovalsky est parti.", ["Jan Kowalski"]),
    ("Jan Kowalski and Ewa Nowak", "Jan Kowalski et Ewa Novvak", ["Ewa Nowak"]),
    ("I know John Smith.", "Je connais John Smith.", []),
    ("Dear John Smith,", "Cher Johnmith,", ["John Smith"]),
    ("Dear Jon,", "D\u00e9gage Jonn,", []),
    ("I know John Smith.", "Je le connais.", []),
    ("I know Kowalski.", "Je connais Kovalsky.", []),  # a single word may have another name
    ("Mathematics Is hard.", "Les Zébrures", []),
    ("Is Alan Smith's dog here?", "Le chien de Alan Smith est-il ici ?", []),
    ("Hello, I'm Rafał Göransson.", "Bonjour, je suis Rafa et Göransson.", ["Rafał Göransson"]),
    ("J'aime Kees Wiśniewski.", "I like Kees Winiewski.", ["Kees Wiśniewski"]),
    ("Ask Anna Wiśniewski.", "Demandez à Anna Wiwiewski.", ["Anna Wiśniewski"]),
    ("« Ask Anna Wiśniewski. »", "Demandez à Anna Wiwiewski.", ["Anna Wiśniewski"]),
    ("john smith", "Johnmith", []),
    ("", "", []),
])  # fmt: skip
def test_a_garbled_name_is_like_a_word_of_the_text(
    text: str, translation: str, names: list[str]
) -> None:
    known = {"Jan", "Ewa", "John", "Smith", "Hier", "Je", "Les", "Demandez", "Bonjour"}
    spans = garbled_names(text, translation, lambda word: word not in known, lambda _: False)
    assert [text[start:end] for start, end in spans] == names


def test_names_of_two_words_are_copied() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    (one,) = translator.translate(["Je connais Rafał Göransson."], details=True)
    assert one.text == "I know Rafał Göransson."
    assert one.copied == ("Rafał Göransson",)
    assert "Rafał Göransson" not in translator.translate(one.source, split=False)
    reading = with_stand_ins("C'est Ewa.", [Item("name", 6, 9, "Ewa")], *FRENCH_ENGLISH)
    assert reading is not None
    assert reading.text == "C'est Anna."


@pytest.mark.parametrize(("text", "translation", "language", "names"), [
    ("I saw Zoë and Noël.", "J'ai vu Zo et Noël.", "en", ["Zoë"]),
    ("I saw Agnès.", "J'ai vu Agn.", "en", ["Agnès"]),
    ("Être avec Zoë.", "Be with Zo.", "fr", ["Zoë"]),
    ("I saw Noé, ZOË and the café.", "J'ai vu N.", "en", []),
    ("Zoë", "Zo", "it", []),
])  # fmt: skip
def test_names_with_letters_of_another_language_are_copied(
    text: str, translation: str, language: str, names: list[str]
) -> None:
    spans = unknown_names(text, translation, lambda _: False, lambda w: w == "Noé", language)
    assert [text[slice(*span)] for span in spans] == names


@pytest.mark.parametrize(("text", "translation", "names"), [
    ("Je suis à l'ENA.", "I am in Either.", ["ENA"]),
    ("SNCF, RATP et DVD", "UFO and the RATPs", ["SNCF", "RATP"]),  # DVD is known
    ("Je suis chez IBM.", "I'm at IBM's.", []),
    ("Il a vu M6 et du papier A4 en 3D.", "He saw M6 and paper in JD.", ["A4"]),
    ("JE SUIS CHEZ IBM.", "I'M AT HOME.", []),
    ("I see A, ABC-1, @ABC and ABCDEFGH.", "Je vois.", []),
])  # fmt: skip
def test_short_words_in_capitals_that_training_had_not_are_copied(
    text: str, translation: str, names: list[str]
) -> None:
    spans = lost_acronyms(text, translation, lambda word: word == "DVD")
    assert [text[slice(*span)] for span in spans] == names


def test_a_small_network_copies_short_words_in_capitals() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    text = "Elle est ingénieur chez IBM."
    made = translator.translate(text, details=True)
    assert "IBM" in made.text
    assert made.copied == ("IBM",)
    assert "IBM" not in translator.translate(text, split=False)
    assert not translator.translate("C'est OK.", details=True).copied


@pytest.mark.parametrize("alignment", [None, (), ((0, 0), (0, 1))])
def test_a_word_that_is_not_read_is_aligned_to_itself(
    alignment: tuple[tuple[int, int], ...] | None,
) -> None:
    """Also where the network has written nothing for it."""
    before = {(0, 0): [Translation("→", "", alignment=alignment, unknown=True)]}
    ((_, (one,)),) = unread([Part(0, 0, "", "→", ([3],))], before)
    assert (one.text, one.copied) == ("→", ("→",))
    assert one.alignment == (None if alignment is None else ((0, 0),))
