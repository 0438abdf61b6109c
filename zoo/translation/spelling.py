"""Sources as people type them, in the spelling that a vocabulary knows better."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from zoo.translation.lost_items import ADDRESS

APOSTROPHE = re.compile(r"(?<=[^\W\d_])[\u2018\u2019\u02bc`\u00b4](?=[^\W\d_])")
"""A mark between two letters that stands for an apostrophe."""

PLAIN = [
    (re.compile("[\u201c-\u201f\u2033\u00ab\u00bb]"), '"'),
    (re.compile("[\u2018-\u201b\u2032\u2039\u203a]"), "'"),
    (re.compile("\u2026"), "..."),
    (re.compile("[\u2010-\u2015\u2212]"), "-"),
]
"""Typographic quotes, dots and dashes, and what is typed for them."""

BRACKETS = r"()\[\]{}<>*_~|"
SYMBOLS = "\u2190-\u2bff\ufe0f\u200d\U0001f000-\U0001faff"
UNREAD = [
    re.compile(rf"(?<=\S)[{characters}]+|[{characters}]+(?=\S)|(?<!\s)\s+[{characters}]+$")
    for characters in (SYMBOLS, BRACKETS, SYMBOLS + BRACKETS)
]
"""Pictures and brackets that are no words between others, whose places an alignment counts."""

PRONOUN = re.compile(r"\bi\b")
"""The English word that has a capital everywhere."""

Cost = tuple[int, int]
"""How many tokens of a text are unknown, and how many it has."""


class Spelling(NamedTuple):
    """A text as it is read.

    capitals: whether it was written in capitals, which its translation is given again.
    """

    text: str
    capitals: bool = False


Change = Callable[[Spelling, str], Spelling]


def may_be_respelled(text: str) -> bool:
    """Return whether a text looks as if it had another spelling."""
    return text.isupper() or APOSTROPHE.search(text) is not None


def spelled(
    texts: Sequence[str], costs: Callable[[Sequence[str]], list[Cost]], language: str = ""
) -> list[Spelling]:
    """Return texts in other spellings, where these have fewer unknown tokens, or fewer tokens.

    A typographic apostrophe becomes a plain one; a text in capitals is read in small letters, with
    the first one large; and so is a text of which a vocabulary has no capitals, without large ones.
    Where a vocabulary lacks them, typographic quotes, dots and dashes become plain ones, ligatures
    letters, and invisible characters, pictures and brackets are left out.

    Args:
        texts: sentences.
        costs: returns the cost of each text.
        language: theirs, by its code.
    """
    spellings = [Spelling(text) for text in texts]
    apostrophes: Change = functools.partial(_plain_marks, APOSTROPHE, "'")
    plain = (functools.partial(_plain_marks, *marks) for marks in PLAIN)
    without = (functools.partial(_without, characters) for characters in UNREAD)
    less: list[Change] = [*plain, _compatible, _no_capitals, *without]
    for change in (apostrophes, _small_letters, *less):
        changed = {
            i: new
            for i, old in enumerate(spellings)
            if (new := change(old, language)).text != old.text
        }
        if not changed:
            continue
        before = costs([spellings[i].text for i in changed])
        after = costs([new.text for new in changed.values()])
        for (i, new), old_cost, new_cost in zip(changed.items(), before, after, strict=True):
            # What is lost, such as the capitals of names, is no gain by itself.
            if new_cost[:1] < old_cost[:1] or (change not in less and new_cost < old_cost):
                spellings[i] = new
    return spellings


def _plain_marks(marks: re.Pattern[str], plain: str, old: Spelling, language: str) -> Spelling:
    return old._replace(text=marks.sub(plain, old.text))


def _compatible(old: Spelling, language: str) -> Spelling:
    """Return a text in Unicode's compatibility form, without characters that format it.

    An alignment counts words: their number stays.
    """
    normal = unicodedata.normalize("NFKC", old.text)
    text = "".join(c for c in normal if unicodedata.category(c) != "Cf")
    return old._replace(text=text) if len(text.split()) == len(old.text.split()) else old


def _small_letters(old: Spelling, language: str) -> Spelling:
    if not _in_capitals(old.text):
        return old
    small = old.text.lower()
    if language == "en":
        small = PRONOUN.sub("I", small)
    first = next((i for i, letter in enumerate(small) if letter.isalpha()), 0)
    if small[first].isalpha():
        small = small[:first] + small[first].upper() + small[first + 1 :]
    return Spelling(small, capitals=True)


def _no_capitals(old: Spelling, language: str) -> Spelling:
    return Spelling(old.text.lower(), old.capitals or _in_capitals(old.text))


def _without(characters: re.Pattern[str], old: Spelling, language: str) -> Spelling:
    """Return a text without some characters, but for those of addresses."""
    kept = {i for match in ADDRESS.finditer(old.text) for i in range(*match.span())}
    text = characters.sub(lambda m: m.group() if m.start() in kept else "", old.text)
    return old._replace(text=text.strip() or old.text)


def _in_capitals(text: str) -> bool:
    return text.isupper() and sum(map(str.isupper, text)) > 1
