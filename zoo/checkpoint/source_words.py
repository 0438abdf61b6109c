"""The words of a checkpoint's training sources: how it translates any other word is a guess.

They are in the file `source-words.txt`, one in a line, in small letters.
Nothing here imports torch.
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from zoo.checkpoint.format import WORDS
from zoo.data.statistics import letter, mostly_unspaced
from zoo.errors import CheckpointError
from zoo.files import read_text

MOST = 200_000
"""The most words of a list: of more, the most frequent ones."""

LONGEST = 100
"""The most characters of a word of a list."""

SIZE_LIMIT = 4 * MOST * LONGEST
"""The most bytes of the file."""

MOSTLY_NEW = 0.8
"""The part of the training sources with a word of their own from which on there is no list.

It is about the part of other texts with a new word (Good 1953): of text without spaces, of single
words and of codes nearly all.
"""

MARKS = str.maketrans(dict.fromkeys(string.punctuation, " "))
NO_LETTER = re.compile(r"[\d_]")
ADDRESS = re.compile(r"@|//|\.\b")
"""What an address of mail or the web has, and words do not."""

AROUND = re.compile(r"[\s<>\[\]]+")
"""What separates an address from other text, as in `<a href="https://a.example">word</a>`."""


@functools.cache
def _several_letters() -> re.Pattern[str]:
    return re.compile(f"{letter()}{{2,}}")


def words_in(text: str) -> list[str]:
    """Return the words of a text, of two letters at least and without digits, none of addresses.

    What has a hyphen or an apostrophe is several words.
    """
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    if ADDRESS.search(text):
        text = " ".join(part for part in AROUND.split(text) if not ADDRESS.search(part))
    words = _several_letters().findall(text)
    return [word for word in words if word.isalpha() or not NO_LETTER.search(word)]


def folded(text: str) -> str:
    """Return a text in small letters; the Turkish İ is an i, not one with another dot."""
    small = text.casefold()
    return small if small.isascii() else small.replace("i\u0307", "i")


def list_words(texts: Iterable[str], known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the words of training sources in small letters; none where they say nothing.

    So it is where most have a word of their own, and in scripts without spaces.

    Args:
        texts: the sources.
        known: the words of an earlier training, which are no source's own.
    """
    counts: Counter[str] = Counter()
    distinct = set(texts)
    for text in distinct:
        counts.update(set(map(folded, words_in(text))))
    own = {word for word, count in counts.items() if count == 1} - known
    new = sum(any(folded(word) in own for word in words_in(text)) for text in distinct)
    if new > MOSTLY_NEW * len(distinct) or mostly_unspaced([*distinct]):
        return frozenset()
    words = [word for word in counts if len(word) <= LONGEST]
    return frozenset(sorted(words, key=lambda word: (-counts[word], word))[:MOST])


def words_of_both(old: frozenset[str], new: frozenset[str]) -> frozenset[str]:
    """Return the words of two trainings, without the longest of too many; none if one has none."""
    if not (old and new):
        return frozenset()
    return frozenset(sorted(old | new, key=lambda word: (len(word), word))[:MOST])


def unseen_words(
    source: str, text: str, known: frozenset[str], copied: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the words of a source that are not known, and that its translation does not repeat.

    Args:
        source: the text.
        text: its translation.
        known: the words of training, in small letters.
        copied: parts of the source whose words do not count.
    """
    # Nearly all texts have known words and marks alone, which this shows in half the time.
    rest = set(folded(source).translate(MARKS).split()) - known
    if not any(len(word) > 1 for word in rest):
        return ()
    new = [word for word in words_in(source) if folded(word) not in known]
    said = {folded(word) for each in (text, *copied) for word in words_in(each)}
    return tuple(dict.fromkeys(word for word in new if folded(word) not in said))


def as_text(words: Collection[str]) -> str:
    """Return the content of the file."""
    return "".join(f"{word}\n" for word in sorted(words))


def read_words(folder: Path) -> frozenset[str]:
    """Return the words of a checkpoint's training sources; none if it has no list.

    Raises:
        CheckpointError: the file cannot be read, or is no list of words.
    """
    file = folder / WORDS
    if not file.is_file():
        return frozenset()
    text = read_text(file, SIZE_LIMIT).replace("\r\n", "\n")  # as Git may write it on Windows
    *words, rest = text.split("\n") if text.count("\n") <= MOST else [text]
    lines = not rest and all(0 < len(word) <= LONGEST for word in words)
    # Capitals would never be equal to a word of a text. Order and repetitions change nothing.
    if not lines or text.casefold() != text or any(map(_is_no_letter, {*text} - {"\n"})):
        raise CheckpointError(
            f"{file} is no list of words",
            f"it must have at most {MOST:,} lines of 1 to {LONGEST} lowercase letters, each with "
            "a line break at its end",
            "The file is damaged: pull or train the checkpoint again",
        )
    return frozenset(map(folded, words) if "\u0307" in text else words)


def _is_no_letter(character: str) -> bool:
    """Return whether a character is in no word: a control, a space, a mark or a digit."""
    category = unicodedata.category(character)
    return category[0] in "PSZ" or category in ("Cc", "Nd")
