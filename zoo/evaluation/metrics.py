"""Scores of translations against references, computed by sacreBLEU."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast

from zoo.data.tokenizer import Tokenizer
from zoo.errors import FAILURES, DataError, PluginError, UnknownNameError, ZooError
from zoo.evaluation.labels import reserved
from zoo.evaluation.library import (
    BLEU,
    CHRF,
    TER,
    CHRFScore,
    Metric,
    PairedTest,
    Result,
    Signature,
    TERScore,
)
from zoo.evaluation.segment_metrics import ExactMatch, SegmentMetric, TokenErrorRate
from zoo.registry.declarations import Metric as Declared
from zoo.registry.imports import import_object
from zoo.registry.owners import BUILTIN, Owner
from zoo.registry.shelf import Shelf

RESAMPLES = 1000
"""Bootstrap samples for a confidence interval or a significance test: sacreBLEU's default."""


@dataclass(frozen=True)
class Score:
    """One metric's value, and its signature: what is needed to compute the same score again.

    With bootstrap, `mean` is over the samples, and `confidence` half of the distance between their
    2.5th and their 97.5th percentile.
    """

    value: float
    signature: str
    mean: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Scores:
    """A system's scores by metric, on a scale of 0 to 100, and the number of sentences.

    `problems` lists the plugins' metrics that failed, one line each; those of
    `Translator.evaluate` also list what `zoo eval` warns of in the pairs.
    """

    by_name: Mapping[str, Score]
    sentences: int
    problems: tuple[str, ...] = ()

    @property
    def bleu(self) -> float:
        """The BLEU score.

        Raises:
            UnknownNameError: it was not computed, as where a dataset names other metrics.
        """
        if "bleu" not in self.by_name:
            raise UnknownNameError("score", "bleu", self.by_name)
        return self.by_name["bleu"].value

    def as_json(self) -> dict[str, Any]:
        """Return the scores as plain values: NAME, NAME_signature, …, as a card stores them."""
        values: dict[str, Any] = {}
        for name, score in self.by_name.items():
            values |= {name: score.value, f"{name}_signature": score.signature}
            if score.confidence is not None:
                values |= {f"{name}_mean": score.mean, f"{name}_confidence": score.confidence}
        return {**values, "sentences": self.sentences}


@dataclass(frozen=True)
class Comparison:
    """Another system's score, and the p-value of the difference to it."""

    other: Score
    p_value: float


References = Sequence[str] | Sequence[Sequence[str]]
"""The reference of each text, or its references."""


def make_metrics(
    declared: Shelf[Declared] | None = None,
    *,
    lowercase: bool = False,
    orders: Sequence[int] = (),
    tokenizer: Tokenizer | None = None,
    names: Sequence[str] = (),
) -> Shelf[Metric]:
    """Return the built-in metrics, and then those that plugins declare, ready to score.

    A declared metric that cannot be imported or made is left out, and reported in `problems`.

    Args:
        declared: the plugins' metrics; one with the name of a built-in metric is ignored.
        lowercase: ignore letter case in the built-in metrics. TER always does, by convention.
        orders: maximum n-gram orders of further BLEU scores, besides order 4.
        tokenizer: the tokenizer for the token error rate; None omits that metric.
        names: return these metrics alone, and the BLEU of each of `orders`. By default all of
            them, except those that suit certain data only.

    Raises:
        UnknownNameError: there is no metric of one of the names.
    """
    metrics: Shelf[Metric] = Shelf("metric")
    # `force` silences a warning about tokenized text that names sacreBLEU's own options.
    metrics.add("bleu", BLEU(lowercase=lowercase, force=True))
    for order in sorted(set(orders)):
        bleu = _LowOrderBLEU(lowercase=lowercase, force=True, max_ngram_order=order)
        metrics.add(f"bleu_{order}", bleu)
    metrics.add("chrf", _FloatCHRF(lowercase=lowercase))
    metrics.add("ter", _FloatTER())
    metrics.add("exact_match", ExactMatch(lowercase))
    if tokenizer is not None:
        metrics.add("token_error_rate", TokenErrorRate(tokenizer, lowercase))
    if declared is not None:
        for name, declaration in declared.items():
            if not ((name in names) if names else declaration.everywhere):
                continue
            owner = declared.owner(name)
            if name not in metrics and reserved(name):
                metrics.problems.append(f"metric {name!r} of {owner} is ignored: the name is taken")
                continue
            with _isolated(name, owner, metrics.problems):
                metric = import_object(declaration.metric, f"metric {name!r}")()
                if not isinstance(metric, Metric):
                    raise TypeError(f"{declaration.metric} is no subclass of zoo.SegmentMetric")
                if isinstance(metric, SegmentMetric):
                    metric.lowercase = lowercase
                metrics.add(name, metric, owner)
    return _chosen(metrics, names, orders, declared) if names else metrics


def make_metric(
    name: str, declared: Shelf[Declared] | None = None, tokenizer: Tokenizer | None = None
) -> Shelf[Metric]:
    """Return one metric by its name, ready to score.

    Raises:
        UnknownNameError: there is none of that name.
        PluginError: it cannot be imported or made.
    """
    made = make_metrics(declared, tokenizer=tokenizer, names=[name])
    if name not in made:
        raise PluginError("; ".join(made.problems) or f"metric {name!r} is broken")
    return made


def lower_is_better(metric: Metric) -> bool:
    """Return whether a lower score of a metric is better."""
    return bool(getattr(metric, "lower_is_better", isinstance(metric, TER)))


def _chosen(
    made: Shelf[Metric],
    names: Sequence[str],
    orders: Sequence[int],
    declared: Shelf[Declared] | None,
) -> Shelf[Metric]:
    """Return the metrics of these names, and the BLEU of each of `orders`."""
    metrics: Shelf[Metric] = Shelf("metric")
    metrics.problems += made.problems
    for name in dict.fromkeys([*names, *(f"bleu_{order}" for order in sorted(set(orders)))]):
        if name in made:
            metrics.add(name, made[name], made.owner(name))
        elif name not in (declared or ()):  # otherwise a problem says why it is left out
            raise UnknownNameError("metric", name, [*made, *(declared or ())])
    return metrics


@contextlib.contextmanager
def _isolated(name: str, owner: Owner, problems: list[str]) -> Iterator[None]:
    """Report what a plugin's metric raises; an error of the zoo, or of its own metric, passes."""
    try:
        yield
    except FAILURES as error:
        known = isinstance(error, ZooError)
        if owner.plugin is None or (known and not isinstance(error, PluginError)):
            raise
        known_why = error.why if isinstance(error, PluginError) else ""
        reason = known_why or f"it raised {type(error).__name__}: {error}"
        problems.append(f"metric {name!r} of {owner} has no score: {' '.join(reason.split())}")


def _owner(metrics: Mapping[str, Metric], name: str) -> Owner:
    return metrics.owner(name) if isinstance(metrics, Shelf) else BUILTIN


def score(
    texts: Sequence[str],
    references: References,
    metrics: Mapping[str, Metric] | None = None,
    *,
    sources: Sequence[str] | None = None,
    resamples: int = 0,
) -> Scores:
    """Score texts, one or several references each, all of them untokenized.

    A plugin's metric that raises, or whose score is no number, is left out and reported.

    Args:
        texts, references: of equal number.
        metrics: metrics by name; by default BLEU, chrF and exact match, which are fast.
        sources: the source texts, for metrics that need them.
        resamples: bootstrap samples for confidence intervals; 0 for none.

    Raises:
        DataError: the numbers differ or are 0, or a metric needs sources and there are none.
    """
    _check(texts, references)
    if metrics is None:
        metrics = {"bleu": BLEU(force=True), "chrf": _FloatCHRF(), "exact_match": ExactMatch()}
    scores: dict[str, Score] = {}
    problems: list[str] = []
    for name, metric in metrics.items():
        with _isolated(name, _owner(metrics, name), problems):
            streams = _reference_streams(name, metric, references, sources)
            result = metric.corpus_score(list(texts), streams, n_bootstrap=resamples)
            interval = (result._mean, result._ci) if resamples > 1 else (None, None)
            value = _finite(_number(result.score))
            scores[name] = Score(value, str(metric.get_signature()), *map(_number, interval))
    return Scores(scores, len(texts), tuple(problems))


def compare(
    texts: Sequence[str],
    others: Sequence[str],
    references: References,
    metrics: Mapping[str, Metric],
    *,
    sources: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Comparison]:
    """Test by paired bootstrap whether texts differ from another system's in each metric.

    Koehn 2004, as sacreBLEU implements it: both systems are scored on the same samples of
    sentences. A plugin's metric that raises is left out, and reported in `metrics.problems`.

    Raises:
        DataError: as `score`.
    """
    _check(texts, references)
    _check(others, references)
    comparisons: dict[str, Comparison] = {}
    problems = metrics.problems if isinstance(metrics, Shelf) else []
    systems: list[tuple[str, Sequence[str]]] = [("other", list(others)), ("this", list(texts))]
    for name, metric in metrics.items():
        # One test for each metric: sacreBLEU identifies metrics by a name that all BLEUs share.
        with _isolated(name, _owner(metrics, name), problems):
            streams = _reference_streams(name, metric, references, sources)
            test = PairedTest(systems, {name: metric}, streams, "bs", n_samples=resamples)
            signatures, results = test()
            ((key, signature),) = signatures.items()
            other, this = cast("list[Result]", results[key])
            # sacreBLEU gives equal systems its lowest p-value, since no difference exceeds zero.
            p_value = 1.0 if this.score == other.score else _number(this.p_value) or 0.0
            interval = map(_number, (other.mean, other.ci))
            comparisons[name] = Comparison(
                Score(float(other.score), str(signature), *interval), p_value
            )
    return comparisons


def _check(texts: Sequence[str], references: References) -> None:
    if not texts or len(texts) != len(references):
        raise DataError(
            "nothing to score",
            f"there are {len(texts)} texts and {len(references)} references",
            "Name another --split",
        )
    if not all(references_of(each) for each in references):
        raise DataError("nothing to score", "a text has no reference")


def references_of(value: str | Sequence[str]) -> list[str]:
    """Return the references of a text, which may be one."""
    return [value] if isinstance(value, str) else list(value)


def _reference_streams(
    name: str, metric: Metric, references: References, sources: Sequence[str] | None
) -> list[list[str]]:
    """Return what sacreBLEU calls references; the sources follow for a metric that needs them.

    So they take part in its bootstrap and its tests like everything that belongs to a sentence.
    Texts of fewer references than others have None for the rest.
    """
    streams = [list(stream) for stream in zip_longest(*map(references_of, references))]
    if not getattr(metric, "needs_source", False):
        return streams
    if sources is None or len(sources) != len(references):
        raise DataError(f"metric {name!r} needs the source of every reference")
    return [*streams, list(sources)]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _finite(value: float | None) -> float:
    """Return a score, which JSON and a card can hold.

    Raises:
        ValueError: it is missing or not finite.
    """
    if value is None or not math.isfinite(value):
        raise ValueError(f"its score is {value}")
    return value


class _LowOrderBLEU(BLEU):
    """BLEU of another maximum order, which is part of its signature, unlike in sacreBLEU."""

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.update("order", self.max_ngram_order)
        return signature


class _FloatCHRF(CHRF):
    """chrF whose scores are always floats.

    Some of sacreBLEU's are NumPy scalars, and its mean over samples rejects a mixture.
    """

    def _compute_score_from_stats(self, statistics: list[int]) -> CHRFScore:
        result = super()._compute_score_from_stats(statistics)
        result.score = float(result.score)
        return result


class _FloatTER(TER):
    """TER whose scores are always floats, as those of `_FloatCHRF`.

    Those of samples with empty references alone are floats in sacreBLEU, and the others are not.
    """

    def _compute_score_from_stats(self, stats: list[float]) -> TERScore:
        result = super()._compute_score_from_stats(stats)
        result.score = float(result.score)
        return result
