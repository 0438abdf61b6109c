"""Translations: from hypotheses, and from the translations of a text's parts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo.checkpoint.source_words import unseen_words
from zoo.data.features import FeatureReader
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.options import Hypothesis
from zoo.nn.contract import END, UNKNOWN
from zoo.translation.lost_numbers import DIGIT, lost_numbers, may_be_in_words
from zoo.translation.scripts import CLAUSE, clause_mark, large, small, without_stop
from zoo.translation.spelling import OPEN, OPEN_MARKS


class Translation(NamedTuple):
    """A source text, its translation, and how it was found.

    hypotheses: one for each part in which the text was read, in order; none for an empty text.
    tokens: of the target, with ▁ for a space. alignment: (source word, target word) pairs of
    indices, words being separated by white space; each target token is aligned to the source token
    with the highest attention weight; None if it was not requested. alternatives: the next best
    translations, in order. unknown: whether no token of the source is in the vocabulary.
    source_ids: the token ids of each part as they were read; none for feature vectors. divided:
    whether a sentence was translated in parts, because it is longer than those of training.
    respelled: whether a part was read in another spelling than it is written in, that of training.
    lost_numbers: those of the source that the translation lacks, as they are written there; only
    between languages, and without those that it may have in words. copied: numbers, amounts
    of money, dates, times, addresses and names of the source that the model would have lost: it
    read stand-ins, of which tokens, scores and `source_ids` are. unseen_words: those of the source
    that no training source had, and that the translation does not repeat: it is a guess there.
    has_unknown_tokens: whether something that was read is not in the vocabulary, and is lost; what
    stays as it is was not read.
    """

    source: str
    text: str
    hypotheses: tuple[Hypothesis, ...] = ()
    tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] | None = None
    alternatives: tuple[Translation, ...] = ()
    unknown: bool = False
    source_ids: tuple[tuple[int, ...], ...] = ()
    divided: bool = False
    respelled: bool = False
    lost_numbers: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    unseen_words: tuple[str, ...] = ()
    has_unknown_tokens: bool = False

    @property
    def score(self) -> float:
        """The natural logarithm of the translation's probability; 0 for an empty text."""
        return sum(hypothesis.score for hypothesis in self.hypotheses)

    @property
    def finished(self) -> bool:
        """Whether it ends with the end token, and was not cut at the maximum length."""
        return all(hypothesis.finished for hypothesis in self.hypotheses)

    def _repr_html_(self) -> str:
        """Return the source, the translation, its score and what it guessed as HTML."""
        rows = [("source", self.source), ("translation", self.text)]
        rows += [(f"alternative {i}", one.text) for i, one in enumerate(self.alternatives, 1)]
        rows.append(("log probability", f"{self.score:.4f}"))
        if self.unseen_words:
            rows.append(("words not learned", ", ".join(self.unseen_words)))
        cells = (
            f"<tr><th>{name}</th><td style='text-align: left; white-space: pre-wrap'>"
            f"{html.escape(text)}</td></tr>"
            for name, text in rows
        )
        return f"<table>{''.join(cells)}</table>"


class Prefix(NamedTuple):
    """A text that was read before the source, and the number of its tokens."""

    text: str = ""
    tokens: int = 0

    @property
    def words(self) -> int:
        """The number of its words, but for one that the source's first word ends."""
        return _words_before(self.text)


def from_hypothesis(
    text: str,
    source: Sequence[int],
    hypothesis: Hypothesis,
    tokenizers: tuple[Tokenizer, Tokenizer],
    aligned: Sequence[int] | None,
    prefix: Prefix,
) -> Translation:
    """Return the translation of a text, or of a part of one, that a hypothesis stands for.

    Args:
        text: the source text.
        source: its token ids, without the end token.
        hypothesis: what the search returned.
        tokenizers: of the source and of the target.
        aligned: for each target token the index of the source token with the highest attention
            weight; None without alignment.
        prefix: what was read before the text.
    """
    source_tokenizer, target_tokenizer = tokenizers
    has_tokens = not isinstance(source_tokenizer, FeatureReader)
    alignment = None
    if aligned is not None:
        labels = _labels(source_tokenizer, source), _labels(target_tokenizer, hypothesis.tokens)
        pairs = _align_words(*labels, aligned)
        alignment = tuple((s - prefix.words, t) for s, t in pairs if s >= prefix.words)
    return Translation(
        text,
        target_tokenizer.decode(hypothesis.tokens),
        (hypothesis,),
        tuple(map(target_tokenizer.token, hypothesis.tokens)),
        alignment,
        unknown=has_tokens and _is_unknown(source_tokenizer, source, prefix.tokens),
        source_ids=(tuple(source),) if has_tokens else (),
        has_unknown_tokens=has_tokens and UNKNOWN in source,
    )


PRONOUN = re.compile(r"I\b")
FIRST_WORD = re.compile(r"(?!I\b)\w+")
"""A word, but for the English one that has a capital everywhere."""


def within_sentence(
    one: Translation,
    begins: bool,
    ends: bool,
    tokenizer: Tokenizer,
    prefix: str = "",
    language: str = "",
) -> Translation:
    """Return the translation of a part of a sentence without a stop and a capital of its own.

    A network that was trained on sentences writes both around any text. The text changes, not the
    tokens.

    Args:
        one: the translation of the part.
        begins: whether the part is the beginning of the sentence.
        ends: whether it is the end of it.
        tokenizer: of the target. Names, and German nouns, are those words whose text without a
            capital has more tokens.
        prefix: what the text begins with in any case.
        language: the code of the target language.
    """
    if begins and ends:
        return one
    source, text = one.source, one.text
    without = without_stop(text)
    if len(prefix) <= len(without) < len(text) and not ends and without_stop(source) == source:
        text = without
        clause = CLAUSE.search(source)
        if clause and not CLAUSE.search(text):
            text += clause_mark(clause.group(), language)
    word = FIRST_WORD.match(text)
    if word and not begins and (source[:1].islower() or PRONOUN.match(source)):
        lower = small(text[0], language) + word.group()[1:]
        before, after = tokenizer.encode([word.group(), lower])
        text = lower + text[word.end() :] if len(after) <= len(before) else text
    words = _words(text)
    pairs = one.alignment and tuple((s, t) for s, t in one.alignment if t < words)
    return one._replace(text=text, alignment=pairs, divided=True)


def left_open(one: Translation, language: str, prefix: str) -> Translation:
    """Return the translation of a text that ends with a comma, which was read without it.

    A network that was trained on whole sentences writes a stop instead, or some words.

    Args:
        one: the translation, with the source as it is typed.
        language: the code of the target language.
        prefix: what the text begins with in any case.
    """
    if not one.source.endswith(OPEN_MARKS):
        return one
    mark, text = OPEN.search(one.source), without_stop(one.text)
    if mark is None or len(text) <= len(prefix):
        return one
    space = " " if language == "fr" and mark[1] != "," else ""
    words = _words(text)
    pairs = one.alignment and tuple((s, t) for s, t in one.alignment if t < words)
    return one._replace(text=f"{CLAUSE.sub('', text).rstrip()}{space}{mark[1]}", alignment=pairs)


def with_lost_numbers(one: Translation, target: str) -> Translation:
    """Return a translation to a language with the numbers that each of the best lacks."""
    if not DIGIT.search(one.source):
        return one
    lost = lost_numbers(one.source, one.text, may_be_in_words(one.source, one.text, target))
    return one._replace(
        lost_numbers=tuple(n for n in lost if not any(n in each for each in one.copied)),
        alternatives=tuple(with_lost_numbers(each, target) for each in one.alternatives),
    )


def with_unseen_words(one: Translation, read: Iterable[str], known: frozenset[str]) -> Translation:
    """Return a translation with the words of its parts, as they were read, that are not known.

    Each of its alternatives has its own.
    """
    if not known:
        return one
    text = " ".join(read)
    return one._replace(
        unseen_words=unseen_words(text, one.text, known, one.copied),
        alternatives=tuple(with_unseen_words(other, [text], known) for other in one.alternatives),
    )


def as_typed(
    one: Translation, respelled: bool, capitals: bool, prefix: str, language: str = ""
) -> Translation:
    """Return the translation of a part that was read in another spelling, perhaps in capitals.

    The prefix is what the text begins with in any case.
    """
    if not respelled:
        return one
    start = len(prefix)
    text = one.text[:start] + large(one.text[start:], language) if capitals else one.text
    return one._replace(text=text, respelled=True)


def _labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the label of each position; an empty one for tags and end tokens, of no word."""
    labels = tokenizer.labels(ids)
    if isinstance(tokenizer, FeatureReader):
        return labels
    none = {END, *tokenizer.control}
    return ["" if i in none else label for i, label in zip(ids, labels, strict=True)]


def _is_unknown(tokenizer: Tokenizer, source: Sequence[int], prefix: int) -> bool:
    """Return whether a vocabulary has no token of a source, after so many of a prefix."""
    control = tokenizer.control
    own = [i for i in source if i != END and i not in control][prefix:]
    return bool(own or not prefix) and all(i == UNKNOWN or tokenizer.token(i) == "▁" for i in own)


def _align_words(
    source: Sequence[str], target: Sequence[str], aligned: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return the sorted pairs of words that an alignment of tokens connects."""
    source_words, target_words = word_indices(source), word_indices(target)
    pairs = {
        (source_words[i], target_words[j])
        for j, i in enumerate(aligned)
        if i < len(source)  # the end token is in no word
    }
    return tuple(sorted((s, t) for s, t in pairs if s is not None and t is not None))


def word_indices(tokens: Sequence[str]) -> list[int | None]:
    """Return the index of the word that each token belongs to; None for white space alone."""
    indices: list[int | None] = []
    word, new_word = -1, True
    for token in tokens:
        index = None
        for character in token:
            if character == "▁" or character.isspace():
                new_word = True
            else:
                word, new_word = word + new_word, False
                index = word
        indices.append(index)
    return indices


def join_parts(
    text: str,
    parts: Sequence[Sequence[Translation]],
    spaces: Sequence[str],
    separators: Sequence[str],
    tag: str = "",
) -> Translation:
    """Join the translations of a text's parts, which are best first for each part.

    Alternative i joins alternative i of every part, as far as every part has one.

    Args:
        text: the text.
        parts: the translations of each part.
        spaces: the white space before each part of the text.
        separators: what stands before each part's translation.
        tag: what the text begins with, before its first part.
    """
    joints = list(zip(spaces, separators, strict=True))
    before = _words_before(tag + spaces[0][:1])
    ranked = [_join(text, of_rank, joints, before) for of_rank in zip(*parts, strict=False)]
    return ranked[0]._replace(alternatives=tuple(ranked[1:])) if ranked[1:] else ranked[0]


def _join(
    text: str,
    parts: Sequence[Translation],
    joints: Sequence[tuple[str, str]],
    source_words: int,
) -> Translation:
    """Return the joined translation; `source_words` are those before the first part."""
    if len(parts) == 1 and not source_words and not joints[0][0].strip():
        return parts[0] if parts[0].source == text else parts[0]._replace(source=text)
    pairs: list[tuple[int, int]] = []
    target_words = 0
    joined = ""
    for number, (part, (space, separator)) in enumerate(zip(parts, joints, strict=True)):
        # Without white space, a part's first word is the end of the word before it.
        source_words -= bool(number and source_words and not space)
        marks = len(space.split())
        # A line break or a mark stays beside an empty translation too, but for those before all.
        if separator.strip(" ") or (joined and part.text):
            target_words -= bool(joined and not separator)
            joined += separator if number else separator.lstrip()
        source_words, target_words = source_words + marks, target_words + marks
        joined += part.text
        pairs += [(s + source_words, t + target_words) for s, t in part.alignment or ()]
        source_words += _words(part.source)
        target_words += _words(part.text)
    return Translation(
        text,
        joined,
        tuple(hypothesis for part in parts for hypothesis in part.hypotheses),
        tuple(token for part in parts for token in part.tokens),
        None if parts[0].alignment is None else tuple(dict.fromkeys(pairs)),
        unknown=all(part.unknown for part in parts),
        source_ids=tuple(ids for part in parts for ids in part.source_ids),
        divided=any(part.divided for part in parts),
        respelled=any(part.respelled for part in parts),
        copied=tuple(text for part in parts for text in part.copied),
        has_unknown_tokens=any(part.has_unknown_tokens for part in parts),
    )


def words_of(text: str) -> list[str]:
    """Return the words of a text, as `word_indices` counts them."""
    return text.replace("▁", " ").split()


def _words(text: str) -> int:
    return len(words_of(text))


def _words_before(text: str) -> int:
    """Return the number of words of what precedes a text, but for one that the text continues."""
    return _words(text) - bool(text and not text[-1].isspace())
