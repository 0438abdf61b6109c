"""How languages write decimals and thousands."""

from __future__ import annotations

from zoo.translation.lost_numbers import GROUPS

_POINT = """
am ar as bn bo cy en fa fil ga gd gu ha he hi ig ja km kn ko lg mg mi ml mn mr ms mt my ne ns ny om
or pa sa sd si sn so st sw ta te th ti tl tn ug ur xh yi yo zh zu
"""
POINT = frozenset(_POINT.split())
"""The languages, of those with a known code, that write a decimal point; others have a comma."""

_DOTTED = """
az bs ca da de el es eu fo fy gl hr id is it jv ku lb ln lo mk nl ps pt ro rw sl sr su tr vi wo
"""
DOTTED = frozenset(_DOTTED.split())
"""Those with a comma that separate thousands by points; others have a space."""

MINUS = "-−"

SMALL = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215e"
"""Fractions, and digits of powers."""


def converted(number: str, source: str, target: str) -> str:
    """Return a number with the decimal mark and the thousands' separator of another language.

    Args:
        number: digits, in groups or not, with decimals after a point or a comma or without.
        source, target: the codes of the languages; empty if not known: then nothing changes.
    """
    if not (source and target) or (source in POINT) == (target in POINT):
        return number
    marks = GROUPS.findall(number)
    own, mark = "." if source in POINT else ",", marks[-1] if marks else ""
    whole, _, decimals = number.rpartition(mark) if mark else (number, "", "")
    # Three digits after a point or a comma are decimals if it is the language's own mark.
    is_alone = mark == own and marks.count(mark) == 1
    is_decimal = len(decimals) != 3 or mark != marks[0] or is_alone or whole.lstrip(MINUS) == "0"
    if mark not in (",", ".") or not is_decimal:
        whole, decimals = number, ""
    separator = "," if target in POINT else "." if target in DOTTED else " "
    whole = GROUPS.sub(separator, whole)
    return f"{whole}{'.' if target in POINT else ','}{decimals}" if decimals else whole
