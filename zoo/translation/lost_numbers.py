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

TIME = re.compile(r"(?<!\d)\d{1,2}(?:\s?(?:[:h]|uhr|heures?)\s?\d\d|\s?(?:h|heures?|uhr))\b", re.I)
"""A time of day."""

Value = tuple[str, str]
"""The digits before and after the decimal point, without zeros that mean nothing."""


def lost_numbers(source: str, translation: str, *, every: bool = False) -> tuple[str, ...]:
    """Return the numbers of a source that its translation lacks, as they are written.

    Those that are often written in words are not compared, unless `every` number is. Languages
    separate thousands and decimals in different ways; digits in groups of three are taken for
    thousands on both sides.
    """
    if not DIGIT.search(source):
        return ()
    values = {value_of(match) for match in NUMBER.finditer(translation)}
    lost = (m for m in NUMBER.finditer(source) if _is_lost(value_of(m), values, every))
    return tuple(match.group() for match in lost)


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


def _is_lost(value: Value, values: set[Value], every: bool) -> bool:
    """Return whether a translation lacks a value, also as two parts, as in 12 euros 50."""
    whole, after = value
    if value in values or not (every or after or not OFTEN_IN_WORDS.fullmatch(whole)):
        return False
    parts = {digits.rstrip("0") for digits, decimals in values if not decimals}
    return not (after and (whole, "") in values and after.lstrip("0") in parts)
