"""What stands for numbers, addresses and names while a text is translated.

A small network loses what its training lacks: it writes 1250 for 12,50, and an address with other
letters. A number of two digits, or a known name, it copies. So it reads one of these instead, and
what it stands for replaces it in the translation, as the target language writes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo.translation.lost_items import CURRENCIES, SYMBOLS, Item, Kind
from zoo.translation.number_formats import MINUS, POINT, converted

_TWO_DIGITS = ("47", "58", "63", "72", "94", "35", "26", "59", "73", "64")
_THREE_DIGITS = ("250", "370", "460", "520", "640", "730", "940", "260", "340", "570")
_FREQUENT = ("20", "30", "12", "25", "15", "60", "40", "24", "16", "90")
_PEOPLE, _CITIES = ("Tom", "Maria", "John", "Anna"), ("Boston", "Berlin", "Madrid", "Tokyo")
ATTEMPTS = (
    (_PEOPLE, _TWO_DIGITS, 0), (_CITIES, _THREE_DIGITS, 0), (_TWO_DIGITS, _FREQUENT, 0),
    (_FREQUENT, _TWO_DIGITS, 1),
)  # fmt: skip
"""What stands for addresses, for numbers and for currencies at each attempt.

Numbers do not end in 1, and their English names do not begin with a vowel.
"""

_CURRENCY = r"(?:d[oó]l(?:lar|ar|lari)(?:e?s)?|euros?)"

VOWELS = "AEIOUYÀÁÂÄÅÆÈÉÊËÌÍÎÏÒÓÔÖØŒÙÚÛÜÝ"
WORD = re.compile(r"\w+")


class StandIn(NamedTuple):
    """What a network reads for an item.

    text: of the stand-in; written: what the target language writes for the item; spans: of the
    item in the text, and of the stand-in in what is read, (start, end) in characters.
    """

    kind: Kind
    text: str
    written: str
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
        attempt: the number of an earlier attempt, plus 1: others are taken.
    """
    names, numbers, currency = ATTEMPTS[attempt]
    words, used = {word.title() for word in WORD.findall(text)}, set[str]()
    read, stand_ins, end = "", [], 0
    for item in items:
        among: tuple[str, ...]
        among = names if item.kind in ("address", "name") else numbers
        if item.kind == "name":
            among = _beginning_as(item.text, names)
        taken = text if among[0].isdigit() else words
        short = next((one for one in among if one not in taken and one not in used), "")
        if not short:
            return None
        used.add(short)
        shown = item.text.replace(item.number, short) if item.number else short
        if item.number and item.number not in item.text:  # "5 € 20"
            shown = f"{short} {item.symbol}"
        if item.kind == "money" and source in CURRENCIES and target in CURRENCIES:
            shown = f"{short} {CURRENCIES[source][currency]}"
        read += text[end : item.start]
        spans = (item.start, item.end), (len(read), len(read) + len(shown))
        stand_ins.append(StandIn(item.kind, short, _written(item, source, target), spans))
        read, end = read + shown, item.end
    return Reading(read + text[end:], tuple(stand_ins)) if stand_ins else None


def _beginning_as(name: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return names, those first that begin with a vowel if a name does: French elides before it."""
    begins = name[0] in VOWELS
    return tuple(sorted(others, key=lambda other: (other[0] in VOWELS) != begins))


def _written(item: Item, source: str, target: str) -> str:
    """Return an item as the target language writes it."""
    if not item.number:
        return item.text
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


Replacement = tuple[int, int, str]
"""A span of a text, (start, end), and what replaces it."""


def replacements_in(translation: str, stand_ins: Sequence[StandIn]) -> list[Replacement] | None:
    """Return the replacements in a translation, in order.

    None unless it has each stand-in once, and none that begins within another.
    """
    replacements: list[Replacement] = []
    for stand_in in stand_ins:
        matches = list(_pattern(stand_in.kind, stand_in.text).finditer(translation))
        is_number = stand_in.text.isdigit()
        if len(matches) != 1 or (is_number and translation.count(stand_in.text) > 1):
            return None
        replacements.append((*matches[0].span(), stand_in.written))
    replacements.sort()
    ends = [0, *(end for _, end, _ in replacements)]
    are_apart = all(end <= start for end, (start, _, _) in zip(ends, replacements, strict=False))
    return replacements if are_apart else None


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return a text with replacements, which are in order."""
    for start, end, new in reversed(replacements):
        text = text[:start] + new + text[end:]
    return text
