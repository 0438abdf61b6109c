"""Invented words: more sources for the teachers of pronunciation.

Two words of the training data are cut after the same three letters, and the beginning of one is
joined to the end of the other: *prevail* and *reverse* share *rev*, and make *preverse*. Most of
these are no words, but their letters follow each other as in the data. Teachers pronounce them (Sun
et al. 2019 take words from an encyclopedia instead).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

SHARED = 3
"""How many letters two words share where they are cut."""


def invent(
    words: Sequence[str], number: int, known: Collection[str], key: Callable[[str], str]
) -> list[str]:
    """Return different invented words, the same ones at each call.

    Args:
        words: those that are cut and joined. Repeated ones count once.
        number: how many to return; fewer if there are not so many.
        known: keys of words to leave out, such as those of the test data.
        key: of a word.
    """
    draw = random.Random(1)
    words = [word for word in dict.fromkeys(words) if len(word) > SHARED]
    ends: dict[str, list[str]] = {}
    for word in words:
        for position in range(SHARED, len(word) + 1):
            ends.setdefault(word[position - SHARED : position], []).append(word[position:])
    made: dict[str, None] = {}
    for _ in range(100 * number):
        first = draw.choice(words)
        position = draw.randrange(SHARED, len(first) + 1)
        word = first[:position] + draw.choice(ends[first[position - SHARED : position]])
        if key(word) not in known:
            made[word] = None
            if len(made) == number:
                break
    return list(made)
