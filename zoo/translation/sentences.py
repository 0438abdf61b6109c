"""Texts split into sentences, which are translated one by one and joined again.

The boundaries are those of the library sentencex. Nothing here imports torch.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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

_LONGER_CODES = """
amh am, ara ar, arb ar, bel be, ben bn, bul bg, cat ca, ces cs, cmn zh, dan da, deu de, ell el,
eng en, est et, eus eu, fas fa, fin fi, fra fr, guj gu, heb he, hin hi, hrv hr, hun hu, hye hy,
ind id, isl is, ita it, jpn ja, kan kn, kat ka, kaz kk, khm km, kor ko, lit lt, lvs lv, mal ml,
mar mr, mkd mk, mya my, nld nl, nob nb, nno nn, pan pa, pes fa, pol pl, por pt, ron ro, rus ru,
slk sk, slv sl, spa es, srp sr, swe sv, tam ta, tel te, tha th, tur tr, ukr uk, urd ur, vie vi,
yue zh, zho zh, zsm ms
"""
LONGER_CODES = dict(pair.split() for pair in _LONGER_CODES.split(","))
"""Two-letter codes by the three-letter ones that multilingual models use."""

WITHOUT_SPACES = frozenset({"ja", "zh"})
"""Languages that write no space between sentences."""


class Piece(NamedTuple):
    """A part of a text, and the white space before it."""

    space: str
    text: str


def language_code(codes: Sequence[str]) -> str:
    """Return the two-letter code of the first language; empty if it is not one that is split.

    `de`, `de-AT`, `deu` and `deu_Latn` are `de`.
    """
    base = re.split("[-_@]", codes[0])[0].lower() if codes else ""
    base = LONGER_CODES.get(base, base)
    return base if base in LANGUAGES else ""


def separator(space: str, languages: Sequence[str]) -> str:
    """Return what stands between two translations in the given languages.

    Args:
        space: the white space between the sources. Line breaks are kept.
        languages: the target languages, of which the first counts.
    """
    if space.splitlines() not in ([], [space]):
        return space
    return "" if language_code(languages) in WITHOUT_SPACES else " "


def split_sentences(text: str, language: str) -> list[Piece]:
    """Return the sentences of a text, in linear time; every line ends a sentence.

    The pieces are exact parts of the text. White space at its end is left out.

    Args:
        text: what to split.
        language: a two-letter code, or an empty string: only lines are split.
    """
    pieces: list[Piece] = []
    space = ""
    for line in text.splitlines(keepends=True):
        content = line.strip()
        start = len(line) - len(line.lstrip())
        space += line[:start]
        for begin, end in _spans(content, language):
            sentence = content[begin:end].strip()
            pieces.append(Piece(space, sentence))
            space = content[begin + len(sentence) : end]
        space += line[start + len(content) :]
    return pieces


def _spans(line: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each sentence of a line, which does not begin with space.

    A span without a letter, such as a number of a list, belongs to the sentence after it at the
    beginning of the line, else to the one before it.
    """
    if not line or not language:
        yield from [(0, len(line))] if line else []
        return
    begin = end = 0
    for length in _lengths(line, language):
        has_letter = any(map(str.isalpha, line[end : end + length]))
        if has_letter and any(map(str.isalpha, line[begin:end])):
            yield begin, end
            begin = end
        end += length
    yield begin, end


def _lengths(line: str, language: str) -> list[int]:
    """Return the number of characters of each sentence, with the white space after it."""
    from sentencex import segment

    # The library accepts UTF-8 only, and fails at a space of several bytes after an initial.
    plain = "".join(
        " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" if "\ud800" <= c <= "\udfff" else c
        for c in line
    )
    lengths = [len(sentence) for sentence in segment(language, plain)]
    return lengths if sum(lengths) == len(line) else [len(line)]


def positions(pieces: Sequence[Piece]) -> list[int]:
    """Return the index in the text at which each piece begins."""
    lengths = itertools.accumulate(len(piece.space) + len(piece.text) for piece in pieces)
    return [end - len(piece.text) for end, piece in zip(lengths, pieces, strict=True)]
