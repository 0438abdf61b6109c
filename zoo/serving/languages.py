"""English names of languages, by their ISO 639-1 codes; others are named by their code."""

from __future__ import annotations

_NAMES = """
ar Arabic, az Azerbaijani, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, da Danish, de German,
el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish,
fr French, ga Irish, gl Galician, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, id Indonesian,
is Icelandic, it Italian, ja Japanese, ko Korean, lt Lithuanian, lv Latvian, mk Macedonian,
ms Malay, nb Norwegian, nl Dutch, no Norwegian, pl Polish, pt Portuguese, ro Romanian, ru Russian,
sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, th Thai, tl Tagalog, tr Turkish,
uk Ukrainian, ur Urdu, vi Vietnamese, zh Chinese
"""

NAMES = dict(entry.split(" ", 1) for entry in " ".join(_NAMES.split()).split(", "))


def language_name(code: str) -> str:
    """Return a language's English name, or its code where the name is not known."""
    return NAMES.get(code, code)
