"""What languages write in ways of their own: spaces, marks and capitals."""

from __future__ import annotations

import re

WITHOUT_SPACES = frozenset({"ja", "zh"})
"""Languages that write no space between sentences."""

JOINED_WORDS = WITHOUT_SPACES | {"bo", "dz", "km", "lo", "my", "th"}
"""Languages that write no space between words."""

OTHER_COMMAS = JOINED_WORDS | {"am", "ar", "el", "fa", "hy", "ps", "sd", "ug", "ur"}
"""Languages with another comma, or, as Greek, another meaning of the semicolon."""

STOPS, OTHER_STOPS = ".!?…", "。！？؟۔।॥։።፧။។៕"
"""Marks that end a sentence: of most languages, with white space after them; and of others."""

CLAUSES, OTHER_CLAUSES = ",;:", "،؛፣፤၊，、；："
"""Marks that end a clause; likewise."""

CLAUSE = re.compile(rf"[{CLAUSES}{OTHER_CLAUSES}]$")
STOP = re.compile(rf"[{STOPS}{OTHER_STOPS}]$")

OWN_STOPS = {"am": re.compile(r"[፡:]{2}\s*"), "km": re.compile(r"[។៕]\s*")}
"""Ends of sentences that the library sentencex does not know, such as two Ethiopic word spaces."""

SYLLABLE = "\u1100-\u11ff\u3040-\ud7ff"
"""Letters that are syllables or words, of Korean, Japanese and Chinese: a range of a regular
expression."""

LETTERS = r"(?:[^\W\d_][\u0300-\u036f]*)+"
"""Letters with the accents that no single character has them with, such as those of Yoruba."""

_PLAIN = str.maketrans("،؛፣፤၊，、；：", ",;,;,,,;:")
_ARABIC, _ETHIOPIC = str.maketrans(",;", "،؛"), str.maketrans(",;", "፣፤")
_MARKS = {
    **dict.fromkeys(("ar", "fa", "ps", "sd", "ug", "ur"), _ARABIC),
    **dict.fromkeys(("am", "ti"), _ETHIOPIC),
    "el": str.maketrans(";", "·"), "ja": str.maketrans(",;:", "、；："),
    "my": str.maketrans(",", "၊"), "zh": str.maketrans(",;:", "，；："),
}  # fmt: skip

PLAIN_MARKS = str.maketrans("،٬。۔।։።٫؟", ",,......?")
"""What ASCII has for a mark of another script."""

NOUNS = frozenset({"de", "lb"})
"""The languages whose nouns have a capital, like names."""

_ACCENTED = "ca cs de es et fr gl hr hu is it lt lv pl pt ro sk sl tr"
ACCENTED = frozenset(_ACCENTED.split())
"""Languages that are also typed without their accents."""

GERMAN = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
)
"""How German is typed without its letters."""

DOTTED_I = frozenset({"az", "tr"})
"""Languages whose small İ is i, and whose small I is ı."""


def clause_mark(mark: str, language: str) -> str:
    """Return what a language writes for a mark of a clause of any language."""
    return mark.translate(_PLAIN).translate(_MARKS.get(language, {}))


def without_stop(text: str) -> str:
    """Return a text without the marks that end it, and the white space before them."""
    for marks in (STOPS, OTHER_STOPS):
        if (without := text.rstrip(marks)) != text:
            return without.rstrip()
    return text


def small(text: str, language: str) -> str:
    """Return a text in the small letters of a language."""
    if language in DOTTED_I:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def large(text: str, language: str) -> str:
    """Return a text in the capitals of a language."""
    return (text.replace("i", "İ") if language in DOTTED_I else text).upper()


def cases(word: str, language: str) -> tuple[str, str, str]:
    """Return a word in small letters, with a capital before small letters, and as it is."""
    if language in DOTTED_I:
        return small(word, language), large(word[:1], language) + small(word[1:], language), word
    return word.lower(), word.capitalize(), word
