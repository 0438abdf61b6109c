"""Metrics that plugins bring by `zoo_metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from sacrebleu.metrics.base import Score

from zoo import Metric, hookimpl
from zoo.errors import PluginError
from zoo.evaluation import metrics
from zoo.evaluation.metrics import _Ours
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry


class Vowels(_Ours):
    """The share of texts with as many vowels as their reference."""

    name = "vowels"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, str]) -> list[int]:
        counts = [sum(sign in "aeiou" for sign in t) for t in (hypothesis, ref_kwargs["reference"])]
        return [int(counts[0] == counts[1]), 1]


def brought(where: str, name: str = "vowels") -> Registry:
    @hookimpl
    def zoo_metrics() -> Iterable[Metric]:
        yield Metric(name, "texts with as many vowels", where)

    plugins = Plugins()
    plugins.add(SimpleNamespace(zoo_metrics=zoo_metrics), Plugin("vowels", "zoo-vowels", "1.0"))
    return Registry(plugins)


def test_a_plugin_s_metric_is_scored_beside_ours() -> None:
    names = brought(f"{__name__}:Vowels")
    using = metrics.measures(more=names.metrics.values())
    scores = metrics.score(["a b", "e i", "x"], ["o k", "e", "y"], using, resamples=50)
    assert scores.by_name["vowels"].value == pytest.approx(200 / 3)
    assert scores.by_name["vowels"].confidence is not None
    assert {"bleu", "chrf", "ter", "exact_match"} <= set(scores.by_name)
    compared = metrics.compare(["a"], ["a"], ["a"], using, resamples=20)
    assert compared["vowels"].p_value == 1.0
    assert isinstance(using["vowels"].corpus_score(["a"], [["a"]]), Score)
    (plugin,) = names.plugins.loaded.values()
    assert names.brought_by(plugin) == {"metrics": ["vowels"]}


def test_a_broken_metric_says_so() -> None:
    with pytest.raises(PluginError, match="metric 'vowels' is broken: nowhere:Vowels gave"):
        metrics.measures(more=brought("nowhere:Vowels").metrics.values())


def test_a_plugin_does_not_replace_our_metrics() -> None:
    using = metrics.measures(more=brought(f"{__name__}:Vowels", "bleu").metrics.values())
    assert type(using["bleu"]).__name__ == "BLEU"
