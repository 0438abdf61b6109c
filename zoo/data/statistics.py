"""Statistics of a parallel corpus: its size, lengths, words and characters."""

from __future__ import annotations

import contextlib
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation

from zoo.registry.declarations import Pair

SAMPLE = 5_000
"""About this many pairs, evenly spaced over the corpus, are counted word by word."""

LONGEST_TEXT = 10_000
"""Characters of a text that are counted; the rest of a longer line is ignored."""

AS_MANY_WORDS = 0.9
"""The share of pairs with as many words on both sides from which on words may correspond.

Of translations, up to 0.4 have.
"""

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese letters."""

DIGIT = re.compile(r"\d")


def mostly_unspaced(texts: Sequence[str]) -> bool:
    """Return whether over a third of the characters are letters of scripts without spaces."""
    return 3 * sum(len(UNSPACED.findall(text)) for text in texts) > sum(map(len, texts))


@dataclass(frozen=True)
class SideStatistics:
    """One side of the sampled pairs.

    `words` counts words and punctuation marks, `distinct_words` and `single_words` those that
    differ and those that occur once; `unseen` is the share of the words in every tenth text that
    occur in no other text. `numbers` is the share of the words with a digit. `unspaced_letters`
    counts letters of scripts without spaces.
    `long_length` is the length in characters that one text in a hundred exceeds.
    """

    words: int
    distinct_words: int
    single_words: int
    unseen: float
    numbers: float
    characters: int
    distinct_characters: int
    spaces: int
    unspaced_letters: int
    mean_length: float
    long_length: int

    @property
    def unspaced(self) -> bool:
        """Whether words are not separated: Chinese, Japanese, Thai, or codes such as DNA."""
        return 3 * self.unspaced_letters > self.characters or self.characters > 25 * self.words > 0

    @property
    def closed(self) -> bool:
        """Whether the sample has (almost) all words of the language: numbers, commands, codes."""
        return self.unseen < 1e-3 and self.words >= 20 * self.distinct_words


@dataclass(frozen=True)
class CorpusStatistics:
    """A corpus: its number of pairs, and both sides of a sample of them.

    `respelled` is the correlation of the lengths of words with those of the words at the same index
    of the other side: near 1 if each word is spelled in another way, and 0 unless nearly all pairs
    have as many words on both sides.
    """

    pairs: int
    sampled: int
    distinct_pairs: int
    respelled: float
    source: SideStatistics
    target: SideStatistics

    @property
    def distinct(self) -> int:
        """The number of different pairs, estimated from the sample."""
        return round(self.pairs * self.distinct_pairs / max(self.sampled, 1))

    @property
    def mean_length(self) -> float:
        """The mean length of the longer side in words, or of text without spaces in characters."""
        return max(
            side.characters / 2 if side.unspaced else side.words
            for side in (self.source, self.target)
        ) / max(self.sampled, 1)


def evenly_spaced(pairs: Iterable[Pair], least: int) -> tuple[int, list[Pair]]:
    """Return the number of pairs, and every k-th: `least` to twice as many, if there are.

    Files are often sorted, so their heads differ from their tails.
    """
    kept: list[Pair] = []
    count, every = 0, 1
    for pair in pairs:
        if count % every == 0:
            kept.append(pair)
            if len(kept) >= 2 * least:
                kept, every = kept[::2], 2 * every
        count += 1
    return count, kept


def corpus_statistics(pairs: Iterable[Pair], sample: int = SAMPLE) -> CorpusStatistics:
    """Count all pairs, and the words and characters of a sample, in bounded memory."""
    shortened = (Pair(pair.source[:LONGEST_TEXT], pair.target[:LONGEST_TEXT]) for pair in pairs)
    count, kept = evenly_spaced(shortened, sample)
    source = _side([pair.source for pair in kept])
    target = _side([pair.target for pair in kept])
    return CorpusStatistics(count, len(kept), len(set(kept)), _respelled(kept), source, target)


def _respelled(pairs: Sequence[Pair]) -> float:
    """Return the correlation of the lengths of words at the same index, or 0."""
    split = [(pair.source.split(), pair.target.split()) for pair in pairs]
    several = [words for words in split if max(map(len, words)) > 1]
    equal = [words for words in several if len(words[0]) == len(words[1])]
    if len(equal) <= AS_MANY_WORDS * len(several):
        return 0.0
    lengths = [(len(one), len(other)) for words in equal for one, other in zip(*words, strict=True)]
    with contextlib.suppress(StatisticsError):  # all have the same length
        return correlation(*zip(*lengths, strict=True))
    return 0.0


def words_of(texts: Iterable[str]) -> Iterator[str]:
    """Yield the words and punctuation marks of texts."""
    for text in texts:
        yield from _word().findall(text)


@functools.cache
def _word() -> re.Pattern[str]:
    """Return what a word or a punctuation mark is."""
    return re.compile(rf"{letter()}+(?:[-'’]{letter()}+)*|[^\w\s]")


@functools.cache
def letter() -> str:
    r"""Return what a letter is: as for tokenizers, a combining mark is one, which `\w` lacks."""
    marks = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c)[0] == "M")
    return rf"[\w{marks}]"


def _side(texts: list[str]) -> SideStatistics:
    words = Counter(words_of(texts))
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    tenth = Counter(words_of(texts[::10]))
    unseen = sum(number for word, number in tenth.items() if words[word] == number)
    lengths = sorted(len(text) for text in texts)
    total = sum(lengths)
    return SideStatistics(
        words=words.total(),
        distinct_words=len(words),
        single_words=sum(1 for number in words.values() if number == 1),
        unseen=unseen / max(tenth.total(), 1),
        numbers=sum(n for word, n in words.items() if DIGIT.search(word)) / max(words.total(), 1),
        characters=total,
        distinct_characters=len(characters),
        spaces=sum(number for character, number in characters.items() if character.isspace()),
        unspaced_letters=sum(characters[letter] for letter in characters if UNSPACED.match(letter)),
        mean_length=total / max(len(texts), 1),
        long_length=lengths[int(0.99 * (len(lengths) - 1))] if lengths else 0,
    )
