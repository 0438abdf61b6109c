"""Generated datasets: random numbers that are the same on every machine."""

import functools
import importlib.metadata
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from zoo import Pair, cache_folder, read_tsv

SPLIT_SIZES = {"train": 100_000, "validation": 1_000, "test": 1_000}
EVERY = 5
"""Of numbers drawn evenly below a million, one in a thousand is below 1,000, and as few are whole
thousands: too few to learn them. So every fifth training number is made shorter and rounder."""

STYLE = 180
"""So many training numbers in turn are written in the same style: a multiple of what decides how
short and round they are, so that all of them occur in every style."""


def without_commas(words: str) -> str:
    """Return a number in words without commas."""
    return words.replace(",", "")


def without_and(words: str) -> str:
    """Return a number in words as Americans write it."""
    return without_commas(words).replace(" and ", " ")


def without_hyphens(words: str) -> str:
    """Return a number in words without hyphens and commas."""
    return without_commas(words).replace("-", " ")


def with_a(words: str) -> str:
    """Return a number in words that begins with "a hundred" or "a thousand" instead of "one"."""
    return re.sub("^one (?=hundred|thousand)", "a ", without_commas(words))


STYLES: dict[str, Callable[[str], str]] = {
    "as num2words writes them": str,
    "without commas": without_commas,
    "without commas and “and”": without_and,
    "without hyphens": without_hyphens,
    "without hyphens and “and”": lambda words: without_hyphens(without_and(words)),
    "with “a” for “one”": with_a,
}
"""How English numbers for training are written; those for validation and testing have the first."""


def numbers(split: str, limit: int | None) -> Iterable[Pair]:
    """Return numbers below a million in English words, with the same in French words.

    Validation and test numbers are drawn evenly, and written as num2words does; those for training
    are not all distinct, because short and round ones occur more often, and are written in all
    styles of `STYLES`. No number is in two splits. They are generated on first use and then read
    from the cache.
    """
    from zoo.interop import require

    require("num2words", extra="train", purpose="numbers-en-fr")
    version = importlib.metadata.version("num2words")
    file = cache_folder() / "datasets" / f"numbers-en-fr-4-{version}" / f"{split}.tsv"
    if not file.is_file():
        write_pairs(file, _write_numbers(split))
    return islice(read_tsv(file), limit)


def shift(split: str, limit: int | None) -> Iterator[Pair]:
    """Yield ten random numbers from 1 to 10, with the last nine of them as the target."""
    for code in draw(split, 10**10, limit):
        items = [str((code // 10**digit) % 10 + 1) for digit in range(10)]
        yield Pair(" ".join(items), " ".join(items[1:]))


def draw(split: str, below: int, limit: int | None = None) -> Iterator[int]:
    """Yield random numbers from 0 to `below` − 1, which are distinct across all splits.

    A split is a range of indices into one fixed permutation, so it is the same on every machine.
    """
    start = 0
    for name, size in SPLIT_SIZES.items():
        if name == split:
            break
        start += size
    for index in range(start, start + min(size, size if limit is None else limit)):
        yield permute(index, below)


def permute(index: int, below: int) -> int:
    """Return the number at `index` of a fixed permutation of 0 … `below` − 1.

    Each round (multiply by an odd number, add, fold the high half onto the low half) is a bijection
    of the integers of that many bits. Repeating the rounds until the value is below the bound keeps
    it a bijection.
    """
    bits = (below - 1).bit_length()
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    value = index
    while True:
        for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9):
            value = (value * factor + 0x27D4EB2F165667C5) & mask
            value ^= value >> half
        if value < below:
            return value


def write_pairs(file: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs to a file of tab-separated values, whole or not at all."""
    from zoo.interop import whole_file

    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as part, part.open("w", encoding="utf-8") as out:
        out.writelines(f"{pair.source}\t{pair.target}\n" for pair in pairs)


def _numbers(split: str) -> Iterator[int]:
    drawn = draw(split, 1_000_000)
    if split != "train":
        yield from drawn
        return
    held_out = {n for other in ("validation", "test") for n in draw(other, 1_000_000)}
    for index, number in enumerate(drawn):
        rounder = number if index % EVERY else _rounder(number, index // EVERY)
        yield number if rounder in held_out else rounder


def _rounder(number: int, turn: int) -> int:
    """Return the first one to six digits of a number of six, of which up to five become zeros."""
    digits = 1 + turn % 6
    number //= 10 ** (6 - digits)
    return number - number % 10 ** (turn // 6 % digits)


def _write_numbers(split: str) -> Iterator[Pair]:
    styles = tuple(STYLES.values())
    for index, number in enumerate(_numbers(split)):
        style = styles[index // STYLE % len(styles) if split == "train" else 0]
        yield Pair(style(spelled(number, "en")), spelled(number, "fr"))


def spelled(number: int, lang: str) -> str:
    """Return a number below a million in words, composed of those of the thousands and the rest."""
    rest = number % 1000
    if rest in (0, number):
        return _words(number, lang)
    joint = " " if lang == "fr" else ", " if rest > 99 else " and "
    return f"{_words(number - rest, lang)}{joint}{_words(rest, lang)}"


@functools.cache
def _words(number: int, lang: str) -> str:
    """Return what num2words writes; it is called for 1998 numbers in all."""
    from num2words import num2words

    return str(num2words(number, lang=lang))
