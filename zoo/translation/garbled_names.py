"""Names of two words or more that a translation garbles: for those that it has not seen, a network
writes other letters."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence

from zoo.translation.scripts import LETTERS

WORD = re.compile(rf"{LETTERS}(?:-{LETTERS})*")
WORDS = re.compile(rf"(?<![\w.@#-]){WORD.pattern}(?:[ \u00a0]{WORD.pattern})+(?![\w@])")
"""Words with single spaces between them."""

MAY_BE_NAME = re.compile(r"[A-ZÀ-ÖØ-ÞĀ-ɏͰ-ϿЀ-ӿԱ-ՖḀ-ỿ]\S{0,64}[ \u00a0][A-ZÀ-ÖØ-ÞĀ-ɏͰ-ϿЀ-ӿԱ-ՖḀ-ỿ]")
"""Two words that may both have a capital: most texts have none."""

OWN_LETTERS = {"en": "", "fr": "àâæçéèêîôœùûÀÂÆÇÉÈÊÎÔŒÙÛ"}
"""The letters of a language that are not those of ASCII; words with others are mostly names."""

ACRONYM = re.compile(r"(?<![\w.@#&/-])[^\W\d_a-z][^\W_a-z]{1,5}(?![\w@#&/-])")
"""A short word that may be in capitals, also with digits, as A4."""

ALIKE = 0.6
"""From this share of common letters on, a word is taken for a garbled one."""

MOST = 16
"""With more words that may be garbled, a translation is no text."""


def garbled_names(
    text: str,
    translation: str,
    is_rare: Callable[[str], bool],
    is_usual: Callable[[str], bool],
) -> Iterator[tuple[int, int]]:
    """Yield the spans of names in a text of which a translation has a word that is only alike.

    A name is two capitalized words or more. A word that begins the text belongs to no name if it
    is neither in the translation nor like a word of it, or if it is usual in small letters, as in
    "Dear Tom".

    Args:
        text: the source, in a language that writes no other words with a capital.
        translation: of it, in such a language too.
        is_rare: returns whether a word of the translation is none that the network knows.
        is_usual: returns whether a word of the source is one that the network knows well.
    """
    if not MAY_BE_NAME.search(text):
        return
    words, own = set(WORD.findall(translation)), set(WORD.findall(text))
    foreign = [word for word in words - own if word[0].isupper() and is_rare(word)]
    if not 0 < len(foreign) <= MOST:
        return
    for start, end in _capitalized(text):
        parts = WORD.findall(text, start, end)
        lost = set(parts) - words
        is_garbled = bool(lost) and _is_like((*lost, "".join(parts)), foreign)
        first = parts[0]
        is_first = not WORD.search(text, 0, start)
        is_alone = first not in words and not _is_like((first,), foreign)
        if is_first and (is_alone or is_usual(first.lower())):
            start, parts = start + len(first) + 1, parts[1:]
        if is_garbled and len(parts) > 1:
            yield start, end


def unknown_names(
    text: str,
    translation: str,
    lacks: Callable[[str], bool],
    is_usual: Callable[[str], bool],
    language: str,
) -> Iterator[tuple[int, int]]:
    """Yield the spans of capitalized words with a letter that a vocabulary or the language lacks.

    Args:
        text, translation, is_usual: as for `garbled_names`.
        lacks: returns whether the source vocabulary lacks a letter of a word.
        language: the code of the text's language.
    """
    own = OWN_LETTERS.get(language)
    if text.isascii():
        return
    for word in WORD.finditer(text):
        name = word.group()
        is_name = name[0].isupper() and not (name.isascii() or name.isupper())
        if is_name and name not in translation:
            is_foreign = own is not None and any(not c.isascii() and c not in own for c in name)
            if lacks(name) or (is_foreign and not is_usual(name)):
                yield word.span()


def lost_acronyms(
    text: str, translation: str, is_known: Callable[[str], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of short words in capitals that training had not, nor has the translation.

    A text that is in capitals has none.

    Args:
        text, translation: as for `garbled_names`, in any languages.
        is_known: returns whether a word was in the sources of training.
    """
    if not any(map(str.islower, text)):
        return
    written = set(re.findall(r"\w+", translation))
    for word in ACRONYM.finditer(text):
        name = word.group()
        if name.isupper() and name not in written and not is_known(name):
            yield word.span()


def _capitalized(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of at least two capitalized words."""
    for words in WORDS.finditer(text):
        start, end, count = 0, 0, 0
        for word in [*WORD.finditer(text, *words.span()), None]:
            if word and word.group()[0].isupper() and len(word.group()) > 1:
                start, end, count = (start if count else word.start()), word.end(), count + 1
                continue
            if count > 1:
                yield start, end
            count = 0


def _is_like(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether one of the words is like one of the others."""
    return any(
        difflib.SequenceMatcher(None, word.casefold(), other.casefold()).ratio() >= ALIKE
        for word in words
        for other in others
    )
