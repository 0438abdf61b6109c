"""Scores of translations against references, through sacreBLEU."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from zoo.errors import DataError


@dataclass(frozen=True)
class Scores:
    """All on a scale to 100; `exact_match` is the percentage of texts equal to their reference."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact_match: float
    sentences: int

    def as_json(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        return asdict(self)


def score(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Score texts, one reference each, plain and untokenised.

    Raises:
        DataError: there is nothing to score.
    """
    if not texts or len(texts) != len(references):
        raise DataError(
            "nothing to score",
            f"there are {len(texts)} texts and {len(references)} references",
            "Name another --split",
        )
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(texts), [list(references)])
    chrf_score = chrf.corpus_score(list(texts), [list(references)])
    # Texts are written in Unicode's form NFC; a reference in another form is the same text.
    plain = [unicodedata.normalize("NFC", reference) for reference in references]
    same = sum(text == reference for text, reference in zip(texts, plain, strict=True))
    return Scores(
        bleu=bleu_score.score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf_score.score,
        chrf_signature=str(chrf.get_signature()),
        exact_match=100 * same / len(texts),
        sentences=len(texts),
    )
