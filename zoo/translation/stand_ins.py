"""Numbers, amounts, addresses and names, and what stands for them while a text is translated.

A small network loses what its training lacks: it writes 1250 for 12,50, and an address with other
letters. A number of two digits, or a known name, it copies. So it reads one of these instead, and
what it stands for replaces it in the translation, as the target language writes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from zoo.translation.lost_numbers import GROUPS, NUMBER, lost_numbers, value_of

Kind = Literal["number", "money", "code", "address", "name"]

_ENDINGS = """
ai app au biz br ca ch cn co com cz de dev dk edu es eu fi fr gov gr hu ie info int io jp kr mil
mobi mx net nl nz org pl pt ro ru se tr tv ua uk
bmp bz2 csv doc docx epub gif gz html ico iso jpeg jpg js json mkv mov mp3 mp4 odt ods pdf png ppt
pptx py rar svg tar tex toml tsv txt wav webp xls xlsx xml yaml yml zip
"""
"""The ends of the names of hosts and files, without those that are English words."""

_ADDRESS = rf"""
(?<![\w.@\#+/-]) (?:
    (?: https?:// | ftp:// | www\. ) [^\s<>"\u00ab\u00bb\u201c\u201d]{{1,500}}
  | [\w.+-]{{1,64}} @ [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{1,8}}
  | [@\#] [^\W\d] \w{{1,64}}
  | [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{0,8}} \. (?-i: {"|".join(_ENDINGS.split())} ) \b
    (?! [@-] | \.\w ) (?: [/?] [^\s<>"\u00ab\u00bb\u201c\u201d]{{0,500}} )?
)
"""
ADDRESS = re.compile(_ADDRESS, re.VERBOSE | re.IGNORECASE)
"""An address of mail or the web, a name online or of a file."""

_SYMBOLS = "€$£¥"
_AFTER = r"""
(?! \s? (?: [ap]\.?m\b | uhr\b | h\b | h[0-9] | o'clock | thousand | mil\b | mille\b | tausend
          | mill?i | billi | bn\b | m[ir]?[lr]?d\b | mio\b | trilli ) )
"""
"""No time of day, and no number that a word multiplies."""

ITEM = re.compile(
    rf"""
    (?P<address> {_ADDRESS} )
  | (?P<before> (?<! [\w{_SYMBOLS}] ) [{_SYMBOLS}] [\ \u00a0\u202f]? )?
    (?<! [\w.,:/\\@\#%] ) (?<! [0-9] [\ \u00a0\u202f'’–-] )
    (?P<number> (?: (?<! \S ) [-−] )? (?:
        (?!0) [0-9]{{1,3}} (?P<group>[.,'’\u2009\u00a0\u202f\ ]) [0-9]{{3}} (?! [0-9] )
            (?: (?P=group) [0-9]{{3}} (?! [0-9] ) ){{0,4}} (?: [.,] [0-9]{{1,9}} )?
      | [0-9]{{1,18}} (?: [.,] [0-9]{{1,9}} )? ) )
    (?= (?: [kcm]?[glm] \b )? (?! \w | [.,:/'’–-] [0-9] | [\ \u00a0\u202f] [0-9] ) ) {_AFTER}
    (?P<after> [\ \u00a0\u202f]? [{_SYMBOLS}] (?! \w ) )?
  | (?P<code> (?<! [\w.,:/\\@\#%{_SYMBOLS}+-] ) (?<! [0-9]\  ) \+? [0-9]{{1,9}}
        (?: [\ ./-] [0-9]{{1,9}} ){{2,8}} (?! [\w.,:/-] \w | \w | \ ? [0-9{_SYMBOLS}%] ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An address of mail or the web, a name online or of a file; a number, perhaps of money; or a code.

Codes are numbers of three parts or more: dates in digits, telephone numbers, versions.
"""

SIGN_OF_ITEM = re.compile(r"[0-9@#]|[.:][/\w]")
"""What every one of them has."""

END_OF_ADDRESS = re.compile(r"[.,;:!?…)\]}'’]+$")
"""What follows an address rather than ends it."""

_POINT = """
am bn cy en fil ga gu ha he hi ig ja km kn ko lo ml mr ms mt my pa sa si sw ta te th tl ur yo zh zu
"""
POINT = frozenset(_POINT.split())
"""The languages, of those with a known code, that write a decimal point; others have a comma."""

_DOTTED = "ca da de el es eu gl hr id is it mk nl pt ro sl sq sr tr vi"
DOTTED = frozenset(_DOTTED.split())
"""Those with a comma that separate thousands by points; others have a space."""

CURRENCIES = {
    "de": ("Dollar", "Euro"), "en": ("dollars", "euros"), "es": ("dólares", "euros"),
    "fr": ("dollars", "euros"), "it": ("dollari", "euro"), "nl": ("dollar", "euro"),
    "pt": ("dólares", "euros"),
}  # fmt: skip
"""What stands for any currency, by language, in turn, after a number."""

_CURRENCY = r"(?:d[oó]l(?:lar|ar|lari)(?:e?s)?|euros?)"

_NAMES = r"\b(?:euro|d[oó]l[la]|pound|quid|bucks|livre|pfund|libra|pond|sterlin|yen|yuan)"
CURRENCY = re.compile(rf"[{_SYMBOLS}]|{_NAMES}", re.IGNORECASE)
"""A currency, in one of these languages."""

NAMED = re.compile(rf"[^0-9]{{0,24}}{_NAMES}", re.IGNORECASE)
"""What follows a number whose currency is a word."""

VOWELS = "AEIOUYÀÁÂÄÅÆÈÉÊËÌÍÎÏÒÓÔÖØŒÙÚÛÜÝ"
WORD = re.compile(r"\w+")
WHOLE = re.compile(r"(?<!\w)[0-9]{1,18}")

DATE, MONTHS = 3, 12
"""How many numbers a date has, and the largest of a month."""

MINUS = "-−"
BELOW = re.compile(
    r"[-−–]\s?[0-9]|minus|moins|meno|below|under|unter|sous|bajo|sotto|onder|zero|zéro|null", re.I
)
"""A number below zero, in one of these languages."""

_TWO_DIGITS = ("47", "58", "63", "72", "94", "35", "26", "59", "73", "64")
_THREE_DIGITS = ("250", "370", "460", "520", "640", "730", "940", "260", "340", "570")
_FREQUENT = ("20", "30", "12", "25", "15", "60", "40", "24", "16", "90")
_PEOPLE, _CITIES = ("Tom", "Maria", "John", "Anna"), ("Boston", "Berlin", "Madrid", "Tokyo")
ATTEMPTS = (
    (_PEOPLE, _TWO_DIGITS, 0), (_CITIES, _THREE_DIGITS, 0), (_TWO_DIGITS, _FREQUENT, 0),
    (_FREQUENT, _TWO_DIGITS, 1),
)  # fmt: skip
"""What stands for addresses, for numbers and for currencies at each attempt.

Numbers have no one, and no vowel at the beginning of their English name.
"""


class Item(NamedTuple):
    """A number, an amount or an address of a text; start and end count characters."""

    kind: Kind
    start: int
    end: int
    text: str
    number: str = ""
    symbol: str = ""


class StandIn(NamedTuple):
    """What a network reads for an item.

    text: of the stand-in; written: what the target language writes for the item; spans: of the
    item in the text, and of the stand-in in what is read, (start, end) in characters.
    """

    kind: Kind
    text: str
    written: str
    spans: tuple[tuple[int, int], tuple[int, int]]


class Reading(NamedTuple):
    """A text with stand-ins, and these in order."""

    text: str
    stand_ins: tuple[StandIn, ...]


def items_of(text: str) -> Iterator[Item]:
    """Yield the numbers, amounts of money and addresses of a text that a network may lose.

    Numbers that are often in words are none, but for those of money.
    """
    if not SIGN_OF_ITEM.search(text):  # so it is with most texts
        return
    for match in ITEM.finditer(text):
        start, end = match.span()
        kind: Kind = "address" if match["address"] else "code" if match["code"] else "number"
        symbols = [side for side in (match["before"], match["after"]) if side]
        if kind == "address":
            end -= len(match.group()) - len(END_OF_ADDRESS.sub("", match.group()))
        elif kind == "number" and len(symbols) == 1:
            yield Item("money", start, end, match.group(), match["number"], symbols[0].strip())
            continue
        elif kind == "number":
            start, end = match.span("number")
            if not (lost_numbers(match["number"], "") or match["number"][0] in MINUS):
                continue
        text_of = text[start:end]
        yield Item(kind, start, end, text_of, text_of if kind == "number" else "")


def is_lost(item: Item, translation: str, source: str, target: str) -> bool:
    """Return whether a translation lacks an item of its source.

    Args:
        item: a number, an amount of money, a code or an address.
        translation: of the text that it is from.
        source, target: the codes of their languages; empty if not known.
    """
    if item.kind == "address":
        return item.text not in translation
    if item.kind == "code":
        return _is_lost_code(item.text, translation)
    written = _number(item.number, source, target)
    is_as_before = item.number in translation and written not in translation
    if is_as_before or lost_numbers(item.number, translation):
        return True
    if item.number[0] in MINUS and not BELOW.search(translation):
        return True
    return item.kind == "money" and target in CURRENCIES and not _has_money(item, translation)


def _has_money(item: Item, translation: str) -> bool:
    """Return whether the number of an item stands beside the symbol or the word of a currency.

    One that a translation has in words needs any currency.
    """
    values = [value_of(match) for match in NUMBER.finditer(item.number)]
    written = [match for match in NUMBER.finditer(translation) if value_of(match) in values]
    for match in written:
        around = translation[max(match.start() - 2, 0) : match.end() + 2]
        if symbols := set(_SYMBOLS).intersection(around):
            return item.symbol in symbols
        if NAMED.match(translation, match.end()):
            return True
    return not written and CURRENCY.search(translation) is not None


def _is_lost_code(text: str, translation: str) -> bool:
    """Return whether a translation lacks one of the numbers of a code; a month may be in words."""
    known = {int(digits) for digits in WHOLE.findall(translation)}
    numbers = [int(digits) for digits in WHOLE.findall(text)]
    missing = [number for number in numbers if number not in known]
    is_month = len(numbers) == DATE and len(missing) == 1 and missing[0] <= MONTHS
    return bool(missing) and not is_month


def with_stand_ins(
    text: str, items: Iterable[Item], source: str, target: str, attempt: int = 0
) -> Reading | None:
    """Return a text in which stand-ins replace items; None if there are not enough of them.

    Args:
        text: the text.
        items: of it, in order.
        source, target: the codes of its language and of the translation's; empty if not known.
        attempt: the number of an earlier attempt, plus 1: others are taken.
    """
    names, numbers, currency = ATTEMPTS[attempt]
    words, used = {word.title() for word in WORD.findall(text)}, set[str]()
    read, stand_ins, end = "", [], 0
    for item in items:
        among: tuple[str, ...]
        among = numbers if item.kind in ("number", "money", "code") else names
        if item.kind == "name":
            among = _beginning_as(item.text, names)
        taken = text if among[0].isdigit() else words
        short = next((one for one in among if one not in taken and one not in used), "")
        if not short:
            return None
        used.add(short)
        shown = item.text.replace(item.number, short) if item.number else short
        if item.kind == "money" and source in CURRENCIES and target in CURRENCIES:
            shown = f"{short} {CURRENCIES[source][currency]}"
        read += text[end : item.start]
        spans = (item.start, item.end), (len(read), len(read) + len(shown))
        stand_ins.append(StandIn(item.kind, short, _written(item, source, target), spans))
        read, end = read + shown, item.end
    return Reading(read + text[end:], tuple(stand_ins)) if stand_ins else None


def _beginning_as(name: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return names, those first that begin with a vowel if a name does: French elides before it."""
    begins = name[0] in VOWELS
    return tuple(sorted(others, key=lambda other: (other[0] in VOWELS) != begins))


def _written(item: Item, source: str, target: str) -> str:
    """Return an item as the target language writes it."""
    if not item.number:
        return item.text
    number = _number(item.number, source, target)
    if item.kind == "number" or not (source and target):
        return item.text.replace(item.number, number)
    minus, plain = number[: number[0] in MINUS], number.lstrip(MINUS)
    return f"{minus}{item.symbol}{plain}" if target in POINT else f"{number} {item.symbol}"


def _number(text: str, source: str, target: str) -> str:
    """Return a number with the decimal mark and the thousands' separator of a language."""
    if not (source and target) or (source in POINT) == (target in POINT):
        return text
    marks = GROUPS.findall(text)
    own, mark = "." if source in POINT else ",", marks[-1] if marks else ""
    whole, _, decimals = text.rpartition(mark) if mark else (text, "", "")
    # Three digits after a point or a comma are decimals if it is the language's own mark.
    is_alone = mark == own and marks.count(mark) == 1
    is_decimal = len(decimals) != 3 or mark != marks[0] or is_alone or whole.lstrip(MINUS) == "0"
    if mark not in (",", ".") or not is_decimal:
        whole, decimals = text, ""
    separator = "," if target in POINT else "." if target in DOTTED else " "
    whole = GROUPS.sub(separator, whole)
    return f"{whole}{'.' if target in POINT else ','}{decimals}" if decimals else whole


@functools.cache
def _pattern(kind: Kind, text: str) -> re.Pattern[str]:
    """Return the pattern of a stand-in in a translation; of money, with its currency."""
    alone = rf"(?<![\w.,]){text}(?!\w|[.,]\d)"
    if kind == "money":
        before = rf"[{_SYMBOLS}]\s?{text}(?!\w|[.,]\d)"
        alone = rf"{before}|{alone}[\s-]?(?:{_CURRENCY}\b|[{_SYMBOLS}])"
    return re.compile(alone, re.IGNORECASE)


Replacement = tuple[int, int, str]
"""A span of a text, (start, end), and what replaces it."""


def replacements_in(translation: str, stand_ins: Sequence[StandIn]) -> list[Replacement] | None:
    """Return the replacements in a translation, in order; None unless it has each stand-in once."""
    replacements = []
    for stand_in in stand_ins:
        matches = list(_pattern(stand_in.kind, stand_in.text).finditer(translation))
        is_number = stand_in.text.isdigit()
        if len(matches) != 1 or (is_number and translation.count(stand_in.text) > 1):
            return None
        replacements.append((*matches[0].span(), stand_in.written))
    return sorted(replacements)


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return a text with replacements, which are in order."""
    for start, end, new in reversed(replacements):
        text = text[:start] + new + text[end:]
    return text
