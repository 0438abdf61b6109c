"""What a translation lost is copied: its source is read once more, with stand-ins."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zoo.translation.dates import dates_of
from zoo.translation.garbled_names import garbled_names, lost_acronyms, unknown_names
from zoo.translation.large_amounts import amounts_of
from zoo.translation.lost_items import Item, has_lost, items_of
from zoo.translation.lost_numbers import may_be_in_words
from zoo.translation.parts import Part
from zoo.translation.scripts import NOUNS
from zoo.translation.spelling import TAG, is_wordless, stays
from zoo.translation.stand_ins import (
    ATTEMPTS,
    Reading,
    Replacement,
    as_written,
    replaced,
    replacements_in,
    with_stand_ins,
)
from zoo.translation.times import times_of
from zoo.translation.translation import Translation
from zoo.translation.vocabulary import Vocabularies

WORD = re.compile(r"[^\s▁]+")
FACT = re.compile(r"(?<![^\W_])[0-9]+(?![^\W_])|\b[^\W\d_a-z]\w+")
"""A number, or a word that does not begin with a small letter of English."""

FIRST = re.compile(r"(?<!\w)1(?:er|\u00ba|st)\b")
"""The first day of a month."""

MARKS = 16
"""The most tokens that are read of what stays as it is."""

Key = tuple[int, int]
"""That of a part."""

Ranked = list[Translation]
"""The translations of a part, the best first."""

Pairs = tuple[tuple[int, int], ...] | None
"""The alignment of a translation."""


def shortened(parts: Iterable[Part], between: bool) -> list[Part]:
    """Return parts of which those that stay as they are have few tokens, for each checkpoint.

    A network may write thousands of tokens for a thousand marks. `between` two languages, addresses
    stay, too.
    """
    are_unread = stays if between else is_wordless
    return [
        part._replace(tokens=tuple(each[:MARKS] for each in part.tokens))
        if are_unread(part.text)
        else part
        for part in parts
    ]


def copied(
    parts: Sequence[Part],
    translated: Mapping[Key, Ranked],
    languages: tuple[str, str],
    words: Vocabularies,
    read: Callable[[list[Part], list[str]], list[Part]],
    translate: Callable[[list[Part]], Mapping[Key, Ranked]],
) -> dict[Key, Ranked]:
    """Return new translations of parts whose own lack a number, a date, an address or a name.

    In a new translation, each stand-in is replaced by what it stands for. There is none where a
    stand-in is lost, too, or is in the translation twice, or where it lacks something else that
    the one before had. Alternatives without a stand-in are those of before.

    Args:
        parts: what was translated.
        translated: the translations of each.
        languages: the codes of the source's and the target's; empty if not known.
        words: what the network knows of words.
        read: returns parts with other texts, without those that are too long.
        translate: returns the translations of parts.
    """
    new = dict(_as_they_are(parts, translated, languages))
    lost = {
        part.key: (part, items)
        for part in parts
        if part.key not in new
        and (items := _lost_items(part.text, translated[part.key][0].text, languages, words))
    }
    for attempt in range(len(ATTEMPTS)):
        readings: dict[Key, tuple[Part, Reading]] = {}
        for key, (part, items) in lost.items():
            reading = with_stand_ins(part.text, items, *languages, attempt)
            if key not in new and reading is not None:
                readings[key] = part, reading
        if not readings:
            continue
        again = [part for part, _ in readings.values()]
        texts = [reading.text for _, reading in readings.values()]
        for key, ranked in translate(read(again, texts)).items():
            part, reading = readings[key]
            before = translated[key]
            whole = [one for each in ranked if (one := _whole(each, part.text, reading))]
            kept = [(*each.spans[0], each.kept) for each in reading.stand_ins]
            if whole and _keeps(replaced(part.text, kept), before[0].text, whole[0].text):
                new[key] = whole + before[: len(before) - len(whole)]
    return new


def _as_they_are(
    parts: Iterable[Part], translated: Mapping[Key, Ranked], languages: tuple[str, str]
) -> Iterator[tuple[Key, Ranked]]:
    """Yield parts of addresses, and without known letters, as they are, but for their numbers."""
    for part, before in _unread_parts(parts, translated, stays):
        plain, pairs = TAG.sub("", part.text), before[0].alignment
        changes = as_written(items_of(plain, languages[0]), *languages)
        text = replaced(plain, changes).strip()
        if pairs is not None:
            pairs = tuple(enumerate(_words_of(plain, text, changes)))
        own = (text,) if text else ()
        yield part.key, [_unread(before[0], text, pairs, own), *before[1:]]


def unread(parts: Iterable[Part], translated: Mapping[Key, Ranked]) -> Iterator[tuple[Key, Ranked]]:
    """Yield words without known letters as they are."""
    for part, before in _unread_parts(parts, translated, is_wordless):
        pairs = None if before[0].alignment is None else ((0, 0),)
        yield part.key, [_unread(before[0], part.text, pairs, (part.text,)), *before[1:]]


def _unread(one: Translation, text: str, pairs: Pairs, own: tuple[str, ...]) -> Translation:
    """Return the translation of a part that stays as it is: of its tokens nothing is used."""
    return one._replace(text=text, alignment=pairs, copied=own, has_unknown_tokens=False)


def _unread_parts(
    parts: Iterable[Part], translated: Mapping[Key, Ranked], are_unread: Callable[[str], bool]
) -> Iterator[tuple[Part, Ranked]]:
    """Yield parts without words, or of unknown letters: a network writes something for them."""
    for part in parts:
        before = translated[part.key]
        if before[0].unknown or are_unread(part.text):
            yield part, before


def _lost_items(
    text: str, translation: str, languages: tuple[str, str], words: Vocabularies
) -> list[Item]:
    """Return the items of a text, with names that are garbled, if a translation lacks one."""
    items, names = list[Item](), list[tuple[int, int]]()
    in_words = may_be_in_words(text, translation, languages[1])
    for start, end, date in dates_of(text, *languages):
        items.append(Item("date", start, end, text[start:end], date=date))
    items += [i for i in items_of(text, languages[0], in_words) if _is_apart(i, items)]
    for start, end, number, power, symbol in amounts_of(text, *languages):
        amount = Item("amount", start, end, text[start:end], number, symbol, power=power)
        items += [amount] if _is_apart(amount, items) else []
    for start, end, time in times_of(text, *languages):
        items.append(Item("time", start, end, text[start:end], time))
    if NOUNS.isdisjoint(languages):
        names += garbled_names(text, translation, words.is_rare, words.is_usual)
        names += unknown_names(text, translation, words.lacks, words.is_usual, languages[0])
    names += lost_acronyms(text, translation, words.is_known)
    garbled: list[Item] = []
    for start, end in names:
        name = Item("name", start, end, text[start:end])
        if _is_apart(name, [*items, *garbled]):
            garbled.append(name)
    if garbled or has_lost(items, translation, *languages, in_words):
        return sorted([*items, *garbled], key=lambda item: item.start)
    return []


def _is_apart(item: Item, others: Iterable[Item]) -> bool:
    return all(item.end <= other.start or other.end <= item.start for other in others)


def _keeps(text: str, before: str, after: str) -> bool:
    """Return whether a new translation of a text copies no less than the one before.

    That is: its numbers and capitalized words; and it has no number that neither of them has.
    """
    of_text, of_before, of_after = (
        {*FACT.findall(FIRST.sub("1", each))} for each in (text, before, after)
    )
    numbers = {fact for fact in of_after if fact.isdigit()}
    return of_text & of_before <= of_after and numbers <= of_text | of_before


def _whole(one: Translation, text: str, reading: Reading) -> Translation | None:
    """Return the translation of a text from that of its reading; None if a stand-in is lost."""
    replacements = replacements_in(one.text, reading.stand_ins)
    if replacements is None:
        return None
    new = replaced(one.text, replacements)
    pairs = one.alignment
    if pairs is not None:
        back = [(*r, text[slice(*t)]) for t, r in (each.spans for each in reading.stand_ins)]
        of_source = _words_of(reading.text, text, back)
        of_target = _words_of(one.text, new, replacements)
        pairs = tuple(sorted({(of_source[s], of_target[t]) for s, t in pairs}))
    own = tuple(text[slice(*stand_in.spans[0])] for stand_in in reading.stand_ins)
    return one._replace(source=text, text=new, alignment=pairs, copied=own)


def _words_of(before: str, after: str, replacements: Sequence[Replacement]) -> list[int]:
    """Return for each word before a replacement its index after it; of a new text, the first's."""
    starts = [match.start() for match in WORD.finditer(after)]
    words, shift = [], 0
    left = list(replacements)
    for match in WORD.finditer(before):
        while left and left[0][1] <= match.start():
            start, end, new = left.pop(0)
            shift += len(new) - (end - start)
        position = min(match.start(), left[0][0]) if left else match.start()
        words.append(max(bisect.bisect_right(starts, position + shift) - 1, 0))
    return words
