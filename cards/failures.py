"""What is wrong with translations, by kind: a section of the cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from zoo import levenshtein


def of_date(text: str, references: Sequence[str]) -> str:
    """Return which part of a date is wrong."""
    (reference,) = references
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return "not a date of ten characters"
    parts = zip(("year", "month", "day"), text.split("-"), reference.split("-"), strict=True)
    return "wrong " + " and ".join(name for name, one, other in parts if one != other)


def of_phones(text: str, references: Sequence[str]) -> str:
    """Return whether stress or phones are wrong, and how many."""
    plain = [re.sub(r"\d", "", each).split() for each in (text, *references)]
    errors = min(levenshtein(plain[0], other) for other in plain[1:])
    return {0: "stress only", 1: "one phone"}.get(errors, "several phones")


def of_text(text: str, references: Sequence[str]) -> str:
    """Return what is wrong with a translation that equals no reference; it may be right."""
    lengths = [len(reference.split()) for reference in references]
    words = text.split()
    if "⁇" in text:
        return "has an unknown token"
    if len(set(zip(words, words[1:], words[2:], strict=False))) < len(words) - 2:
        return "repeats three words"
    if 2 * len(words) < min(lengths):
        return "under half as long as each reference"
    if len(words) > 2 * max(lengths):
        return "over twice as long as each reference"
    return ""


def of_number(text: str, references: Sequence[str]) -> str:
    """Return that a number is another one."""
    return "another number"


KINDS: dict[str, Callable[[str, Sequence[str]], str]] = {
    "date": of_date,
    "number": of_number,
    "phones": of_phones,
    "text": of_text,
}


def failures(
    kind: str, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[str, int, int]]:
    """Return each kind of failure: its name, how often it occurs, and the index of its first.

    The name is empty for texts that equal no reference, and have no known fault.
    """
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for index, (text, each) in enumerate(zip(texts, references, strict=True)):
        if text not in each:
            name = KINDS[kind](text, each)
            counts[name] += 1
            first.setdefault(name, index)
    return [(name, count, first[name]) for name, count in counts.most_common()]
