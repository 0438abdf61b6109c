"""What stands for numbers, dates, addresses and names while a text is translated.

A small network loses what its training lacks: it writes 1250 for 12,50, and an address with other
letters. A number of two digits, or a known name, it copies. So it reads one of these instead, and
what it stands for replaces it in the translation, as the target language writes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from zoo.translation import dates, large_amounts
from zoo.translation.large_amounts import SYMBOLS, stand_in_pattern
from zoo.translation.lost_items import BETWEEN, CURRENCIES, Item, Kind
from zoo.translation.number_formats import MINUS, POINT, converted
from zoo.translation.times import time_pattern

_TWO_DIGITS = ("47", "58", "63", "72", "94", "35", "26", "59", "73", "64")
_THREE_DIGITS = ("250", "370", "460", "520", "640", "730", "940", "260", "340", "570")
_FREQUENT = ("20", "30", "12", "25", "15", "60", "40", "24", "16", "90")
_OF_CAPTIONS = ("10", "24", "33", "28", "18", "25", "6", "5", "11", "3")
_PEOPLE, _CITIES = ("Tom", "Maria", "John", "Anna"), ("Boston", "Berlin", "Madrid", "Tokyo")
ATTEMPTS = (
    (_PEOPLE, _TWO_DIGITS, 0), (_CITIES, _THREE_DIGITS, 0), (_TWO_DIGITS, _FREQUENT, 0),
    (_FREQUENT, _TWO_DIGITS, 1), (_PEOPLE, _OF_CAPTIONS, 0), (_CITIES, _OF_CAPTIONS[1:], 0),
)  # fmt: skip
"""What stands for addresses and names, and for numbers, and which currency, at each attempt.

Numbers do not end in 1, and their English names do not begin with a vowel.
"""

_CURRENCY = r"(?:d[oó]l(?:lar|ar|lari)(?:e?s)?|euros?)"

VOWELS = "AEIOUYÀÁÂÄÅÆÈÉÊËÌÍÎÏÒÓÔÖØŒÙÚÛÜÝ"
WORD = re.compile(r"\w+")


class StandIn(NamedTuple):
    """What a network reads for an item.

    text: of the stand-in; kept: what every translation keeps of the item; pattern: of the
    stand-in in a translation; written: returns what the target language writes for the item in
    place of a match; spans: of the item in the text, and of the stand-in in what is read, (start,
    end) in characters.
    """

    text: str
    kept: str
    pattern: re.Pattern[str]
    written: Callable[[re.Match[str]], str]
    spans: tuple[tuple[int, int], tuple[int, int]]


class Reading(NamedTuple):
    """A text with stand-ins, and these in order."""

    text: str
    stand_ins: tuple[StandIn, ...]


def with_stand_ins(
    text: str, items: Iterable[Item], source: str, target: str, attempt: int = 0
) -> Reading | None:
    """Return a text in which stand-ins replace items; None if there are not enough of them.

    Args:
        text: the text.
        items: of it, in order.
        source, target: the codes of its language and of the translation's; empty if not known.
        attempt: the number of the attempt, from 0; each takes others.
    """
    items = list(items)
    dated = [(item.start, item.end, " ") for item in items if item.date is not None]
    words, used = {word.title() for word in WORD.findall(replaced(text, dated))}, set[str]()
    read, stand_ins, end = "", [], 0
    for item in items:
        among = _among(item, source, attempt)
        taken = text if among[0].isdigit() else words
        short = next((one for one in among if one.title() not in taken and one not in used), "")
        if not short:
            return None
        used.add(short)
        shown = _shown(item, short, source, target, attempt)
        read += text[end : item.start]
        spans = (item.start, item.end), (len(read), len(read) + len(shown))
        in_place = _in_place(item, short, source, target)
        stand_ins.append(StandIn(short, _kept(item), *in_place, spans))
        read, end = read + shown, item.end
    return Reading(read + text[end:], tuple(stand_ins)) if stand_ins else None


def _among(item: Item, source: str, attempt: int) -> tuple[str, ...]:
    """Return what may stand for an item.

    A time stands for itself, counted in the other way, and days of the week for dates, first their
    own.
    """
    names, numbers, _ = ATTEMPTS[attempt]
    if item.date is not None:
        days = dates.names(dates.WEEKDAYS, source)
        own = [] if attempt or item.date.weekday is None else [item.date.weekday]
        return tuple(days[i] for i in [*own, *dates.FREQUENT[attempt:]])
    if item.kind == "time":
        return (item.number,)
    if item.kind == "name":
        return _beginning_as(item.text, names)
    return names if item.kind == "address" else numbers


def _shown(item: Item, short: str, source: str, target: str, attempt: int) -> str:
    """Return what is read for an item: a stand-in with what belongs to the item's number."""
    if item.date is not None:
        return dates.as_weekday(item.text, short, source)
    is_money = item.kind == "money" or (item.kind == "amount" and item.symbol)
    if is_money and source in CURRENCIES and target in CURRENCIES:
        return f"{short} {CURRENCIES[source][ATTEMPTS[attempt][2]]}"
    if item.number and item.number in item.text and item.kind not in ("time", "amount"):
        return item.text.replace(item.number, short)
    if item.kind == "amount" and item.text[-1] in "'’":  # of an elided "de"
        return f"{short} "
    return f"{short} {item.symbol}".strip()


def _kept(item: Item) -> str:
    """Return what a translation keeps of an item: its text, of a date the numbers alone."""
    if item.date is not None:
        return " ".join(re.findall("[0-9]+", item.text))
    return item.number if item.kind == "time" else item.text


def _in_place(
    item: Item, short: str, source: str, target: str
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return the pattern of a stand-in in a translation, and what writes the item in its place."""
    if item.kind == "time":  # its translation stays
        return time_pattern(short, target), lambda match: match[0]
    if (date := item.date) is not None:
        pattern = dates.weekday_pattern(dates.names(dates.WEEKDAYS, source).index(short), target)
        return pattern, lambda match: dates.written(date, target, match[0], match.start() == 0)
    if item.kind == "amount":
        amount = item.number, item.power, item.symbol
        pattern = _pattern("money", short) if item.symbol else stand_in_pattern(short, target)
        return pattern, lambda match: large_amounts.written(amount, match, source, target)
    new = _written(item, source, target)
    return _pattern(item.kind, short), lambda match: new


def _beginning_as(name: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return names, those first that begin with a vowel if a name does: French elides before it."""
    begins = name[0] in VOWELS
    return tuple(sorted(others, key=lambda other: (other[0] in VOWELS) != begins))


Replacement = tuple[int, int, str]
"""A span of a text, (start, end), and what replaces it."""


def as_written(items: Iterable[Item], source: str, target: str) -> list[Replacement]:
    """Return what replaces items, which are in order: them as the target language writes them."""
    return [(item.start, item.end, _written(item, source, target)) for item in items]


def _written(item: Item, source: str, target: str) -> str:
    """Return an item as the target language writes it."""
    if not item.number:
        return BETWEEN.sub("\u2013", item.text) if item.kind == "code" else item.text
    number = converted(item.number, source, target)
    if item.kind == "number" or not (source and target):
        return item.text.replace(item.number, number)
    minus, plain = number[: number[0] in MINUS], number.lstrip(MINUS)
    return f"{minus}{item.symbol}{plain}" if target in POINT else f"{number} {item.symbol}"


@functools.cache
def _pattern(kind: Kind, text: str) -> re.Pattern[str]:
    """Return the pattern of a stand-in in a translation; of money, with its currency."""
    alone = rf"(?<![\w.,]){text}(?!\w|[.,]\d)"
    if kind == "money":
        before = rf"[{SYMBOLS}]\s?{text}(?!\w|[.,]\d)"
        alone = rf"{before}|{alone}[\s-]?(?:{_CURRENCY}\b|[{SYMBOLS}])"
    return re.compile(alone, re.IGNORECASE)


def replacements_in(translation: str, stand_ins: Sequence[StandIn]) -> list[Replacement] | None:
    """Return the replacements in a translation, in order.

    None unless it has each stand-in once, and none that begins within another.
    """
    replacements: list[Replacement] = []
    for stand_in in stand_ins:
        matches = list(stand_in.pattern.finditer(translation))
        is_number = stand_in.text.isdigit()
        if len(matches) != 1 or (is_number and translation.count(stand_in.text) > 1):
            return None
        replacements.append((*matches[0].span(), stand_in.written(matches[0])))
    replacements.sort()
    are_apart = all(end <= start for (_, end, _), (start, _, _) in pairwise(replacements))
    return replacements if are_apart else None


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return a text with replacements, which are in order."""
    for start, end, new in reversed(replacements):
        text = text[:start] + new + text[end:]
    return text
