"""Scores of translations against references: sacreBLEU's, and two of ours made like them."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as BaseScore
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from zoo import __version__
from zoo.data.tokenizer import Tokenizer
from zoo.errors import DataError
from zoo.nn.contract import UNKNOWN
from zoo.registry.declarations import Metric as Declared
from zoo.registry.imports import import_object

RESAMPLES = 1000
"""Bootstrap samples behind a confidence interval or a test, sacreBLEU's own number."""


@dataclass(frozen=True)
class Score:
    """One metric's value, and its signature: what it takes to compute the same again.

    With bootstrap, `mean` is over the samples, and 95% of them lie within `confidence` of it.
    """

    value: float
    signature: str
    mean: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Scores:
    """A system's scores by metric, all on a scale to 100, and how many sentences they are of."""

    by_name: Mapping[str, Score]
    sentences: int

    @property
    def bleu(self) -> float:
        """The BLEU."""
        return self.by_name["bleu"].value

    def as_json(self) -> dict[str, Any]:
        """Return the scores as plain values, as a card takes them in: name, name_signature."""
        values: dict[str, Any] = {}
        for name, score in self.by_name.items():
            values |= {name: score.value, f"{name}_signature": score.signature}
            if score.confidence is not None:
                values |= {f"{name}_mean": score.mean, f"{name}_confidence": score.confidence}
        return {**values, "sentences": self.sentences}


@dataclass(frozen=True)
class Comparison:
    """Another system's score, and how likely so large a difference to it is by chance alone."""

    other: Score
    p_value: float


def measures(
    *,
    lowercase: bool = False,
    orders: Sequence[int] = (),
    tokenizer: Tokenizer | None = None,
    more: Iterable[Declared] = (),
) -> dict[str, Metric]:
    """Return every metric by name.

    Args:
        lowercase: letter case does not count. For TER it never does, which is its convention.
        orders: maximum orders of further BLEUs, besides that of order 4.
        tokenizer: what to count token errors by; without one they are left out.
        more: metrics that plugins bring; a name of ours stays ours.

    Raises:
        PluginError: one of those cannot be imported.
    """
    # Forced: sacreBLEU's advice on tokenised text names options of its own.
    found: dict[str, Metric] = {"bleu": BLEU(lowercase=lowercase, force=True)}
    for order in sorted(set(orders)):
        found[f"bleu_{order}"] = _ShortBLEU(lowercase=lowercase, force=True, max_ngram_order=order)
    found |= {
        "chrf": _PlainCHRF(lowercase=lowercase),
        "ter": TER(),
        "exact_match": ExactMatch(lowercase),
    }
    if tokenizer is not None:
        found["token_error_rate"] = TokenErrorRate(tokenizer, lowercase)
    return {**{declared.name: _make(declared) for declared in more}, **found}


def _make(declared: Declared) -> Metric:
    """Import a metric's class and make one."""
    return cast("Metric", import_object(declared.metric, f"metric {declared.name!r}")())


def score(
    texts: Sequence[str],
    references: Sequence[str],
    using: Mapping[str, Metric] | None = None,
    *,
    resamples: int = 0,
) -> Scores:
    """Score texts, one reference each, plain and untokenised.

    Args:
        texts, references: of the same number.
        using: metrics by name; by default BLEU, chrF and exact match, which take little time.
        resamples: bootstrap samples for confidence intervals; 0 for none.

    Raises:
        DataError: there is nothing to score.
    """
    _check(texts, references)
    if using is None:
        using = {"bleu": BLEU(force=True), "chrf": _PlainCHRF(), "exact_match": ExactMatch()}
    scores = {}
    for name, metric in using.items():
        found = metric.corpus_score(list(texts), [list(references)], n_bootstrap=resamples)
        interval = (found._mean, found._ci) if resamples > 1 else (None, None)
        scores[name] = Score(found.score, str(metric.get_signature()), *map(_number, interval))
    return Scores(scores, len(texts))


def compare(
    texts: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    using: Mapping[str, Metric],
    *,
    resamples: int = RESAMPLES,
) -> dict[str, Comparison]:
    """Test by paired bootstrap whether texts differ from another system's in each metric.

    Koehn 2004, as sacreBLEU does it: both systems are scored on the same samples of sentences.

    Raises:
        DataError: there is nothing to score.
    """
    _check(texts, references)
    _check(others, references)
    found = {}
    systems: list[tuple[str, Sequence[str]]] = [("other", list(others)), ("this", list(texts))]
    for name, metric in using.items():
        # A test for each metric: sacreBLEU tells metrics apart by a name that all BLEUs share.
        test = PairedTest(systems, {name: metric}, [list(references)], "bs", n_samples=resamples)
        signatures, results = test()
        ((key, signature),) = signatures.items()
        other, this = cast("list[Result]", results[key])
        # Equal systems get sacreBLEU's least p-value: no sample differs by more than nothing.
        p_value = 1.0 if this.score == other.score else _number(this.p_value) or 0.0
        interval = map(_number, (other.mean, other.ci))
        known = Score(float(other.score), str(signature), *interval)
        found[name] = Comparison(known, p_value)
    return found


def _check(texts: Sequence[str], references: Sequence[str]) -> None:
    if not texts or len(texts) != len(references):
        raise DataError(
            "nothing to score",
            f"there are {len(texts)} texts and {len(references)} references",
            "Name another --split",
        )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


class _ShortBLEU(BLEU):
    """BLEU of another maximum order, which its signature tells, as sacreBLEU's own does not."""

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.update("order", self.max_ngram_order)
        return signature


class _PlainCHRF(CHRF):
    """chrF whose scores are Python's numbers: of some samples they are NumPy's, which no mean of
    sacreBLEU's takes beside Python's.
    """

    def _compute_score_from_stats(self, statistics: list[int]) -> CHRFScore:
        found = super()._compute_score_from_stats(statistics)
        found.score = float(found.score)
        return found


class _Ours(Metric):
    """A percentage of counts summed over the texts; sacreBLEU's base class bootstraps it."""

    name = ""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU's has no types
        self.lowercase = lowercase

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.update("case", "lc" if self.lowercase else "mixed")
        signature.update("version", None)  # sacreBLEU's
        signature.update("zoo", __version__)
        return signature

    def _preprocess_segment(self, sent: str) -> str:
        # Texts are written in Unicode's form NFC; a reference in another form is the same text.
        text = unicodedata.normalize("NFC", sent)
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"reference": refs[0]}

    def _compute_score_from_stats(self, stats: Sequence[float]) -> BaseScore:
        part, whole = stats
        # Of nothing, as for TER: nothing is as it should be, and anything is all wrong.
        return BaseScore(self.name, 100 * float(part / whole if whole else bool(part)))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> BaseScore:
        return self._compute_score_from_stats([float(sum(column)) for column in _columns(stats)])


def _columns(stats: Sequence[Sequence[float]]) -> Iterator[Sequence[float]]:
    return zip(*stats, strict=True)


class ExactMatch(_Ours):
    """The percentage of texts that are equal to their reference."""

    name = "exact match"

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: Mapping[str, str]
    ) -> list[int]:
        return [int(hypothesis == ref_kwargs["reference"]), 1]


class TokenErrorRate(_Ours):
    """Levenshtein distances in tokens, over the references' tokens, as a percentage.

    Texts and references are cut by the same tokenizer. An unknown token is always an error, for
    nothing tells whether two of them stand for the same word.
    """

    name = "token error rate"

    def __init__(self, tokenizer: Tokenizer, lowercase: bool = False) -> None:
        super().__init__(lowercase)
        self.tokenizer = tokenizer

    def get_signature(self) -> Signature:
        """Return what it takes to compute the same again, the vocabulary's size with it."""
        signature = super().get_signature()
        signature.update("tok", f"own-{self.tokenizer.size}")
        return signature

    def _preprocess_segment(self, sent: str) -> str:
        return sent  # letters are lowered in tokens: the vocabulary is of letters as they are

    def _tokens(self, text: str) -> list[str | None]:
        ids = self.tokenizer.encode([text])[0]
        tokens = [None if i == UNKNOWN else self.tokenizer.token(i) for i in ids]
        return [token.lower() if token and self.lowercase else token for token in tokens]

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: Mapping[str, str]
    ) -> list[int]:
        reference = self._tokens(ref_kwargs["reference"])
        written = [object() if token is None else token for token in self._tokens(hypothesis)]
        return [levenshtein(written, reference), len(reference)]


def levenshtein(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that make one the other.

    A column of the usual table at a time, its differences as the bits of two integers: Myers 1999,
    "A fast bit-vector algorithm for approximate string matching", in Hyyrö's form of 2003.
    """
    if not one:
        return len(other)
    places: dict[Hashable, int] = {}
    for place, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << place
    every, last = (1 << len(one)) - 1, 1 << len(one) - 1
    up, down, distance = every, 0, len(one)  # where a column grows by one downwards, or shrinks
    for item in other:
        same = places.get(item, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | every & ~(diagonal | up), up & diagonal
        distance += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = right_up << 1 | 1, right_down << 1
        up, down = every & (right_down | ~(diagonal | right_up)), right_up & diagonal & every
    return distance
