"""Translations: from hypotheses, and from the translations of a text's parts."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from zoo.data.features import FeatureReader
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.options import Hypothesis
from zoo.nn.contract import END, UNKNOWN


class Translation(NamedTuple):
    """A source text, its translation, and how it was found.

    hypotheses: one for each part in which the text was read, in order; none for an empty text.
    tokens: of the target, with ▁ for a space. alignment: (source word, target word) pairs of
    indices, words being separated by white space; each target token is aligned to the source token
    with the highest attention weight; None if it was not requested. alternatives: the next best
    translations, in order. unknown: whether no token of the source is in the vocabulary.
    """

    source: str
    text: str
    hypotheses: tuple[Hypothesis, ...] = ()
    tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] | None = None
    alternatives: tuple[Translation, ...] = ()
    unknown: bool = False

    @property
    def score(self) -> float:
        """The natural logarithm of the translation's probability; 0 for an empty text."""
        return sum(hypothesis.score for hypothesis in self.hypotheses)

    @property
    def finished(self) -> bool:
        """Whether it ends with the end token, and was not cut at the maximum length."""
        return all(hypothesis.finished for hypothesis in self.hypotheses)

    def _repr_html_(self) -> str:
        """Return the source, the translation and its score as HTML, for notebooks."""
        rows = [("source", self.source), ("translation", self.text)]
        rows += [(f"alternative {i}", one.text) for i, one in enumerate(self.alternatives, 1)]
        rows.append(("log probability", f"{self.score:.4f}"))
        cells = (
            f"<tr><th>{name}</th><td style='text-align: left; white-space: pre-wrap'>"
            f"{html.escape(text)}</td></tr>"
            for name, text in rows
        )
        return f"<table>{''.join(cells)}</table>"


def in_parts(translations: Sequence[Translation]) -> list[str]:
    """Return a warning if sources that were to be read whole are too long for that, or nothing."""
    if not (number := sum(len(one.hypotheses) > 1 for one in translations)):
        return []
    are = "source is" if number == 1 else "sources are"
    return [f"{number:,} {are} longer than the model reads, and translated in parts"]


def from_hypothesis(
    text: str,
    source: Sequence[int],
    hypothesis: Hypothesis,
    tokenizers: tuple[Tokenizer, Tokenizer],
    aligned: Sequence[int] | None,
) -> Translation:
    """Return the translation of a text, or of a part of one, that a hypothesis stands for.

    Args:
        text: the source text.
        source: its token ids, without the end token.
        hypothesis: what the search returned.
        tokenizers: of the source and of the target.
        aligned: for each target token the index of the source token with the highest attention
            weight; None without alignment.
    """
    source_tokenizer, target_tokenizer = tokenizers
    tokens = tuple(target_tokenizer.token(i) for i in hypothesis.tokens)
    return Translation(
        text,
        target_tokenizer.decode(hypothesis.tokens),
        (hypothesis,),
        tokens,
        None if aligned is None else _align_words(source_tokenizer.labels(source), tokens, aligned),
        unknown=not isinstance(source_tokenizer, FeatureReader)
        and all(i == UNKNOWN or source_tokenizer.token(i) == "▁" for i in source),
    )


def _align_words(
    source: Sequence[str], target: Sequence[str], aligned: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return the sorted pairs of words that an alignment of tokens connects."""
    source_words, target_words = word_indices(source), word_indices(target)
    pairs = {
        (source_words[i], target_words[j])
        for j, i in enumerate(aligned)
        if i < len(source) and source[i] != SPECIALS[END]  # end tokens are in no word
    }
    return tuple(sorted((s, t) for s, t in pairs if s is not None and t is not None))


def word_indices(tokens: Sequence[str]) -> list[int | None]:
    """Return the index of the word that each token belongs to; None for white space alone."""
    indices: list[int | None] = []
    word, new_word = -1, True
    for token in tokens:
        index = None
        for character in token:
            if character == "▁":
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
) -> Translation:
    """Join the translations of a text's parts, which are best first for each part.

    Alternative i joins alternative i of every part, as far as every part has one.

    Args:
        text: the text.
        parts: the translations of each part.
        spaces: the white space before each part of the text.
        separators: what stands before each part's translation.
    """
    joints = list(zip(spaces, separators, strict=True))
    ranked = [_join(text, of_rank, joints) for of_rank in zip(*parts, strict=False)]
    return ranked[0]._replace(alternatives=tuple(ranked[1:]))


def _join(
    text: str, parts: Sequence[Translation], joints: Sequence[tuple[str, str]]
) -> Translation:
    if len(parts) == 1:
        return parts[0]._replace(source=text)
    pairs: list[tuple[int, int]] = []
    source_words = target_words = 0
    joined = ""
    for part, (space, separator) in zip(parts, joints, strict=True):
        # Without white space, a part's first word is the end of the word before it.
        source_words -= bool(source_words and not space)
        if joined and part.text:
            target_words -= not separator
            joined += separator
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
    )


def _words(text: str) -> int:
    """Return the number of words of a text, as `word_indices` counts them."""
    return sum(1 for word in text.split(" ") if word)
