"""What a translation is, and how those of a text's parts make one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zoo.data.tokenizer import Tokenizer
from zoo.decoding.options import Hypothesis
from zoo.nn.contract import UNKNOWN


class Translation(NamedTuple):
    """A source text, its translation, and what is known of it.

    hypotheses: of each part that the text was read in, in order; none of an empty text. tokens: of
    the target, ▁ standing for a space. alignment: pairs of places, of a word in the source and the
    word in the text that looked at it, words being what white space separates; None where it was
    not asked for. alternatives: the next best, in order. unknown: whether none of the source's
    tokens is in the vocabulary.
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
        """The natural log of the translation's probability; 0 for an empty text."""
        return sum(hypothesis.score for hypothesis in self.hypotheses)

    @property
    def finished(self) -> bool:
        """Whether it came to its end, and was not cut at the longest length."""
        return all(hypothesis.finished for hypothesis in self.hypotheses)


def told(
    text: str,
    source: Sequence[int],
    hypothesis: Hypothesis,
    tokenizers: tuple[Tokenizer, Tokenizer],
    looked: Sequence[int] | None,
) -> Translation:
    """Return the translation that a hypothesis is.

    Args:
        text, source: what was read, and its tokens without the end token.
        hypothesis: what was found.
        tokenizers: of the source and of the target.
        looked: for each target token the source token that it looks at most, if alignment is asked.
    """
    ours, theirs = tokenizers
    tokens = tuple(theirs.token(i) for i in hypothesis.tokens)
    pairs = None
    if looked is not None:
        of_source, of_target = words([ours.token(i) for i in source]), words(tokens)
        # The end token, which is looked at where nothing else is meant, is in no word.
        found = {
            (of_source[there], of_target[here])
            for here, there in enumerate(looked)
            if there < len(source)
        }
        pairs = tuple(sorted((s, t) for s, t in found if s is not None and t is not None))
    return Translation(
        text,
        theirs.decode(hypothesis.tokens),
        (hypothesis,),
        tokens,
        pairs,
        unknown=all(i == UNKNOWN or ours.token(i) == "▁" for i in source),
    )


def words(pieces: Sequence[str]) -> list[int | None]:
    """Return which word each piece of a text is of, counted from 0; None for a space alone."""
    of, word, apart = [], -1, True
    for piece in pieces:
        own = None
        for sign in piece:
            if sign == "▁":
                apart = True
            else:
                word, apart = word + apart, False
                own = word
        of.append(own)
    return of


def joined(text: str, parts: Sequence[Sequence[Translation]]) -> Translation:
    """Return the translation of a text from those of its parts, each part's the best first.

    The next best are made of the next best of every part, as many as each part has.
    """
    ranks = [_together(text, rank) for rank in zip(*parts, strict=False)]
    return ranks[0]._replace(alternatives=tuple(ranks[1:]))


def _together(text: str, parts: Sequence[Translation]) -> Translation:
    if len(parts) == 1:
        return parts[0]._replace(source=text)
    pairs: list[tuple[int, int]] = []
    read = written = 0
    for part in parts:
        pairs += [(s + read, t + written) for s, t in part.alignment or ()]
        read, written = read + len(part.source.split(" ")), written + len(part.text.split())
    return Translation(
        text,
        " ".join(part.text for part in parts),
        tuple(h for part in parts for h in part.hypotheses),
        tuple(token for part in parts for token in part.tokens),
        None if parts[0].alignment is None else tuple(pairs),
        unknown=all(part.unknown for part in parts),
    )
