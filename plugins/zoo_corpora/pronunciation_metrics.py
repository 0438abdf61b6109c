"""Word and phone error rates of pronunciations, with stress and without.

A word may have several pronunciations. As in the literature (Yao and Zweig 2015; Yolchuyeva et al.
2019), a word is right if its phones are those of any of them, and its phone errors are those of the
pronunciation with the smallest edit distance (of equal distances, the longest).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zoo import SegmentMetric, levenshtein

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Signature


class WordErrorRate(SegmentMetric):
    """The percentage of words whose phones are those of none of their pronunciations."""

    name = "word error rate"
    lower_is_better = True
    stress = True

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        """Return whether the phones differ, out of 1."""
        return self.phones(text) != self.phones(reference), 1

    def phones(self, text: str) -> list[str]:
        """Return the phones of a text, separated by white space."""
        return (text if self.stress else re.sub(r"\d", "", text)).split()

    def get_signature(self) -> Signature:
        """Return what is needed to compute the same score again."""
        signature = super().get_signature()
        signature.update("stress", "yes" if self.stress else "no")
        return signature


class PhoneErrorRate(WordErrorRate):
    """Levenshtein distances in phones, over the phones of the pronunciations, as a percentage."""

    name = "phone error rate"

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        """Return the distance, and the number of the pronunciation's phones."""
        expected = self.phones(reference)
        return levenshtein(self.phones(text), expected), len(expected)


class WordErrorRateWithoutStress(WordErrorRate):
    """The word error rate of phones without the digits of their stress."""

    name = "word error rate without stress"
    stress = False


class PhoneErrorRateWithoutStress(PhoneErrorRate):
    """The phone error rate of phones without the digits of their stress."""

    name = "phone error rate without stress"
    stress = False
