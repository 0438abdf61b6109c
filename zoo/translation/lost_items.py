"""Numbers, amounts of money, codes and addresses that a translation may lose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from zoo.translation.addresses import ADDRESS, without_end
from zoo.translation.dates import Date, has_date
from zoo.translation.large_amounts import SYMBOLS, has_amount
from zoo.translation.lost_numbers import (
    NEVER_IN_WORDS,
    NUMBER,
    OFTEN_IN_WORDS,
    lost_numbers,
    value_of,
)
from zoo.translation.number_formats import MINUS, POINT, SMALL, converted
from zoo.translation.times import time_pattern

Kind = Literal["number", "version", "money", "code", "address", "name", "time", "date", "amount"]
_AFTER = rf"""
(?! \s? (?: [ap]\.?m\b | uhr\b | h\b | h[0-9] | o'clock | thousand | mil\b | mille\b | tausend
          | mill?i | billi | bn\b | m[ir]?[lr]?d\b | mio\b | trilli
          | (?-i: [kKM]\b | Md?[{SYMBOLS}] ) ) )
"""
"""No time of day, and no number that a word multiplies."""

BETWEEN = re.compile(r"(?<=[0-9])\s(?:à|to|bis|tot|a)\s(?=[0-9])")
"""A word between the numbers of a range."""

_RANGE = rf"""[0-9]{{1,6}} (?: \s? [x×] \s? [0-9]{{1,6}} | [–-] [0-9]{{1,6}} | / [0-9]{{1,6}}
  ){{1,3}} | [0-9]{{1,3}} {BETWEEN.pattern} [0-9]{{1,3}} (?! [0-9] | [.,][0-9] )"""
RANGE = re.compile(_RANGE, re.VERBOSE)
"""A range, the size of a thing, or a fraction."""

ITEM = re.compile(
    rf"""
    (?P<address> {ADDRESS.pattern} )
  | (?<! [\w.,] ) (?P<euros> [0-9]{{1,6}} ) \s? € \s? (?P<cents> [0-9]{{2}} ) (?! \w | [.,]\d )
  | (?P<before> (?<! [\w{SYMBOLS}] ) (?<! [0-9][\ \u00a0\u202f] )
        (?: (?-i: US|CA|AU|HK|NZ|[ACR] ) (?= \$ ) )? [{SYMBOLS}] [\ \u00a0\u202f]? )?
    (?<! [\w.,:/\\@%] ) (?<! [0-9] [\ \u00a0\u202f'’–-] )
    (?P<number> (?: (?<! \S ) [-−] )? (?:
        (?!0) [0-9]{{1,3}} (?P<group>[.,'’\u2009\u00a0\u202f\ ]) [0-9]{{3}} (?! [0-9] )
            (?: (?P=group) [0-9]{{3}} (?! [0-9] ) ){{0,4}} (?: [.,] [0-9]{{1,9}} )?
      | [0-9]{{1,18}} (?: [.,] [0-9]{{1,9}} )? ) )
    (?= (?-i: [kcm]?[glm] \b )?
        (?! \w | [.,:/'’–-] [0-9] | \s? [{SMALL}] | \s? [x×] \s? [0-9]
          | (?<! [0-9]{{4}} ) {BETWEEN.pattern} [0-9]{{1,3}} (?! [0-9] | [.,][0-9] )
          | [\ \u00a0\u202f] [0-9] ) ) {_AFTER}
    (?P<after> [\ \u00a0\u202f]? [{SYMBOLS}] (?! \w ) )?
  | (?P<code> (?<! [\w.,:/\\@\#%{SYMBOLS}+-] ) (?<! [0-9]\  ) (?:
        (?: \+[0-9]{{1,3}} \ ? )? \( [0-9]{{2,4}} \) \ ? [0-9]{{2,4}} [\ -] [0-9]{{2,4}}
      | [+v]? [0-9]{{1,9}} (?: [\ ./:-] [0-9]{{1,9}} ){{2,8}}
      | {_RANGE} | (?: [0-9]{{1,6}} \s? )? [{SMALL}] )
      (?! [\w.,:/-] \w | \w | \ ? [0-9{SYMBOLS}%] ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An address of mail or the web, a name online or of a file; a number, perhaps of money; or a code.

Codes are dates in digits, times with seconds, telephone numbers, ranges, sizes, fractions, and
versions of three parts or more.
"""

MAY_BE_ITEM = re.compile(rf"[0-9@#`{SMALL}]|[.:][/\w]|[A-Za-z][&+]")
"""What every one of them has."""

AFTER_NAME = re.compile(
    r"(?:\b[A-ZÀ-ÖØ-Þ]\w+|\b(?i:section|version|chapter|chapitre|figure|kapitel|abschnitt)) $"
)
"""What stands before the number of a version or a section rather than before a quantity."""

ORDINALS = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
"""Two German ordinals, if a point follows: the day and the month of a date."""

_NAMES = r"\b(?:euro|d[oó]l[la]|pound|quid|bucks|livre|pfund|libra|pond|sterlin|yen|yuan)"
NAMED = re.compile(rf"[^0-9]{{0,24}}{_NAMES}", re.IGNORECASE)
"""The word of a currency, in one of the languages of `CURRENCIES`, after a number."""

CURRENCIES = {
    "de": ("Dollar", "Euro"), "en": ("dollars", "euros"), "es": ("dólares", "euros"),
    "fr": ("dollars", "euros"), "it": ("dollari", "euro"), "nl": ("dollar", "euro"),
    "pt": ("dólares", "euros"),
}  # fmt: skip
"""Frequent currencies after a number, by language."""

BELOW = re.compile(
    r"(?<![0-9])[-−–]\s?[0-9]|\b(?:minus|moins|meno|menos|below|unter|sous|bajo|onder|sotto)\b",
    re.IGNORECASE,
)
"""A number below zero, in one of these languages."""

WHOLE = re.compile(r"(?<!\w)[0-9]{1,18}")

LONG = 5
"""From so many digits on, two numbers with a hyphen may be one number, as of a telephone."""


class Item(NamedTuple):
    """What a translation may lose; start and end count characters of the text.

    number and symbol: of a number, and of an amount of money; number: also a time, as 17:30; date:
    of a date with the name of a month; power: of ten, of a large amount.
    """

    kind: Kind
    start: int
    end: int
    text: str
    number: str = ""
    symbol: str = ""
    date: Date | None = None
    power: int = 0


def items_of(
    text: str, source: str = "", in_words: re.Pattern[str] = OFTEN_IN_WORDS
) -> Iterator[Item]:
    """Yield the numbers, amounts of money, codes and addresses of a text in order.

    Numbers that may be in words are none, but for those of money and those below zero.

    Args:
        text: the text.
        source: the code of its language, if it is known.
        in_words: which numbers may be in words.
    """
    if not MAY_BE_ITEM.search(text):  # so it is with most texts
        return
    for match in ITEM.finditer(text):
        item = _item(match, text)
        if item.kind == "number":
            if not (lost_numbers(item.number, "", in_words) or item.number[0] in MINUS):
                continue
            is_before_point = text.startswith(".", item.end)
            if source and source not in POINT and is_before_point and ORDINALS.fullmatch(item.text):
                continue
            before = max(item.start - 40, 0), item.start
            if re.search(r"[.,]", item.text) and AFTER_NAME.search(text, *before):
                item = item._replace(kind="version", number="")
        yield item


def _item(match: re.Match[str], text: str) -> Item:
    start, end = match.span()
    if match["address"]:
        end -= len(match.group()) - len(without_end(match.group()))
        return Item("address", start, end, text[start:end])
    if match["code"]:
        return Item("code", start, end, match.group())
    if match["euros"]:
        return Item("money", start, end, match.group(), f"{match['euros']},{match['cents']}", "€")
    symbols = [side.strip() for side in (match["before"], match["after"]) if side]
    if len(symbols) == 1:
        return Item("money", start, end, match.group(), match["number"], symbols[0])
    return Item("number", *match.span("number"), match["number"], match["number"])


def has_lost(
    items: Sequence[Item],
    translation: str,
    source: str,
    target: str,
    in_words: re.Pattern[str] = OFTEN_IN_WORDS,
) -> bool:
    """Return whether a translation lacks one of the items of its source.

    Args:
        items: of the source.
        translation: of it.
        source, target: the codes of their languages; empty if not known.
        in_words: which numbers are not lost if they are not in digits.
    """
    if not items:  # so it is with most texts
        return False
    counts = Counter((item.kind, item.text) for item in items)
    return any(
        _is_lost(item, counts[item.kind, item.text], translation, (source, target), in_words)
        for item in items
    )


def _is_lost(
    item: Item,
    times: int,
    translation: str,
    languages: tuple[str, str],
    in_words: re.Pattern[str],
) -> bool:
    """Return whether a translation has an item less often than its source."""
    source, target = languages
    if item.kind == "address":
        return translation.count(item.text) < times
    if item.kind == "code":
        return _is_lost_code(item.text, translation, in_words)
    if item.kind == "time":
        return not time_pattern(item.number, target).search(translation)
    if item.date is not None:
        return not has_date(translation, item.date, target)
    if item.kind == "amount":
        return not has_amount(translation, (item.number, item.power), target)
    if item.kind == "version":
        return item.text not in translation and bool(lost_numbers(item.text, translation))
    written = converted(item.number, source, target)
    is_as_before = item.number in translation and written not in translation
    if is_as_before or lost_numbers(item.number, translation, in_words):
        return True
    if item.number[0] in MINUS and not BELOW.search(translation):
        return True
    return item.kind == "money" and target in CURRENCIES and _lacks_money(item, times, translation)


def _lacks_money(item: Item, times: int, translation: str) -> bool:
    """Return whether a number stands less often beside the symbol or the word of a currency.

    A translation without digits may have both in words.
    """
    values = [value_of(match) for match in NUMBER.finditer(item.number)]
    count = 0
    for match in NUMBER.finditer(translation):
        around = set(translation[max(match.start() - 2, 0) : match.end() + 2])
        symbols = around.intersection(SYMBOLS)
        is_named = not symbols and NAMED.match(translation, match.end()) is not None
        count += value_of(match) in values and (item.symbol[-1] in symbols or is_named)
    in_words = not WHOLE.search(translation) and NAMED.search(translation)
    return count < times and not in_words


def _is_lost_code(text: str, translation: str, in_words: re.Pattern[str]) -> bool:
    """Return whether a translation lacks a code; a date may have its month in words.

    Telephone numbers and ranges may have other marks between their digits. Ranges of small numbers
    may be in words.
    """
    if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", translation):
        return False
    numbers = [int(digits) for digits in WHOLE.findall(text)]
    if re.search(f"[{SMALL}]", text):
        return True
    if _may_be_date(numbers) and ":" not in text:
        known = {int(digits) for digits in WHOLE.findall(translation)}
        missing = [n for n in numbers if known.isdisjoint((n, 1900 + n, 2000 + n))]
        return len(missing) > 1 or any(number > 12 for number in missing)
    if RANGE.fullmatch(text) and len(re.sub(r"\D", "", text)) < LONG:
        in_words = NEVER_IN_WORDS if re.fullmatch(r"\d\d+-\d\d+", text) else in_words
        return bool(lost_numbers(re.sub(r"\D+", " - ", text), translation, in_words))
    return "." in text or ":" in text or not _has_digits("".join(WHOLE.findall(text)), translation)


def _has_digits(digits: str, translation: str) -> bool:
    """Return whether some whole numbers of a translation that follow one another are the digits."""
    numbers = WHOLE.findall(translation)
    for first in range(len(numbers)):
        joined = ""
        for number in numbers[first:]:
            joined += number
            if joined == digits:
                return True
            if not digits.startswith(joined):
                break
    return False


def _may_be_date(numbers: Sequence[int]) -> bool:
    if len(numbers) != 3:
        return False
    year = max(numbers[0], numbers[2]) if max(numbers) > 31 else numbers[2]
    others = numbers[:2] if numbers[2] == year else numbers[1:]
    return 1 <= min(others) <= 12 and max(others) <= 31 and (year < 100 or 1000 <= year < 3000)
