"""Times of day, which English counts twice up to twelve, and other languages up to 24."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

ENGLISH = re.compile(
    r"(?<![\w.,:/-])(?P<hour>1[0-2]|0?[1-9])(?:[:.](?P<minute>[0-5][0-9]))?"
    r"[\s\u00a0\u202f]?(?P<half>[ap])(?:m(?!\w)|\.\s?m\.)",
    re.IGNORECASE,
)
FRENCH = re.compile(
    r"(?<![\w.,:/-])(?P<hour>2[0-3]|1[0-9]|0?[0-9])[\s\u00a0\u202f]?h"
    r"(?:[\s\u00a0\u202f]?(?P<minute>[0-5][0-9]))?(?!\w|\s?[0-9])",
    re.IGNORECASE,
)

HOURS = {
    "de": "uhr", "es": "h|horas?", "fr": "h|heures?", "it": "h|ore", "nl": "uur", "pt": "h|horas?"
}  # fmt: skip
"""What follows the hour in languages that count 24 of them."""

NOONS = {
    "de": ("mittag", "mitternacht"), "es": ("mediodía", "medianoche"), "fr": ("midi", "minuit"),
    "it": ("mezzogiorno", "mezzanotte"), "nl": ("middag", "middernacht"),
    "pt": ("meio-dia", "meia-noite"), "en": ("noon", "midnight"),
}  # fmt: skip
"""The words for 12:00 and 0:00."""

HALVES = {"fr": (r"\s(?:du matin)", r"\s(?:de l['’]après-midi|du soir)")}
"""What follows the hour of one of twelve before noon and after it."""


def times_of(text: str, source: str, target: str) -> Iterator[tuple[int, int, str]]:
    """Yield the times of a text that its translation writes in another way.

    Args:
        text: in English, with `am` or `pm`; or in French, with `h`.
        source, target: the codes of its language and of the translation's.

    Yields:
        Where the time begins and ends, and the time as `9:05` or `17:30`.
    """
    if source == "en" and target in HOURS:
        pattern = ENGLISH
    elif source == "fr" and target in NOONS:
        pattern = FRENCH
    else:
        return
    for match in pattern.finditer(text):
        hour, end = int(match["hour"]), match.end()
        if source == "en":
            hour = hour % 12 + 12 * (match["half"].lower() == "p")
            end -= text.endswith(".", 0, end) and not text[end:].strip()  # ends the sentence, too
        yield match.start(), end, f"{hour}:{match['minute'] or '00'}"


@functools.cache
def time_pattern(time: str, target: str) -> re.Pattern[str]:
    """Return the pattern of a time of day, such as `17:30`, in a text of the target language."""
    hour, minute = map(int, time.split(":"))
    twelve, later = hour % 12 or 12, hour >= 12
    start, minutes = r"(?<![\w.,:])0?", f"{minute:02}"
    if target == "en":
        words = r"in the (?:afternoon|evening)|at night" if later else "in the morning"
        half = rf"\s?{'p' if later else 'a'}\.?m\b\.?|\s(?:{words})"
        exact = rf"{start}{hour}(?::{minutes})" + ("?" if not minute and 0 < hour <= 12 else "")
        forms = [exact + r"(?![:\w]|[.,]\d)"]
        forms.append(rf"{start}{twelve}:?{minutes if minute else '(?:00)?'}(?:{half})")
        if not minute:
            forms.append(rf"{start}{hour} (?:o'clock|hours)")
    else:
        unit = HOURS[target]
        mark = rf"\s?(?:[:.]|(?:{unit})(?![a-z]))\s?"
        forms = [rf"{start}{hour}{mark}{minutes}(?!\d)"]
        if not minute:
            may_be_bare = "?+" if hour else ""
            forms.append(rf"{start}{hour}(?:\s?(?:{unit})\b){may_be_bare}(?![\w:]|[.,]\d|\s?\d)")
        if target in HALVES:
            of_twelve = rf"{mark}{minutes}" if minute else rf"(?:\s?(?:{unit}))?"
            forms.append(rf"{start}{twelve}{of_twelve}{HALVES[target][later]}")
    if time in ("12:00", "0:00"):
        forms.append(rf"\b{NOONS[target][time == '0:00']}\b")
    return re.compile("|".join(forms), re.IGNORECASE)
