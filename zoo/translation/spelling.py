"""Sources as people type them, in the spelling that a vocabulary knows better."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from zoo.data.tokenizer import Tokenizer
from zoo.translation.addresses import ADDRESS
from zoo.translation.number_formats import SMALL
from zoo.translation.scripts import (
    ACCENTED,
    GERMAN,
    LETTERS,
    NOUNS,
    PLAIN_MARKS,
    cases,
    large,
    small,
)
from zoo.translation.sentences import SYMBOLS

APOSTROPHE = re.compile(r"(?<=[^\W\d_])[\u2018\u2019\u02bc`\u00b4](?=[^\W\d_])")
"""A mark between two letters that stands for an apostrophe."""

PLAIN = [
    (re.compile("[\u201c-\u201f\u2033\u00ab\u00bb]"), '"'),
    (re.compile("[\u2018-\u201b\u2032\u2039\u203a]"), "'"),
    (re.compile("\u2026"), "..."),
    (re.compile("[\u2010-\u2015\u2212]"), "-"),
    (re.compile(";"), ","),
]
"""Typographic quotes, dots and dashes, and what is typed for them; and a semicolon."""

MARKS = ".,;:!?\"'\u2018-\u201f\u00ab\u00bb\u2026"
BRACKETS = r"()\[\]{}<>*_~|"
UNREAD = [
    *(
        re.compile(rf"(?<=\s)[{characters}]+(?:\s+|$)|[{characters}]+")
        for characters in (SYMBOLS, BRACKETS, SYMBOLS + BRACKETS)
    ),
    re.compile(
        rf"(?<=[^\s{MARKS}])[{MARKS}]+(?=\s|$)|(?<!\S)[{MARKS}]+(?=\S)|(?<!\s)\s+[{MARKS}]+$"
    ),
]
"""Pictures and brackets, and marks around words."""

_WITHIN = """
a abbr b big cite code del dfn em i ins kbd mark q s samp small span strike strong sub sup tt u var
"""
WITHIN = frozenset(_WITHIN.split())
"""Elements of HTML within a line; others are apart from what precedes and follows them."""

_ELEMENTS = rf"""{_WITHIN}
article aside blockquote body br center dd div dl dt footer h1 h2 h3 h4 h5 h6 head header hr html li
main nav ol p pre section table tbody td tfoot th thead tr ul
"""
_ATTRIBUTE = r"""\s+[\w:-]{1,40}\s?=\s?(?:"[^"<>]{0,500}"|'[^'<>]{0,500}')"""
TAG = re.compile(
    rf"</?({'|'.join(_ELEMENTS.split())})(?:{_ATTRIBUTE}){{0,16}}\s?/?>", re.IGNORECASE
)
"""A tag of HTML; others, such as <name>, may be words in brackets."""

ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});")
"""A character as HTML writes it."""

READ_AS_LETTERS = re.compile(rf"[^{SMALL}]+|(?<![0-9{SMALL}])[{SMALL}]")
"""All but powers and fractions after a digit: 10² is not 102."""

OPEN_MARKS = (",", ";", ":")
OPEN = re.compile(rf"(?<=[^\W_])\s*([{''.join(OPEN_MARKS)}])$")
"""The end of a text that goes on in the next line, as the greeting of a letter does."""

WORD = re.compile(LETTERS)
LARGE = re.compile(r"[^\W\d_a-z][\u0300-\u036f]*[^\W\d_a-z]")
"""What a word in capitals has."""

ABBREVIATIONS = frozenset({"UK", "USA", "NASA", "NATO", "OTAN", "ONU", "UNO"})
"""Those that are often made of the pieces of other words in small letters."""

Cost = tuple[int, int]
"""How many tokens of a text are unknown, and how many it has."""


class Spelling(NamedTuple):
    """A text as it is read.

    capitals: whether it was written in capitals, which its translation is given again.
    """

    text: str
    capitals: bool = False


Change = Callable[[Spelling], Spelling]
Costs = Callable[[Sequence[str]], list[Cost]]


def may_be_respelled(text: str, language: str) -> bool:
    """Return whether a text looks as if it had another spelling."""
    return (
        any(each.search(text) for each in (LARGE, APOSTROPHE, ENTITY))
        or (language in NOUNS and text.islower())
        or (language in ACCENTED and text.isascii())
    )


def is_wordless(text: str) -> bool:
    """Return whether a text has no letter, but in tags of HTML: a translation is as it is."""
    return not any(map(str.isalpha, TAG.sub("", text)))


def stays(text: str) -> bool:
    """Return whether a text has no letter but in addresses and tags: a translation is as it is."""
    words = () if "`" in text else text.split()
    if any(word.strip(MARKS).isalpha() for word in words):  # so it is with most texts
        return False
    return is_wordless(ADDRESS.sub("", text))


def spelled(
    texts: Sequence[str],
    costs: Costs,
    language: str = "",
    accented: Mapping[str, str] = {},
    lower_case: bool = False,
) -> list[Spelling]:
    """Return texts in other spellings, where these have fewer unknown tokens, or fewer tokens.

    A typographic apostrophe becomes a plain one, and a character that HTML writes by its name this
    character. A text or a word in capitals is read in small letters, with a large one at the
    beginning of a text and of words that have fewer tokens so, as names have; and such words of a
    German text without capitals get one. Where a vocabulary lacks them, capitals become small,
    typographic quotes, dots and dashes plain ones, ligatures letters, and letters lose their
    accents; invisible characters, tags of HTML, pictures, brackets and marks are left out.

    Args:
        texts: sentences.
        costs: returns the cost of each text.
        language: theirs, by its code.
        accented: words with accents, each by what it is without them.
        lower_case: whether training had no capitals: all become small.
    """
    spellings = [Spelling(text) for text in texts]
    if lower_case:
        spellings = [_no_capitals(language, one) for one in spellings]
    apostrophes: Change = functools.partial(_plain_marks, APOSTROPHE, "'")
    letters: Change = functools.partial(_usual_letters, costs, language)
    usual: Change = functools.partial(_with_accents, costs, accented)
    for change in (_unescaped, apostrophes, *([] if lower_case else [letters]), usual):
        for i, new, old_cost, new_cost in _changed(change, spellings, range(len(texts)), costs):
            # Where each character is a token, capitals cost nothing, and are as little known.
            same = change is letters and old_cost[1] >= len(spellings[i].text)
            if new_cost < old_cost or (same and new_cost == old_cost):
                spellings[i] = new
    # What is lost now, such as the capitals of names, is no gain by itself.
    lacking = [i for i, cost in enumerate(costs([one.text for one in spellings])) if cost[0]]
    plain = (functools.partial(_plain_marks, *marks) for marks in PLAIN)
    of_known = (functools.partial(_without, marks, costs) for marks in UNREAD)
    without = (functools.partial(_without, marks, None) for marks in UNREAD)
    of_costs = (_usual_marks, _without_marks, _without_accents)
    marks, *bare = (functools.partial(each, costs) for each in of_costs)
    lower = functools.partial(_no_capitals, language)
    less: list[Change] = [*plain, _compatible, marks, lower, _no_tags, *of_known, *without, *bare]
    for change in less:
        for i, new, old_cost, new_cost in _changed(change, spellings, lacking, costs):
            if new_cost[0] < old_cost[0]:
                spellings[i] = new
    return spellings


def _changed(
    change: Change, spellings: Sequence[Spelling], among: Iterable[int], costs: Costs
) -> list[tuple[int, Spelling, Cost, Cost]]:
    """Return what a change makes of some spellings: index, spelling, and costs before and after."""
    changed = {i: change(spellings[i]) for i in among}
    changed = {i: new for i, new in changed.items() if new.text != spellings[i].text}
    before = costs([spellings[i].text for i in changed])
    after = costs([new.text for new in changed.values()])
    return list(zip(changed, changed.values(), before, after, strict=True))


def _plain_marks(marks: re.Pattern[str], plain: str, old: Spelling) -> Spelling:
    return old._replace(text=marks.sub(plain, old.text))


def _usual_marks(costs: Costs, old: Spelling) -> Spelling:
    """Return a text with marks of ASCII; not if nothing else of it is known."""
    ((unknown, tokens),) = costs([old.text])
    return old._replace(text=old.text.translate(PLAIN_MARKS)) if tokens - unknown > 1 else old


def _compatible(old: Spelling) -> Spelling:
    """Return a text in Unicode's compatibility form, without characters that format it.

    Digits of any script are those of ASCII. Not where a mark becomes a space and another one.
    """
    normal = READ_AS_LETTERS.sub(lambda m: unicodedata.normalize("NFKC", m[0]), old.text)
    plain = (str(int(c)) if c.isdecimal() else c for c in normal)
    text = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return old._replace(text=text) if len(text.split()) == len(old.text.split()) else old


def _unescaped(old: Spelling) -> Spelling:
    return old._replace(text=ENTITY.sub(lambda match: html.unescape(match.group()), old.text))


def _no_tags(old: Spelling) -> Spelling:
    text = TAG.sub(lambda match: "" if match[1].lower() in WITHIN else " ", old.text).strip()
    return old._replace(text=text) if any(map(str.isalnum, text)) else old


def _without_accents(costs: Costs, old: Spelling) -> Spelling:
    """Return a text without the accents of letters that a vocabulary lacks; names keep them."""
    bare = {c: _bare(c) for c in set(old.text) if not c.isascii() and c.isalpha()}
    bare = {c: plain for c, plain in bare.items() if plain != c}
    lacked = [c for (c, _), cost in zip(bare.items(), costs([*bare]), strict=True) if cost[0]]
    table = {ord(c): bare[c] for c in lacked}

    def without(match: re.Match[str]) -> str:
        return match.group() if match.group()[0].isupper() else match.group().translate(table)

    return old._replace(text=WORD.sub(without, old.text))


def _without_marks(costs: Costs, old: Spelling) -> Spelling:
    """Return a text without the marks that a vocabulary lacks, such as the vowels of Arabic."""
    marks = [c for c in set(old.text) if unicodedata.combining(c)]
    lacked = {c for c, cost in zip(marks, costs(marks), strict=True) if cost[0]}
    return old._replace(text="".join(c for c in old.text if c not in lacked))


def _with_accents(costs: Costs, accented: Mapping[str, str], old: Spelling) -> Spelling:
    """Return a text that has no accent with those of words that are no token without them."""
    words = {
        word for word in WORD.findall(old.text) if word in accented or word.lower() in accented
    }
    if not (words and old.text.isascii()):
        return old
    several = {w for w, cost in zip(words, costs([*words]), strict=True) if cost[1] > 1}

    def usual(match: re.Match[str]) -> str:
        word = match.group()
        if word not in several:
            return word
        return accented.get(word) or accented[word.lower()].capitalize()

    return old._replace(text=WORD.sub(usual, old.text))


def accented_words(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the words with accents that are one token, each by what it is without them.

    Of two that are the same without, it is the one with the smaller id, which is more frequent. A
    German word is also by what is typed for its letters, such as "ue".
    """
    accented: dict[str, str] = {}
    for word in (tokenizer.token(i).removeprefix("▁") for i in range(tokenizer.size)):
        if len(word) > 1 and word.isalpha() and not word.isascii():
            for plain in ("".join(map(_bare, word)), word.translate(GERMAN)):
                if plain.isascii():
                    accented.setdefault(plain, word)
    return accented


def _bare(letter: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", letter) if not unicodedata.combining(c))


def _usual_letters(costs: Costs, language: str, old: Spelling) -> Spelling:
    """Return a text in the letters of training instead of capitals, or without any.

    Each word has the spelling of the fewest tokens. Between other words, those in capitals change
    only if they are one token in small letters.
    """
    text, capitals = old.text, _in_capitals(old.text)
    words = set(WORD.findall(text))
    if not capitals and not (language in NOUNS and text.islower()):
        words = {word for word in words if len(word) > 1 and word.isupper()}
        if not words:
            return old
        lower = {word: small(word, language) for word in words}
        new, own = costs([*lower.values()]), costs([*lower])
        usual = {
            word: lower[word]
            for word, one, other in zip(lower, new, own, strict=True)
            if one == (0, 1) and one < other
        }
        if max(map(len, usual), default=0) < 3:  # one of two letters may be a name: US, UN
            usual = {}
    else:
        usual = _fewest_tokens(words, costs, language)
        if language == "en" and "I" in words:
            usual["I"] = "I"
    if not usual:
        return old
    read = WORD.sub(lambda match: usual.get(match.group(), match.group()), text)
    first, before = WORD.search(read), WORD.search(text)
    begins = first is not None and not any(map(str.isalnum, read[: first.start()]))
    if first and before and begins and (before.group()[0].isupper() or text.islower()):
        start = first.start()
        read = read[:start] + large(read[start], language) + read[start + 1 :]
    return Spelling(read, old.capitals or capitals)


def _fewest_tokens(words: Iterable[str], costs: Costs, language: str) -> dict[str, str]:
    """Return the spelling of each word that has the fewest tokens.

    That is: in small letters, with a large one or as it is; the first of them if they are equal. An
    abbreviation in capitals, such as DVD, stays: a vocabulary has no more of it than its letters.
    """
    tried = [(word, each) for word in words for each in cases(word, language)]
    usual: dict[str, tuple[Cost, str]] = {}
    for (word, each), cost in zip(tried, costs([each for _, each in tried]), strict=True):
        if word not in usual or cost < usual[word][0]:
            usual[word] = cost, each
    has_pieces = any(cost[1] < len(word) for word, (cost, _) in usual.items())
    return {
        word: word if has_pieces and _is_abbreviation(word, cost) else each
        for word, (cost, each) in usual.items()
    }


def _is_abbreviation(word: str, least: Cost) -> bool:
    """Return whether a word in capitals, which has so many tokens at least, is an abbreviation."""
    is_short = 2 < len(word) <= 4 and word.isupper()
    return word in ABBREVIATIONS or (is_short and least == (0, len(word)))


def _no_capitals(language: str, old: Spelling) -> Spelling:
    return Spelling(small(old.text, language), old.capitals or _in_capitals(old.text))


def _without(characters: re.Pattern[str], costs: Costs | None, old: Spelling) -> Spelling:
    """Return a text without some characters, but for those of addresses.

    With `costs`, those that a vocabulary knows are kept, too; and all in a text without letters.
    """
    kept = {i for match in ADDRESS.finditer(old.text) for i in range(*match.span())}
    known = ""
    if costs is not None:
        among = sorted({c for match in characters.finditer(old.text) for c in match[0].strip()})
        known = "".join(c for c, cost in zip(among, costs(among), strict=True) if not cost[0])

    def left(match: re.Match[str]) -> str:
        space = match[0][len(match[0].rstrip()) :]
        of_known = "".join(c for c in match[0] if c in known)
        return match[0] if match.start() in kept else of_known and of_known + space

    text = characters.sub(left, old.text).strip()
    return old._replace(text=text) if any(map(str.isalpha, text)) else old


def _in_capitals(text: str) -> bool:
    return text.isupper() and sum(map(str.isupper, text)) > 1
