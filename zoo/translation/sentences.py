"""Texts split into sentences, which are translated one by one and joined again.

A splitter finds the boundaries: the library sentencex, or one of a plugin (`zoo_splitters`).
Nothing here imports torch.
"""

from __future__ import annotations

import functools
import itertools
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from zoo.data.languages import two_letter_code
from zoo.errors import ConfigError
from zoo.registry.open_shelf import parse_named
from zoo.registry.registry import Registry
from zoo.translation.addresses import HOSTS
from zoo.translation.scripts import JOINED_WORDS, OWN_STOPS, SYLLABLE, WITHOUT_SPACES

SPLITTER, WORDS = "sentencex", "words"
"""The splitters that are used unless another is named: of texts, and for single words."""

_ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
LANGUAGES = frozenset(_ISO_639_1.split())
"""The two-letter codes of languages whose texts are split."""

AS_CHINESE = "yue"
"""Cantonese, which has no two-letter code, is split as Chinese is."""

ONE_SENTENCE = re.compile(r"[\w ,'-]*[^\s\w]?")
"""A line without a mark, before its last character, at which some language ends a sentence."""

ABBREVIATIONS = {
    "de": "frl abs bd jh geb gest dipl-ing hl inkl bspw okt dez tel",
    "en": "approx mx vol",
    "es": "dña aprox",
    "fr": "M MM mr mme mmes mlle mlles dr drs pr Prof mgr st ste gal cdt lt janv févr avr juil bd",
    "it": "dott.ssa pag pagg num",
    "nl": "mevr mw d.w.z o.a tel incl",
    "pl": "dr mgr inż hab tzw tj św nr tel str godz płk ks",
    "pt": "srta profa pág págs tel av sta cap aprox",
    "ro": "dl dna sf str tel pag",
    "ru": "т.е св",
    "sv": "t.ex dvs kl tel resp",
}
"""Titles and other abbreviations that sentencex does not know; in small letters, both are meant."""

INITIALS = re.compile(rf"(?:-?(?:[^\W\d_{SYLLABLE}]|[CPT]h)\.)+\s*")
"""What is no sentence: "M. ", "J.-P. "; a single syllable, as of Korean, is one."""

CLOSING = "」』）》】"
QUOTED = re.compile("と|って")
"""What goes on with a Japanese sentence after a quotation."""

LETTERS = re.compile(r"(?:-?[^\W\d_]{1,2}\.){2,}")
"""An abbreviation of several words, as in "50 av. J.-C."."""

ORDINAL = re.compile(r"(?i:\b(?:d(?:er|ie|as|e[mns])|[ai]m|zu[mr]|vom|beim|ins) \d{1,2}\.\s*)")
"""A German ordinal number, as in "der 2. Weltkrieg"."""

FIRST_WORD = re.compile(r"[^\W\d_]+")

OF_NO_WORD = re.compile(r"[_./\\@%]")
"""What a name of a file, a host or a program has."""

_NO_NOUNS = """
ich du er sie es wir ihr man der die das dann da danach dort hier jetzt heute morgen gestern bis und
aber oder denn wenn ja nein bitte danke wer was wo wann wie warum so sehr alle
"""
NO_NOUNS = frozenset(_NO_NOUNS.split())
"""What begins a German sentence after a number."""

SYMBOLS = "\u2190-\u2bff\ufe0f\u200d\U0001f000-\U0001faff"
"""Pictures, arrows and the like: a range of a regular expression."""

_PICTURES = rf"(?:[0-9\#*]?\ufe0f?\u20e3|[{SYMBOLS}])+\s+"
LIST_MARK = re.compile(
    r"(?:(?:[-*+>\u2022\u2013\u2014]|\#{1,6}|\(?[0-9]{1,3}[.)]|\(?[A-Za-z]\))\s+"
    rf"(?:\[[ xX]\]\s+)?(?:{_PICTURES})?|{_PICTURES})(?=\S)"
)
"""What begins an item of a list, a heading, a quotation or a turn of a dialogue; and pictures."""

LAST = 64
"""How many characters of a sentence show whether it goes on, however long it is."""


class Piece(NamedTuple):
    """A part of a text, and the white space before it, with the mark that its line begins with."""

    space: str
    text: str


def language_code(codes: Sequence[str]) -> str:
    """Return the two-letter code of the first language; empty if it is not one that is split.

    `de`, `de-AT`, `deu` and `deu_Latn` are `de`.
    """
    return _language_code(codes[0]) if codes else ""


@functools.lru_cache(maxsize=1024)
def _language_code(code: str) -> str:
    base = re.split("[-_@]", code)[0].lower()
    base = "zh" if base == AS_CHINESE else two_letter_code(base)
    return base if base in LANGUAGES else ""


def usual_splitter(
    languages: Sequence[str], *, single_words: bool = False, reads_whole: bool = False
) -> str:
    """Return the splitter that is used unless another is named; empty if texts are not split.

    Args:
        languages: the source languages, of which the first counts.
        single_words: whether the sources of training are single words.
        reads_whole: whether texts are read whole.
    """
    code = "" if reads_whole else language_code(languages)
    return "" if not code else WORDS if single_words and code not in JOINED_WORDS else SPLITTER


def separator(space: str, languages: Sequence[str], single_words: bool = False) -> str:
    """Return what stands between two translations in the given languages.

    Args:
        space: the white space between the sources, and a mark. Line breaks and marks are kept.
        languages: the target languages, of which the first counts.
        single_words: whether each translation is of one word. If it is in no language, such as
            phones with spaces between them, two spaces are between words, and one within a word.
    """
    if space.strip() or "\t" in space or space.splitlines() not in ([], [space]):
        return space
    if single_words and not languages:
        return "  " if space else " "
    return "" if language_code(languages) in WITHOUT_SPACES else " "


Split = Callable[[str], Sequence[str]]
"""Returns the sentences of a line, each with the white space after it; together they are it."""


class Sentencex:
    """The sentences of the library sentencex, in the languages that it knows; else whole lines.

    Without a language, the rules are those of English.

    A sentence without a letter, such as a number of a list, belongs to the sentence after it at the
    beginning of the line, else to the one before it.

    Args:
        language: the code of a language, in any form that `language_code` reads.
    """

    def __init__(self, language: str) -> None:
        self.language = language_code((language,)) if language else "en"

    def __call__(self, line: str) -> list[str]:
        """Return the sentences of a line."""
        if ONE_SENTENCE.fullmatch(line):  # of most lines of a corpus
            return [line] if line else []
        return [line[begin:end] for begin, end in _spans(line, self.language)]


class Lines:
    """Whole lines: only line breaks end a sentence."""

    def __init__(self, language: str) -> None:
        pass

    def __call__(self, line: str) -> list[str]:
        """Return the line."""
        return [line]


class Words:
    """Single words; what has no letter or digit belongs to the word before it, else after it."""

    def __init__(self, language: str) -> None:
        pass

    def __call__(self, line: str) -> list[str]:
        """Return the words of a line."""
        words: list[list[str]] = []
        begun = False  # whether the last one has a letter or a digit
        for part in re.findall(r"\s*\S+\s*|\s+", line):
            is_word = any(map(str.isalnum, part))
            if words and not (is_word and begun):
                words[-1].append(part)
            else:
                words.append([part])
            begun = begun or is_word
        return ["".join(parts) for parts in words]


def make_splitter(named: str, language: str, registry: Registry) -> Split:
    """Return the splitter that `NAME:option=value` names, for texts in a language.

    What it returns is checked for every line.

    Raises:
        UnknownNameError, ConfigError: there is no such splitter, or its options are not valid.
        PluginError: it is broken.
    """
    shelf = registry.splitters
    try:
        table = parse_named(named)
    except ValueError as error:
        raise ConfigError(f"invalid splitter {named[:100]!r}", f"write {error}") from None
    split = shelf.make(table, language)
    if not callable(split):
        raise shelf.broken(table["name"], f"it made {split!r}, which is no function of a line")

    def checked(line: str) -> list[str]:
        with shelf.blaming(table["name"]):
            sentences = split(line)
            if isinstance(sentences, str):  # its characters would be sentences
                raise TypeError(f"it returned the text {reprlib.repr(sentences)}, not sentences")
            sentences = list(sentences)
            if "".join(sentences) != line:
                raise ValueError(f"its sentences {reprlib.repr(sentences)} do not make up the line")
        return sentences

    return checked


def split_sentences(text: str, split: Split) -> list[Piece]:
    """Return the sentences of a text, in linear time; every line ends a sentence.

    The pieces are exact parts of the text. White space at its end is left out. A mark of a list at
    the beginning of a line, or of a later sentence after a space, belongs to no sentence.
    """
    pieces: list[Piece] = []
    space = ""
    for line in _cells(text):
        content = line.strip()
        start = len(line) - len(line.lstrip())
        if mark := LIST_MARK.match(content):
            start, content = start + mark.end(), content[mark.end() :]
        space += line[:start]
        for number, part in enumerate(split(content) if content else ()):
            sentence = part.strip()
            lead = part[: len(part) - len(part.lstrip())]
            end = len(lead) + len(sentence)
            if sentence:
                mark = LIST_MARK.match(sentence) if number and (space or lead) else None
                begin = len(lead) + (mark.end() if mark else 0)
                pieces.append(Piece(space + part[:begin], part[begin:end]))
                space = part[end:]
            else:
                space += part
        space += line[start + len(content) :]
    return pieces


def _cells(text: str) -> Iterator[str]:
    """Yield the lines of a text, and the cells of those with tabs, each with what ends it.

    A tab after the mark of an item ends no cell.
    """
    for line in text.splitlines(keepends=True):
        start = len(line) - len(line.lstrip())
        mark = LIST_MARK.match(line, start)
        begin = mark.end() if mark else start
        for cell in re.split(r"(?<=\t)", line[begin:]):
            yield line[:begin] + cell
            begin = 0


def _spans(line: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each sentence of a line, which does not begin with space."""
    if not line or not language:
        yield from [(0, len(line))] if line else []
        return
    begin = end = 0
    known = frozenset(ABBREVIATIONS.get(language, "").split())
    begun = False  # whether the sentence has a letter
    for length in _lengths(line, language):
        after, before = line[end : end + length], line[max(begin, end - LAST) : end]
        has_letter = any(map(str.isalpha, after))
        if has_letter and begun and not _goes_on(before, after, known, language):
            yield begin, end
            begin, begun = end, False
        begun = begun or has_letter
        end += length
    yield begin, end


def _goes_on(before: str, after: str, known: frozenset[str], language: str) -> bool:
    """Return whether a sentence goes on although the library ends it; `before`: its end."""
    words, following = before.split(), after.split()[0].rstrip(".,!?").lower()
    is_spaced = before[-1].isspace() or after[0].isspace()
    if not words:
        return False
    stem = words[-1].lstrip("(\u00ab\u201c\"'").removesuffix(".")
    is_acronym = len(stem) > 1 and stem.isupper()
    return (
        (words[-1].endswith(".") and (stem in known or (stem.lower() in known and not is_acronym)))
        or INITIALS.fullmatch(before) is not None
        or (not is_spaced and _is_within_word(before, after))
        or (after[0].islower() and LETTERS.fullmatch(words[-1]) is not None)
        or (
            language == "de"
            and ORDINAL.fullmatch(" ".join(words[-2:])) is not None
            and following not in NO_NOUNS
        )
        or (language == "ja" and before[-1] in CLOSING and QUOTED.match(after) is not None)
        or after[0] in CLOSING
    )


def _is_within_word(before: str, after: str) -> bool:
    """Return whether a boundary without a space is within a word, as in ASP.NET and README.TXT.

    A sentence after it begins with a capital, or a mark: "He left.She stayed."
    """
    words, first = re.sub(r"\W+$", "", before).split(), FIRST_WORD.match(after)
    if first is None:
        return after[0] in "-%\\"
    if not words or OF_NO_WORD.search(words[-1]) or first[0] in HOSTS:
        return True
    is_capitalized = not _has_case(first[0]) or first[0].istitle()
    return not is_capitalized or (len(words[-1]) == 1 and _has_case(words[-1]))


def _has_case(word: str) -> bool:
    return word.lower() != word.upper()


def _lengths(line: str, language: str) -> list[int]:
    """Return the number of characters of each sentence, with the white space after it."""
    from sentencex import segment

    # The library accepts UTF-8 only, and fails at a space of several bytes after an initial.
    plain = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", re.sub(r"\s", " ", line))
    lengths = [len(sentence) for sentence in segment(language, plain)]
    if sum(lengths) != len(line):
        return [len(line)]
    own = OWN_STOPS[language].finditer(line) if language in OWN_STOPS else ()
    ends = {0, *itertools.accumulate(lengths), *(match.end() for match in own)}
    return [end - begin for begin, end in itertools.pairwise(sorted(ends))]


def positions(pieces: Sequence[Piece]) -> list[int]:
    """Return the index in the text at which each piece begins."""
    lengths = itertools.accumulate(len(piece.space) + len(piece.text) for piece in pieces)
    return [end - len(piece.text) for end, piece in zip(lengths, pieces, strict=True)]
