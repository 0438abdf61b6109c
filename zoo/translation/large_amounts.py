"""Large amounts such as 250 million, whose second word a small network loses."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from zoo.translation.lost_numbers import DIGIT, NUMBER, OFTEN_IN_WORDS, value_of
from zoo.translation.number_formats import converted

SYMBOLS = "€$£¥"

SCALES = {
    "de": ("Million(?:en)?|Mio", "Milliarden?|Mrd", "Billion(?:en)?|Bio"),
    "en": ("million", "billion|bn", "trillion"),
    "fr": ("millions?", "milliards?|Mds?", "billions?"),
    "nl": ("miljoen", "miljard", "biljoen"),
}
"""What follows a number of millions, of thousands of them, and of millions of them."""

POWERS = (6, 9, 12)
FORMS = {
    "de": (("Million", "Millionen"), ("Milliarde", "Milliarden"), ("Billion", "Billionen")),
    "en": (("million",) * 2, ("billion",) * 2, ("trillion",) * 2),
    "fr": (("million", "millions"), ("milliard", "milliards"), ("billion", "billions")),
    "nl": (("miljoen",) * 2, ("miljard",) * 2, ("biljoen",) * 2),
}
"""How these are written, of one and of several."""

NAMES = {"de": {"€": "Euro", "$": "Dollar"}, "fr": {"€": "euros", "$": "dollars"},
         "nl": {"€": "euro", "$": "dollar"}}  # fmt: skip
"""The words for currencies after such an amount."""

RANGE = re.compile(r"[0-9]\s?(?:[–-]|à|and|bis|et|of|or|oder|ou|to|tot|und)\s?$")
"""What stands between two numbers of which only the second has the word."""

_NO_NOUNS = """
a ai ainsi alors après as au aujourd aussi aux avant avec c car ce cela ces cet cette chaque
chez comme contre d dans de depuis des deux dont du elle elles en entre est et eu font hier ici
il ils j je l la le les lui là mais moins n ne nous on ont ou où par pendant peut peuvent plus
pour près puis qu quand que qui s sans se seront si soit son sont sous sur t tous très un une
vers vivent vous y à été était étaient
"""
NO_NOUNS = frozenset(_NO_NOUNS.split())
"""French words before which an amount has no "de"."""

Power = int
"""Of ten: 6, 9 or 12."""


class Amount(NamedTuple):
    """An amount in a text: where it begins and ends, its number, its power, and its currency.

    In French it ends after its "de".
    """

    start: int
    end: int
    number: str
    power: Power
    symbol: str


@functools.cache
def _pattern(language: str) -> re.Pattern[str]:
    scales = "|".join(
        f"(?P<p{power}>{words})" for power, words in zip(POWERS, SCALES[language], strict=True)
    )
    of = r"(?:\sde(?=\s(?!plus\b|moins\b|trop\b))|\sd['’])?" if language == "fr" else ""
    return re.compile(
        rf"(?<![\w.,:/\\@%+{SYMBOLS}-])(?<![0-9]\s)(?:(?P<before>[{SYMBOLS}])\s?)?"
        rf"(?P<number>{NUMBER.pattern})[\s-]?(?:{scales})(?!\w|-)"
        rf"(?:\.(?=\s[\w{SYMBOLS}]))?(?:\s?(?P<after>[{SYMBOLS}])(?!\w))?{of}",
        re.IGNORECASE,
    )


def amounts_of(text: str, source: str, target: str) -> Iterator[Amount]:
    """Yield the amounts of a text, if their words are known in its language and the target's."""
    if source not in SCALES or target not in SCALES or not DIGIT.search(text):
        return
    for match in _pattern(source).finditer(text):
        if not RANGE.search(text, max(match.start() - 8, 0), match.start()):
            yield _amount(match)


def _amount(match: re.Match[str]) -> Amount:
    power = next(power for power in POWERS if match[f"p{power}"])
    return Amount(*match.span(), match["number"], power, match["before"] or match["after"] or "")


def has_amount(translation: str, amount: tuple[str, Power], target: str) -> bool:
    """Return whether a translation has an amount: a number, such as 2,5, of a power of ten.

    It may also have all digits, or a small number in words.
    """
    number, power = amount
    made = map(_amount, _pattern(target).finditer(translation))
    values = {_value(each.number, each.power) for each in made}
    values |= {_value(match.group()) for match in NUMBER.finditer(translation)}
    if _value(number, power) in values:
        return True
    word = SCALES[target][POWERS.index(power)]
    may_be_in_words = OFTEN_IN_WORDS.fullmatch(number) is not None
    return may_be_in_words and re.search(rf"(?<!\w)(?:{word})\b", translation, re.I) is not None


def _value(number: str, power: Power = 0) -> Decimal:
    match = NUMBER.fullmatch(number)
    assert match is not None
    return Decimal(".".join(value_of(match)) + "0").scaleb(power)


@functools.cache
def stand_in_pattern(number: str, target: str) -> re.Pattern[str]:
    """Return the pattern of the number that stands for an amount, in a translation."""
    noun = r"(?P<noun>\s(?=[^\W\d_]))?" if target == "fr" else "(?P<noun>)"
    return re.compile(rf"(?<![\w.,]){number}(?!\w|[.,]\d){noun}")


def written(amount: tuple[str, Power, str], match: re.Match[str], source: str, target: str) -> str:
    """Return an amount, its number, power and symbol, as a language writes it for a stand-in.

    Args:
        amount: of the source.
        match: of `stand_in_pattern`, or of a number with its currency.
        source, target: the codes of the languages.
    """
    number, power, symbol = amount
    is_one = _value(number) == 1 if target == "de" else _value(number) < 2
    word = FORMS[target][POWERS.index(power)][not is_one]
    text = f"{converted(number, source, target)} {word}"
    if target == "en":
        return f"{symbol}{text}"
    if symbol:
        name = NAMES[target].get(symbol, symbol)
        return f"{text}{_of(name) if target == 'fr' else ' '}{name}"
    if not match["noun"]:
        return text
    after = match.string[match.end() :]
    first = re.match(r"\w+", after)
    is_noun = first is not None and first[0].lower() not in NO_NOUNS
    return text + (_of(after) if is_noun else match["noun"])


def _of(noun: str) -> str:
    """Return what stands in French between an amount and a noun."""
    return " d'" if noun[:1].lower() in "aeiouyhàâéèêëîïôöùûüœ" else " de "
