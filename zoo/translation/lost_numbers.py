"""The numbers of a text that its translation lacks: a small network may write 1250 for 12,50."""

from __future__ import annotations

import re
import unicodedata

DIGIT = re.compile(r"\d")

_POINTS, _GROUPS = "[.,٫．，]", "[.,٬．，'’\u2009\u00a0\u202f ]"
NUMBER = re.compile(
    rf"(?<!\d)(?!0)\d{{1,3}}(?P<separator>{_GROUPS})(?:(?<=[,٬，])\d\d(?P=separator))*"
    rf"\d{{3}}(?:(?P=separator)\d{{3}})*(?!\d)(?:{_POINTS}\d+(?!\d))?|\d+(?:{_POINTS}\d+)?"
)
"""Digits, in groups of three, as in India of two and three, or not; and decimals after a point or a
comma, also Arabic and full-width ones."""

DECIMALS = re.compile(rf"{_POINTS}(\d+)$")
GROUPS = re.compile(_GROUPS)

OFTEN_IN_WORDS = re.compile(r"\d{1,2}|[1-9]0+")
"""Numbers that a translation may have in words: those of two digits, hundreds and thousands."""

SELDOM_IN_WORDS = re.compile(r"\d|1[0-2]|[1-9]0{3,}")
"""Of these, those that it may have although it has no word of a number: an article, a couple."""

NEVER_IN_WORDS = re.compile(r"(?!)")
"""No number."""

NUMBER_WORDS = {
    "de": re.compile(
        "zwei|dre[iß]|vier|fünf|sech|sieb|acht|neun|zehn|elf|zwölf|zig|hundert|tausend|dutzend|halb|"
        "hälft", re.I,
    ),
    "en": re.compile(
        r"\b(?:ten|two|second|half)|three|four|fort[iy]|five|fift|six|seven|eight|nine|nint|eleven|"
        "twel|twen|thir|hundred|thousand|dozen|decade|quarter", re.I,
    ),
    "fr": re.compile(
        r"\b(?:dix|sept|huit|six|neuv|nona)|deux|trois|quat|quar|cinq|neuf|onz|douz|treiz|"
        "quinz|seiz|vingt|trent|soixant|cent|mill|demi|moitié", re.I,
    ),
}  # fmt: skip
"""What some word of each number from 13 on has, and halves and dozens, by language."""

TIME = re.compile(r"(?<!\d)\d{1,2}(?:\s?(?:[:h]|uhr|heures?)\s?\d\d|\s?(?:h|heures?|uhr))\b", re.I)
"""A time of day."""

Value = tuple[str, str]
"""The digits before and after the decimal point, without zeros that mean nothing."""


def lost_numbers(
    source: str, translation: str, in_words: re.Pattern[str] = OFTEN_IN_WORDS
) -> tuple[str, ...]:
    """Return the numbers of a source that its translation lacks, as they are written.

    Those that may be `in_words` are not compared. Languages separate thousands and decimals in
    different ways; digits in groups of three are taken for thousands on both sides.
    """
    if not DIGIT.search(source):
        return ()
    values = {value_of(match) for match in NUMBER.finditer(translation)}
    lost = (m for m in NUMBER.finditer(source) if _is_lost(value_of(m), values, in_words))
    return tuple(match.group() for match in lost)


def may_be_in_words(source: str, translation: str, target: str) -> re.Pattern[str]:
    """Return which numbers of a source its translation may have in words.

    Those are none where it has a number that its source has not, and few where it has no word of a
    number, in the languages of which these are known.

    Args:
        source, translation: the texts.
        target: the code of the translation's language; empty if not known.
    """
    if has_strange_number(source, translation):
        return NEVER_IN_WORDS
    words = NUMBER_WORDS.get(target)
    has_some = words is None or words.search(translation)
    return OFTEN_IN_WORDS if has_some else SELDOM_IN_WORDS


def has_strange_number(source: str, translation: str) -> bool:
    """Return whether a translation has a number that its source, which has one, has not.

    Numbers of times of day are none: languages write them in different ways.
    """
    if not (DIGIT.search(source) and DIGIT.search(translation)):
        return False
    known = {value_of(match) for match in NUMBER.finditer(source)}
    known |= {(digits, "") for number in known for digits in number}
    numbers = NUMBER.finditer(TIME.sub(" ", translation))
    return any(value_of(match) not in known for match in numbers)


def value_of(match: re.Match[str]) -> Value:
    """Return the value of a match of NUMBER."""
    text = match.group()
    is_grouped = match["separator"] is not None
    decimals = DECIMALS.search(text)
    # The last three digits after the separator of the groups are one of them.
    if is_grouped and decimals and decimals.group()[0] == match["separator"]:
        decimals = None
    whole = text[: decimals.start()] if decimals else text
    digits = "".join(str(unicodedata.digit(c)) for c in GROUPS.sub("", whole))
    after = "".join(str(unicodedata.digit(c)) for c in decimals[1]) if decimals else ""
    return digits.lstrip("0") or "0", after.rstrip("0")


def _is_lost(value: Value, values: set[Value], in_words: re.Pattern[str]) -> bool:
    """Return whether a translation lacks a value, also as two parts, as in 12 euros 50.

    A decade, as in "les années 50", may have its century.
    """
    whole, after = value
    if value in values or not values.isdisjoint({("19" + whole, after), ("20" + whole, after)}):
        return False
    if not after and in_words.fullmatch(whole):
        return False
    parts = {digits.rstrip("0") for digits, decimals in values if not decimals}
    return not (after and (whole, "") in values and after.lstrip("0") in parts)
