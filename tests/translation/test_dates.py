"""Dates with the names of months, for which days of the week stand while a text is translated."""

from __future__ import annotations

import datetime
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zoo
from tests.external_plugins.journey import TOP
from zoo.translation.dates import (
    MONTHS,
    WEEKDAYS,
    Date,
    as_weekday,
    dates_of,
    has_date,
    names,
    weekday_pattern,
    written,
)
from zoo.translation.lost_items import Item
from zoo.translation.stand_ins import with_stand_ins

CHECKPOINTS = TOP / "cards" / "checkpoints"


@pytest.mark.parametrize(("text", "source", "dates"), [
    ("On March 3, 2021 or the 4th of april we met.", "en",
     {"March 3, 2021": (None, 3, 2, 2021, False), "the 4th of april": (None, 4, 3, None, False)}),
    ("In March 2020, since last may or May, until August 1999 and in june; mid-June 2", "en",
     {"In March 2020": (None, None, 2, 2020, True), "August 1999": (None, None, 7, 1999, False),
      "in june": (None, None, 5, None, True)}),
    ("en mars, jusqu'en août 2020, depuis avril, fin mai, sur Mars; en juin 3", "fr",
     {"en mars": (None, None, 2, None, True), "jusqu'en août 2020": (None, None, 7, 2020, False),
      "avril": (None, None, 3, None, False)}),
    ("im Mai 2020, seit August", "de",
     {"im Mai 2020": (None, None, 4, 2020, True), "August": (None, None, 7, None, False)}),
    ("en mayo de 2020; nel maggio 2020", "es", {"en mayo de 2020": (None, None, 4, 2020, True)}),
    ("nel maggio 2020, a giugno", "it",
     {"nel maggio 2020": (None, None, 4, 2020, True), "a giugno": (None, None, 5, None, True)}),
    ("Friday, Dec. 25th, Sept 4; Sunday the 2nd of May 1999", "en",
     {"Friday, Dec. 25th": (4, 25, 11, None), "Sept 4": (None, 4, 8, None),
      "Sunday the 2nd of May 1999": (6, 2, 4, 1999)}),
    ("I may 5, we march 3 miles, in march, to April, May 5:30", "en", {}),
    ("March 3-5, 1.5 May, 32 May", "en", {}),
    ("Le 3 mars 2020, lundi 12 juin, jusqu'au 1er avril", "fr",
     {"Le 3 mars 2020": (None, 3, 2, 2020), "lundi 12 juin": (0, 12, 5, None),
      "au 1er avril": (None, 1, 3, None)}),
    ("am 3. Oktober 1990; Freitag, den 4. Mai", "de",
     {"3. Oktober 1990": (None, 3, 9, 1990), "Freitag, den 4. Mai": (4, 4, 4, None)}),
    ("el lunes 3 de mayo de 2021", "es", {"lunes 3 de mayo de 2021": (0, 3, 4, 2021)}),
    ("il 1º aprile, dal 5 maggio", "it",
     {"il 1º aprile": (None, 1, 3, None), "dal 5 maggio": (None, 5, 4, None)}),
    ("maandag 3 mei 2021", "nl", {"maandag 3 mei 2021": (0, 3, 4, 2021)}),
    ("3 March", "xx", {}), ("3 March", "", {}), ("March", "en", {}),
])  # fmt: skip
def test_dates_are_read(text: str, source: str, dates: dict[str, tuple[Any, ...]]) -> None:
    target = "en" if source == "fr" else "fr"
    made = {text[start:end]: date for start, end, date in dates_of(text, source, target)}
    assert made == {each: Date(*date) for each, date in dates.items()}
    assert list(dates_of(text, source, source)) == list(dates_of(text, source, "zz")) == []


@pytest.mark.parametrize(("date", "language", "replaced", "new"), [
    (Date(None, 3, 2, 2021), "en", "Monday", "March 3, 2021"),
    (Date(4, 3, 2, None), "en", "Monday", "Friday, March 3"),
    (Date(None, 1, 3, None), "fr", "lundi", "le 1er avril"),
    (Date(None, 2, 3, None), "fr", "à lundi", "au 2 avril"),
    (Date(None, 2, 3, 1999), "fr", "De lundi", "Du 2 avril 1999"),
    (Date(0, 12, 5, None), "fr", "à samedi", "à lundi 12 juin"),
    (Date(None, 12, 5, None), "de", "Montag", "12. Juni"),
    (Date(4, 4, 4, 2020), "de", "Montag", "Freitag, 4. Mai 2020"),
    (Date(None, 3, 4, 2021), "es", "lunes", "3 de mayo de 2021"),
    (Date(None, 1, 4, None), "it", "a lunedì", "al 1º maggio"),
    (Date(None, 3, 4, 2021), "nl", "maandag", "3 mei 2021"),
    (Date(None, None, 2, 2020, within=True), "fr", "Lundi", "En mars 2020"),
    (Date(None, None, 7, None), "fr", "à lundi", "en août"),
    (Date(None, None, 7, None), "fr", "de lundi", "d'août"),
    (Date(None, None, 7, None), "fr", "lundi", "août"),
    (Date(None, None, 4, 2020, within=True), "en", "on Monday", "in May 2020"),
    (Date(None, None, 4, 2020, within=True), "en", "Monday", "in May 2020"),
    (Date(None, None, 4, None), "en", "Monday", "May"),
    (Date(None, None, 4, 2020, within=True), "de", "am Montag", "im Mai 2020"),
    (Date(None, None, 4, None), "es", "el lunes", "mayo"),
    (Date(None, None, 4, 2021, within=True), "es", "el lunes", "en mayo de 2021"),
    (Date(None, 3, 4, None), "en", "in Monday", "on May 3"),
])  # fmt: skip
def test_dates_are_written(date: Date, language: str, replaced: str, new: str) -> None:
    assert written(date, language, replaced) == new
    assert has_date(new, date, language)


DATES = st.builds(
    lambda day, with_weekday, with_year: Date(
        day.weekday() if with_weekday else None, day.day, day.month - 1,
        day.year if with_year else None,
    ),
    st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31)), st.booleans(), st.booleans(),
)  # fmt: skip


@given(DATES, DATES, st.sampled_from(sorted(MONTHS)), st.sampled_from(sorted(MONTHS)))
def test_what_is_written_is_read(date: Date, other: Date, source: str, target: str) -> None:
    text = written(date, source, names(WEEKDAYS, source)[0])
    read = [each for _, _, each in dates_of(f"x {text}", source, "en" if source == "fr" else "fr")]
    assert read == [date]
    assert has_date(f"({text})", date, source)
    same_day = (date.day, date.month) == (other.day, other.month)
    assert not has_date(text, other, source) or same_day
    assert len(names(MONTHS, target)) == 12
    assert len(names(WEEKDAYS, target)) == 7


@pytest.mark.parametrize(("text", "source", "target", "read", "translation", "new"), [
    ("See us on Friday, March 3!", "en", "fr", "See us on Friday!", "À vendredi !",
     "À vendredi 3 mars !"),
    ("Until May 1, Monday or June 5, 1999.", "en", "fr", "Until Saturday, Monday or Sunday.",
     "Jusqu'à samedi, lundi ou dimanche.", "Jusqu'au 1er mai, lundi ou le 5 juin 1999."),
    ("In May 2020 he slept until August.", "en", "fr", "On Monday he slept until Saturday.",
     "Lundi, il dormait jusqu'à samedi.", "En mai 2020, il dormait jusqu'en août."),
    ("Jusqu'en mai, il dort en juin.", "fr", "en", "Jusqu'à lundi, il dort samedi.",
     "Until Monday he sleeps on Saturday.", "Until May he sleeps in June."),
    ("En mai il dort.", "fr", "en", "Lundi il dort.", "Monday he sleeps.", "In May he sleeps."),
    ("Le 3 mars, il dort jusqu'au 5 mai.", "fr", "en", "Lundi, il dort jusqu'à samedi.",
     "On Monday he sleeps until Saturday.", "On March 3 he sleeps until May 5."),
])  # fmt: skip
def test_days_of_the_week_stand_for_dates(
    text: str, source: str, target: str, read: str, translation: str, new: str
) -> None:
    items = [Item("date", a, b, text[a:b], date=d) for a, b, d in dates_of(text, source, target)]
    reading = with_stand_ins(text, items, source, target)
    assert reading is not None
    assert reading.text == read
    for stand_in in reading.stand_ins:
        match = stand_in.pattern.search(translation)
        assert match is not None
        begin, end = match.span()
        translation = translation[:begin] + stand_in.written(match) + translation[end:]
    assert translation == new
    assert all(
        not weekday_pattern(2, target).search(f"{each} x") for each in ("vendredis", "Monday")
    )
    assert as_weekday("the 3rd of May", "Monday", "en") == "Monday"


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("rnnsearch-tiny.tatoeba-fr-en-76k", "Nous partons le 4 juin 1974.",
     "We leave June 4, 1974."),
    ("convs2s-tiny.tatoeba-en-fr-76k", "We leave on August 31st.", "Nous partons le 31 août."),
    ("transformer-tiny.tatoeba-en-fr-76k", "I was born in May 1966.", "Je suis né en mai 1966."),
])  # fmt: skip
def test_a_lost_date_is_copied(name: str, text: str, expected: str) -> None:
    translator = zoo.load(CHECKPOINTS / name)
    assert translator.translate(text) == expected
    assert translator.translate(text, split=False) != expected


def test_letters_in_parts_are_read_as_one() -> None:
    """As in the names of files on a Mac: û as u and ^."""
    translator = zoo.load(CHECKPOINTS / "transformer-tiny.tatoeba-fr-en-76k")
    typed = [unicodedata.normalize("NFD", text) for text in ("Le 4 août 1974", "Où est Zoë ?")]
    made = translator.translate(typed, details=True)
    assert [one.text for one in made] == ["August 4, 1974", "Where is Zoë?"]
    assert [one.source for one in made] == typed
    assert not any(one.unseen_words or one.respelled for one in made)
