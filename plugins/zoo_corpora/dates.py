"""Generated dates: English, or in many languages, to ISO 8601.

A date is in one split only, whatever it is written like. Dates of digits alone are left out, unless
they begin with the year: `3/5/2021` is a day in May or in March.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from zoo import Pair, cache_folder, read_tsv
from zoo_corpora.generated import draw, permute, write_pairs

if TYPE_CHECKING:
    from babel import Locale

FIRST = datetime.date(1600, 1, 1)
DAYS = (datetime.date(2200, 1, 1) - FIRST).days

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKDAYS_3 = tuple(weekday[:3] for weekday in WEEKDAYS)

ENGLISH = (
    "{month} {day}, {year}",
    "{day} {month} {year}",
    "{month} {nth}, {year}",
    "{nth} {month} {year}",
    "the {nth} of {month} {year}",
    "the {nth} of {month}, {year}",
    "{month} the {nth}, {year}",
    "{weekday}, {month} {day}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday} {nth} {month} {year}",
    "{weekday}, the {nth} of {month} {year}",
    "{mon} {day}, {year}",
    "{day} {mon} {year}",
    "{day:02} {mon} {year}",
    "{mon} {nth}, {year}",
    "{wday} {day} {mon} {year}",
    "{wday}, {mon} {day}, {year}",
    "{day}-{mon}-{year}",
    "{year} {month} {day}",
    "{year}, {month} {nth}",
)
"""Ways to write a date in English."""

LANGUAGES = (
    "af ar bg bn ca cs cy da de el en es et eu fa fi fil fr ga gl gu he hi hr hu hy id is it ja ka "
    "kk kn ko lt lv mk ml mr ms nb nl pa pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh zu"
)
"""The languages of `dates-iso`; no text in them is two different dates."""

WIDTHS = ("medium", "long", "full")
"""The widths of date formats in the Unicode locale data; short ones are of digits alone."""


def english(split: str, limit: int | None) -> Iterator[Pair]:
    """Yield dates from 1600 to 2199 in English, in twenty formats, with ISO 8601 as the target."""
    for code in draw(split, DAYS, limit):
        date = FIRST + datetime.timedelta(code)
        choice = permute(code, 3 * len(ENGLISH) * DAYS)  # another number for each date
        text = ENGLISH[choice % len(ENGLISH)].format(
            year=date.year,
            month=MONTHS[date.month - 1],
            mon=MONTHS[date.month - 1][:3],
            day=date.day,
            nth=f"{date.day}{_suffix(date.day)}",
            weekday=WEEKDAYS[date.weekday()],
            wday=WEEKDAYS_3[date.weekday()],
        )
        if choice // len(ENGLISH) % 8 == 0:
            text = text.lower()
        yield Pair(text, date.isoformat())


def _suffix(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def multilingual(split: str, limit: int | None) -> Iterable[Pair]:
    """Return dates from 1600 to 2199 in over sixty languages, with ISO 8601 as the target.

    They are written as the Unicode locale data prescribes, generated on first use, and then read
    from the cache.

    Raises:
        MissingPackageError: Babel, which has the locale data, is not installed.
    """
    from zoo.interop import require

    require("babel", extra="dates", purpose="dates-iso")
    version = importlib.metadata.version("babel")
    file = cache_folder() / "datasets" / f"dates-iso-{version}" / f"{split}.tsv"
    if not file.is_file():
        write_pairs(file, _write(split))
    return islice(read_tsv(file), limit)


def _write(split: str) -> Iterator[Pair]:
    from babel.dates import format_date

    for code in draw(split, DAYS):
        date = FIRST + datetime.timedelta(code)
        choice = permute(code, 3 * len(formats()) * DAYS)
        locale, width = formats()[choice % len(formats())]
        yield Pair(format_date(date, width, locale=locale), date.isoformat())


@cache
def formats() -> list[tuple[Locale, str]]:
    """Return the locale and the width of every format of `dates-iso`."""
    from babel import Locale

    locales = [Locale.parse(language) for language in LANGUAGES.split()]
    return [
        (locale, width)
        for locale in locales
        for width in WIDTHS
        if re.search("MMM|LLL|^y", locale.date_formats[width].pattern)
    ]
