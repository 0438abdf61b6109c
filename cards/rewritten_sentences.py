"""Sentences as people type them, and with other names: more training pairs for everyday sentences.

Tatoeba writes every sentence with a capital letter and a final mark, and calls nearly everyone Tom.
A visitor types "how are you", and has another name. So each source is also written carelessly, with
its target unchanged, and names that both sides share are replaced on both.
"""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence

from zoo import Pair

WORD = re.compile(r"[^\W\d_]+")
MARK = re.compile(r"\s*[.!?…]+$")
VOWELS = "aeiouyhAEIOUYHÀÂÉÈÊËÎÏÔÖÛÜàâéèêëîïôöûü"
"""Before these, French shortens *de* and *que*; before *h*, sometimes."""
BEFORE_VOWEL = "e (?=[aeiouâàéèêëîïôûœAEIOUÂÀÉÈÊËÎÏÔÛŒ])"
"""Pattern of the last letter of such a word, where it is always shortened."""
LOWERED, FIRST_LOWERED, WITHOUT_MARK, WITHOUT_APOSTROPHE = 0.15, 0.25, 0.35, 0.1
"""How many sources are in lowercase, begin so, end without their mark, or have no apostrophe."""
LOCALES = ("en_US", "en_GB", "fr_FR", "de_DE", "es_ES", "it_IT")


def names_of_people(locales: Sequence[str] = LOCALES) -> list[str]:
    """Return first and last names of one word that Faker lists for some languages, sorted."""
    names: set[str] = set()
    for locale in locales:
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        names.update(provider.first_names, provider.last_names)
    return sorted(name for name in names if WORD.fullmatch(name) and name.istitle())


def entries(text: str) -> list[str]:
    """Return the entries of a list in several lines, which `|` separates."""
    return text.strip().replace("\n", "|").split("|")


def turned(pairs: Iterable[Sequence[str]], english_first: bool) -> list[Pair]:
    """Return pairs, and unless English is to be first, their sides exchanged."""
    return [Pair(*pair) if english_first else Pair(*pair[::-1]) for pair in pairs]


def typed(source: str, draw: random.Random) -> str:
    """Return a source as somebody in a hurry may type it; often it is unchanged."""
    chance = draw.random()
    if chance < LOWERED:
        source = source.lower()
    elif chance < LOWERED + FIRST_LOWERED:
        source = source[:1].lower() + source[1:]
    if draw.random() < WITHOUT_MARK:
        source = MARK.sub("", source) or source
    if draw.random() < WITHOUT_APOSTROPHE:
        source = re.sub(r"['’]", "", source) or source
    return source


def half_typed(pairs: Iterable[Pair], draw: random.Random) -> list[Pair]:
    """Return pairs, half of them with their source as somebody may type it."""
    return [
        Pair(typed(pair.source, draw) if draw.random() < 0.5 else pair.source, pair.target)
        for pair in pairs
    ]


def with_other_names(
    pairs: Sequence[Pair], names: Sequence[str], times: int, draw: random.Random
) -> Iterator[Pair]:
    """Yield pairs in which the names that both sides share are replaced.

    A name is a capitalized word of both sides that no sentence of either side has in lowercase. It
    is replaced by one that begins with a vowel if it does, because French shortens words before it.

    Args:
        pairs: those to rewrite. Pairs without a common name are left out.
        names: the new ones. Those that occur in the pairs, as a name or a word, are not used.
        times: how often each pair is rewritten.
        draw: the source of randomness.
    """
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    used = {word for text in texts for word in WORD.findall(text)}
    known = {word.lower() for word in used}
    by_vowel: dict[bool, list[str]] = {True: [], False: []}
    for name in names:
        if name.lower() not in known:
            by_vowel[name[0] in VOWELS].append(name)
    for pair in pairs:
        sides = [set(WORD.findall(text)) for text in (pair.source, pair.target)]
        shared = [word for word in sorted(sides[0] & sides[1]) if _is_name(word, used)]
        for _ in range(times if shared else 0):
            new = {name: draw.choice(by_vowel[name[0] in VOWELS]) for name in shared}
            yield Pair(*(_replaced(text, new) for text in (pair.source, pair.target)))


def _is_name(word: str, used: set[str]) -> bool:
    return len(word) > 1 and word.istitle() and word.lower() not in used


def _replaced(text: str, new: dict[str, str]) -> str:
    return WORD.sub(lambda match: new.get(match[0], match[0]), text)


def rewritten(pairs: Sequence[Pair], times: int = 4) -> list[Pair]:
    """Return every pair as somebody may type it, and those with names `times` with other names."""
    draw = random.Random(1)
    hurried = [Pair(typed(pair.source, draw), pair.target) for pair in pairs]
    return [*hurried, *with_other_names(pairs, names_of_people(), times, draw)]
