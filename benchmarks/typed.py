"""How checkpoints translate sentences as people type them.

    python benchmarks/typed.py NAME... [--most 500]

Printed is the BLEU, without regard to case, of the translations of validation sentences as they
are and as `zoo translate` reads them: in capitals, in lowercase, without accents, with one
word in capitals, and in typographic quotes, which the references have as their language writes
them. Times of day are counted: how many of 24 hours in each of six sentences are right.
So are ranges of small numbers, and fractions: how many of 20 in each of five sentences.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Callable, Sequence

import sacrebleu

import zoo
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry
from zoo.translation.times import time_pattern

SENTENCES = {
    "en": ("It's {}.", "The train leaves at {}.", "I'll be there at {}.", "We eat at {} today.",
           "Call me at {}.", "The shop opens at {}."),
    "fr": ("Il est {}.", "Le train part à {}.", "Je serai là à {}.", "On mange à {} aujourd'hui.",
           "Appelle-moi à {}.", "Le magasin ouvre à {}."),
}  # fmt: skip
MINUTES = (0, 15, 30)
AMOUNTS = {
    "en": ("Read pages {}.", "We need {} chairs.", "It takes {} minutes.", "He invited {} people.",
           "I drank {} glasses of water."),
    "fr": ("Lisez les pages {}.", "Il nous faut {} chaises.", "Ça prend {} minutes.",
           "Il a invité {} personnes.", "J'ai bu {} verres d'eau."),
}  # fmt: skip
RANGES = {"en": ("{}-{}", "{}–{}", "{} to {}"), "fr": ("{}-{}", "{}–{}", "{} à {}")}
FRACTIONS = "½¼¾⅓⅔"
NUMBER = re.compile(rf"[0-9]+[{FRACTIONS}]?|[{FRACTIONS}]")


def without_accents(text: str) -> str:
    """Return a text as it is typed without accents."""
    plain = text.replace("œ", "oe").replace("Œ", "Oe").replace("ß", "ss")
    return "".join(c for c in unicodedata.normalize("NFD", plain) if not unicodedata.combining(c))


def with_a_large_word(text: str) -> str:
    """Return a text whose longest word is in capitals."""
    longest = max(text.split(), key=len)
    return text.replace(longest, longest.upper(), 1)


QUOTES = "in typographic quotes"
TYPED: dict[str, Callable[[str], str]] = {
    "as in the data": str,
    "in capitals": str.upper,
    "in lowercase": str.lower,
    "without accents": without_accents,
    "in capitals, without accents": lambda text: without_accents(text).upper(),
    "one word in capitals": with_a_large_word,
    QUOTES: "“{}”".format,
}
QUOTED = {"fr": "\xab {} \xbb", "de": "„{}“"}
"""How references in typographic quotes are quoted; in other languages as "this"."""


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return the BLEU of texts, without regard to case."""
    return float(sacrebleu.corpus_bleu(list(texts), [list(references)], lowercase=True).score)


def time_of(hour: int, minute: int, language: str) -> str:
    """Return a time of day as it is typed."""
    if language == "fr":
        return f"{hour} h {minute:02}" if minute else f"{hour} h"
    half = "pm" if hour >= 12 else "am"
    return f"{hour % 12 or 12}" + (f":{minute:02}" if minute else "") + f" {half}"


def right_times(translator: zoo.Translator, source: str, target: str, *, split: bool) -> int:
    """Return how many times of day are right in a translation."""
    times = [(hour, minute) for hour in range(24) for minute in MINUTES]
    asked = [
        (sentence.format(time_of(*time, source)), f"{time[0]}:{time[1]:02}")
        for sentence in SENTENCES[source]
        for time in times
    ]
    made = translator.translate([text for text, _ in asked], split=split)
    return sum(
        time_pattern(time, target).search(text) is not None
        for (_, time), text in zip(asked, made, strict=True)
    )


def right_amounts(translator: zoo.Translator, source: str, *, split: bool) -> list[int]:
    """Return how many ranges, and how many fractions, are right in a translation."""
    ranges = [(n + n % 7, n + 2 + n % 11, RANGES[source][n % 3]) for n in range(1, 21)]
    right = []
    for amounts in (
        [form.format(*ends) for *ends, form in ranges],
        [f"{n or ''}{part}" for n in range(4) for part in FRACTIONS],
    ):
        asked = [(each, text.format(each)) for text in AMOUNTS[source] for each in amounts]
        made = translator.translate([text for _, text in asked], split=split)
        numbers = [
            (NUMBER.findall(each), NUMBER.findall(text))
            for (each, _), text in zip(asked, made, strict=True)
        ]
        right.append(sum(asked_for == written for asked_for, written in numbers))
    return right


def main() -> None:
    """Print a table for each checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--most", type=int, default=500, help="how many sentences")
    given = parser.parse_args()
    for name in given.names:
        translator = zoo.load(name)
        about = translator.checkpoint.about
        pairs = list(find_dataset(default_registry(), about.data).load("validation"))
        chosen = pairs[:: max(len(pairs) // given.most, 1)][: given.most]
        references = [pair.target for pair in chosen]
        print(f"{name}, {len(chosen)} validation sentences: as they are, as they are read")
        for label, change in TYPED.items():
            sources = [change(pair.source) for pair in chosen]
            wanted = references
            if label == QUOTES:
                quote = QUOTED.get(about.target_languages[0], '"{}"')
                wanted = [quote.format(text) for text in references]
            scores = [
                bleu(translator.translate(sources, split=split), wanted) for split in (False, True)
            ]
            print(f"  {label:30} {scores[0]:5.1f} {scores[1]:5.1f}")
        source, target = about.source_languages[0], about.target_languages[0]
        if {source, target} == {"en", "fr"}:
            right = [right_times(translator, source, target, split=s) for s in (False, True)]
            count = len(SENTENCES[source]) * 24 * len(MINUTES)
            print(f"  times of day, of {count:<14} {right[0]:5} {right[1]:5}")
            counts = [right_amounts(translator, source, split=split) for split in (False, True)]
            for label, *right in zip(("ranges", "fractions"), *counts, strict=True):
                print(f"  {label + ', of 100':<31}{right[0]:5} {right[1]:5}")


if __name__ == "__main__":
    main()
