"""Dates with the name of a month, such as "March 3, 2021", which languages write in their ways."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MONTHS = {
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "en": "january february march april may june july august september october november december",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
}
WEEKDAYS = {
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "en": "monday tuesday wednesday thursday friday saturday sunday",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
}
CAPITALIZED = ("de", "en")
"""Languages that write months and days of the week with a capital."""

WORDS = ("March", "May", "MARCH", "MAY")
"""English months that are words of other meanings in small letters."""

FREQUENT = (0, 5, 6, 4, 3, 2, 1)
"""Days of the week, those first that small networks translate best."""

ON = {"de": "am", "en": "on", "es": "el", "fr": "", "it": "", "nl": "op"}
IN = {"de": "im", "en": "in", "es": "en", "fr": "en", "it": "a", "nl": "in"}
"""What precedes a day of the week, and a month, when something happens then."""

BEFORE_WEEKDAYS = {
    "fr": {"en": "", "jusqu'en": "jusqu'à"}, "it": {"a": "", "in": "", "nel": ""},
    **{language: {IN[language]: ON[language]} for language in ("de", "en", "es", "nl")},
}  # fmt: skip
"""What precedes a day of the week, by what precedes a month; with an apostrophe, an end."""

BEFORE_MONTHS = {
    "de": "seit bis ab letzten nächsten diesen", "en": "since until till by last next this every",
    "es": "desde hasta", "fr": "depuis avant après dès chaque ce", "it": "da", "nl": "sinds tot",
}  # fmt: skip
"""Other words before a month alone: some months have other meanings elsewhere."""

BEFORE_DATES = {
    "fr": {"": "le", "à": "au", "de": "du"},
    "it": {"": "il", "a": "al", "di": "del", "da": "dal"},
}
"""What precedes a date, by what precedes a day of the week, which has no article there."""

FORMS = {"de": "{}. {}", "en": "{1} {0}", "es": "{} de {}"}
BEFORE_YEAR = {"en": ", ", "es": " de "}
AFTER_WEEKDAY = {"de": ", ", "en": ", "}
FIRST = {"fr": "1er", "it": "1º"}
"""The first day of a month, where that is an ordinal number and others are not."""


class Date(NamedTuple):
    """A day of the week, from 0, a day, a month, from 0, and a year; None where it has none.

    within: whether a month without a day follows "in", or such a word of another language.
    """

    weekday: int | None
    day: int | None
    month: int
    year: int | None
    within: bool = False


def names(table: dict[str, str], language: str) -> list[str]:
    """Return the months or the days of the week, as a language writes them."""
    words = table[language].split()
    return [word.title() for word in words] if language in CAPITALIZED else words


def dates_of(text: str, source: str, target: str) -> Iterator[tuple[int, int, Date]]:
    """Yield where each date of a text begins and ends, and the date.

    It begins with a day of the week, or with what precedes it and no day of the week: an article,
    or "in" before a month.

    Args:
        text: the text.
        source, target: the codes of its language and of the translation's.
    """
    if not {source, target} <= MONTHS.keys() or source == target:
        return
    if not _beginnings(source).search(text.lower()):  # so it is with most texts
        return
    weekdays, months = (names(table, source) for table in (WEEKDAYS, MONTHS))
    for match in _expression(source).finditer(text):
        parts = {name.partition("_")[0]: s for name, s in match.groupdict().items() if s}
        weekday = _index(weekdays, parts["weekday"]) if "weekday" in parts else None
        day, year = (int(parts[name]) if name in parts else None for name in ("day", "year"))
        if day is None or 1 <= day <= 31:
            month = _index(months, parts["month"])
            yield *match.span(), Date(weekday, day, month, year, "within" in parts)


def _index(words: Sequence[str], word: str) -> int:
    """Return the index of a word, or of what it abbreviates."""
    short = word.rstrip(".").lower()
    return next(i for i, each in enumerate(words) if each.lower().startswith(short))


@functools.cache
def _beginnings(language: str) -> re.Pattern[str]:
    """Return an expression of what the months of a language begin with, in lower case."""
    return re.compile("|".join(name[:3].lower() for name in names(MONTHS, language)))


@functools.cache
def _expression(language: str) -> re.Pattern[str]:
    """Return the expression of dates in a language."""
    weekdays, months = ("|".join(names(table, language)) for table in (WEEKDAYS, MONTHS))
    alone = months
    articles = "|".join({**BEFORE_DATES, "en": {"": "the"}}.get(language, {}).values()) or "(?!)"
    of, ending, month_first = r"(?:de\s|d['’])?", "(?:er|[.º°])?", "(?!)"
    year = r"[12][0-9]{3} (?!\w)"
    if language == "en":
        alone = rf"(?:(?-i:{'|'.join(WORDS)})|(?!may|march)(?:{months}))"
        short = "|".join(name[:3] for name in names(MONTHS, language) if name not in WORDS)
        months = rf"(?:{alone}|(?:sept|{short})\b\.?)"
        of, ending = r"(?:of\s)?", "(?:st|nd|rd|th)?"
        month_first = rf"(?P<month_2>{months})\s(?P<day_2>[0-9]{{1,2}}){ending}"
        month_first += rf"(?![\w:/–-]|[.,][0-9]) (?: ,?\s (?P<year_2>{year}) )?"
    begins = BEFORE_WEEKDAYS[language]
    within = "|".join(word for word in begins if "'" not in word)
    until = "|".join(word.replace("'", "['’]") for word in begins if "'" in word) or "(?!)"
    before = "|".join(rf"(?<=\b{word}\s)" for word in BEFORE_MONTHS[language].split())
    return re.compile(
        rf"""
        (?<![\w.,:/–-]) (?: (?: {articles} ) \s )?
        (?: (?P<weekday> {weekdays} ) ,? \s (?: (?: le|el|il|de[nm]|the ) \s )? )?
        (?: (?P<day> [0-9]{{1,2}} ) {ending} \s {of} (?P<month> {months} ) (?!\w)
            (?: ,? \s (?:del?\s)? (?P<year> {year} ) )?
          | {month_first}
        )
      | (?<![\w-]) (?: (?: {until} | (?P<within> {within} ) ) \s | {before} ) (?P<month_3> {alone} )
        (?! [\w'’-] | \s[0-9]{{1,2}}(?!\w) ) (?: ,? \s (?:del?\s)? (?P<year_3> {year} ) )?
        """,
        re.VERBOSE | re.IGNORECASE,
    )


def as_weekday(date: str, weekday: str, language: str) -> str:
    """Return what is read for a date: a day of the week, after what precedes it in the language."""
    first = date.split()[0].lower().replace("’", "'")
    articles = {article: before for before, article in BEFORE_DATES.get(language, {}).items()}
    read = f"{(articles | BEFORE_WEEKDAYS[language]).get(first, '')} {weekday}".strip()
    return read[0].upper() + read[1:] if date[0].isupper() else read


@functools.cache
def weekday_pattern(weekday: int, language: str) -> re.Pattern[str]:
    """Return the pattern of a day of the week in a translation, with what precedes it."""
    sides = BEFORE_DATES.get(language, {ON[language]: IN[language]}).items()
    before = "|".join(word for side in sides for word in side if word)
    name = names(WEEKDAYS, language)[weekday]
    return re.compile(rf"(?:\b(?:{before})\s)?\b{name}\b", re.IGNORECASE)


def written(date: Date, language: str, replaced: str, first: bool = False) -> str:
    """Return a date in place of a day of the week.

    Args:
        date: the date.
        language: the code of the language.
        replaced: the day of the week, after what precedes it.
        first: whether the translation begins with it.
    """
    before, text = replaced.rpartition(" ")[0], names(MONTHS, language)[date.month]
    begins = replaced[:1].isupper() and bool(first or before or language not in CAPITALIZED)
    if date.day is None:
        return _begun(_month_written(date, language, before.lower(), text), begins)
    day = FIRST.get(language, "1") if date.day == 1 else str(date.day)
    text = FORMS.get(language, "{} {}").format(day, text)
    if date.year is not None:
        text += f"{BEFORE_YEAR.get(language, ' ')}{date.year}"
    if date.weekday is not None:
        weekday = names(WEEKDAYS, language)[date.weekday]
        text = f"{weekday}{AFTER_WEEKDAY.get(language, ' ')}{text}"
    elif language in BEFORE_DATES:
        before = BEFORE_DATES[language].get(before.lower(), before)
    elif before.lower() == IN[language]:
        before = ON[language]
    return _begun(f"{before} {text}".strip(), begins)


def _month_written(date: Date, language: str, before: str, text: str) -> str:
    """Return a month without a day, after what precedes it."""
    if date.year is not None:
        text += f"{BEFORE_YEAR.get(language, ' ').replace(',', '')}{date.year}"
    if not before:
        before = IN[language] if date.within else ""
    elif before in ("le", "à", "il", ON[language]):
        before = IN[language] if date.within or language != "es" else ""
    elif before in ("de", "di") and text[0] in "ao":
        return f"d'{text}"
    return f"{before} {text}".strip()


def _begun(text: str, with_capital: bool) -> str:
    return text[0].upper() + text[1:] if with_capital else text


def has_date(text: str, date: Date, language: str) -> bool:
    """Return whether a text in the language has the day and the month of a date side by side, and
    its day of the week and its year, if it has them.
    """
    month = names(MONTHS, language)[date.month]
    if date.day is None:
        forms = rf"\b{month}\b"
    elif language == "en":
        day = rf"{date.day}(?:st|nd|rd|th)?"
        forms = rf"\b{month} {day}(?!\w)|(?<![\w.,]){day}(?: of)? {month}\b"
    else:
        first = "|premier|primo|primero|ersten" if date.day == 1 else ""
        forms = rf"(?<![\w.,])(?:{date.day}(?:er|[.º°])?{first}) (?:de )?{month}\b"
    words = [forms]
    if date.weekday is not None:
        words.append(rf"\b{names(WEEKDAYS, language)[date.weekday]}\b")
    if date.year is not None:
        words.append(rf"(?<!\w){date.year}(?!\w)")
    return all(re.search(word, text, re.IGNORECASE) for word in words)
