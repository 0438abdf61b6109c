"""Metrics that are counted segment by segment: exact match, token error rate, and their base.

No torch here, so that a plugin may declare and define a metric in one module.
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo import __version__
from zoo.data.tokenizer_kinds import UNKNOWN_TOKEN
from zoo.evaluation.library import Metric, Score, Signature

if TYPE_CHECKING:
    from zoo.data.tokenizer import Tokenizer


class SegmentMetric(Metric):
    """A percentage: one count over another, both summed over all segments.

    A subclass sets `name` and implements `count`. With `needs_source = True`, `count` gets the
    source texts; otherwise `source` is empty. sacreBLEU's base class adds confidence intervals and
    significance tests by bootstrap.

    A text of several references is compared with each of them, and the best comparison counts: that
    of the largest part of the whole. With `lower_is_better = True` it is that of the smallest part,
    and among those the one of the largest whole.

    Texts, references and sources are normalized to Unicode's form NFC, and lowercased if
    `lowercase`.
    """

    name = ""
    needs_source = False
    lower_is_better = False

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU's has no types
        self.lowercase = lowercase

    @abstractmethod
    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        """Return a segment's part and whole; the score is the sum of parts over that of wholes."""

    def get_signature(self) -> Signature:
        """Return what is needed to compute the same score again."""
        signature = super().get_signature()
        if self.num_refs > 0:  # otherwise the numbers differ
            signature.update("nrefs", self.num_refs - self.needs_source)  # sources come last
        signature.update("case", "lc" if self.lowercase else "mixed")
        signature.update("version", None)  # sacreBLEU's
        signature.update("zoo", __version__)
        return signature

    # What follows implements the interface of sacreBLEU's base class.

    def _preprocess_segment(self, sent: str) -> str:
        # Translations are in Unicode's form NFC; a reference in another form is the same text.
        text = unicodedata.normalize("NFC", sent)
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": [*refs][: -1 if self.needs_source else None],
                "source": refs[-1] if self.needs_source else ""}  # fmt: skip

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: Mapping[str, Any]
    ) -> list[float]:
        source = ref_kwargs["source"]
        counts = [self.count(hypothesis, each, source) for each in ref_kwargs["references"]]
        return list((_smallest if self.lower_is_better else _largest)(counts))

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        part, whole = stats
        # If the whole is zero, as in TER: no part scores 0, and any part 100.
        return Score(self.name, 100 * float(part / whole if whole else bool(part)))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        columns = zip(*stats, strict=True)
        return self._compute_score_from_stats([float(sum(column)) for column in columns])


def _smallest(counts: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the count of the smallest part, and among those of the largest whole."""
    return min(counts, key=lambda count: (count[0], -count[1]))


def _largest(counts: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the count of the largest part of the whole; a whole of zero is the last choice."""
    return max(counts, key=lambda count: count[0] / count[1] if count[1] else -1.0)


class ExactMatch(SegmentMetric):
    """The percentage of texts that are equal to their reference, but for white space around it."""

    name = "exact match"

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        """Return whether the two are equal, out of 1."""
        return text.strip() == reference.strip(), 1


class TokenErrorRate(SegmentMetric):
    """Levenshtein distances in tokens, over the references' tokens, as a percentage.

    Texts and references are tokenized by the same tokenizer, without white space around them. An
    unknown token always counts as an error, because two of them may stand for different words.
    """

    name = "token error rate"
    lower_is_better = True

    def __init__(self, tokenizer: Tokenizer, lowercase: bool = False) -> None:
        super().__init__(lowercase)
        self.tokenizer = tokenizer

    def get_signature(self) -> Signature:
        """Return what is needed to compute the same score again, with the vocabulary's size."""
        signature = super().get_signature()
        signature.update("tok", f"own-{self.tokenizer.size}")
        return signature

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        """Return the distance, and the number of the reference's tokens."""
        expected = self._tokens(reference)
        # A new object differs from every token.
        actual = [object() if token is None else token for token in self._tokens(text)]
        return levenshtein(actual, expected), len(expected)

    def _preprocess_segment(self, sent: str) -> str:
        return sent  # tokens are lowercased instead: the vocabulary is of mixed case

    def _tokens(self, text: str) -> list[str | None]:
        (ids,) = self.tokenizer.encode([text.strip()])
        tokens = [self.tokenizer.token(i) for i in ids]
        return [
            None if token == UNKNOWN_TOKEN else token.lower() if self.lowercase else token
            for token in tokens
        ]


def levenshtein(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that make two sequences equal.

    One column of the dynamic program at a time, its differences as the bits of two integers (Myers
    1999, "A fast bit-vector algorithm for approximate string matching", in Hyyrö's form of 2003).
    """
    if not one:
        return len(other)
    positions: dict[Hashable, int] = {}  # a bit mask of the positions of each item in `one`
    for position, item in enumerate(one):
        positions[item] = positions.get(item, 0) | 1 << position
    every, last = (1 << len(one)) - 1, 1 << len(one) - 1
    up, down, distance = every, 0, len(one)  # where a column grows by one downwards, or shrinks
    for item in other:
        same = positions.get(item, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | every & ~(diagonal | up), up & diagonal
        distance += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = right_up << 1 | 1, right_down << 1
        up, down = every & (right_down | ~(diagonal | right_up)), right_up & diagonal & every
    return distance
