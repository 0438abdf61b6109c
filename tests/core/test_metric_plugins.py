"""Metrics that plugins bring by `zoo_metrics`, with and without the source texts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.base import Score

import zoo
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as zoo_command
from zoo import Metric, hookimpl
from zoo.errors import DataError
from zoo.evaluation.metrics import compare, make_metrics, score
from zoo.registry.api import API
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry


class Vowels(zoo.SegmentMetric):
    """The share of texts with as many vowels as their reference."""

    name = "vowels"

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        assert not source, "it does not need the source"
        counts = [sum(letter in "aeiou" for letter in t) for t in (text, reference)]
        return counts[0] == counts[1], 1


class Copied(zoo.SegmentMetric):
    """The share of a text's words that are copied from the source and not in the reference."""

    name = "copied"
    needs_source = True

    def count(self, text: str, reference: str, source: str) -> tuple[float, float]:
        words = text.split()
        return sum(w in source.split() and w not in reference.split() for w in words), len(words)


class Longer(SacreMetric):
    """The share of texts longer than their source, written against sacreBLEU's own base class."""

    needs_source = True

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Any) -> dict[str, Any]:
        return {"source": refs[1]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Any) -> list[int]:
        return [len(hypothesis) > len(ref_kwargs["source"])]

    def _compute_score_from_stats(self, stats: Any) -> Score:
        return Score("longer", float(stats[0]))

    def _aggregate_and_compute(self, stats: Any) -> Score:
        return Score("longer", 100 * sum(row[0] for row in stats) / len(stats))


def registry_with(where: str, name: str = "vowels") -> Registry:
    @hookimpl
    def zoo_metrics() -> Iterable[Metric]:
        yield Metric(name, "a test", where)

    plugins = Plugins()
    module = SimpleNamespace(ZOO_API=API, zoo_metrics=zoo_metrics)
    plugins.add(module, Plugin("vowels", "zoo-vowels", "1.0"))
    return Registry(plugins)


def test_a_plugin_s_metric_is_scored_beside_the_built_in_ones() -> None:
    registry = registry_with(f"{__name__}:Vowels")
    using = make_metrics(registry.metrics)
    scores = score(["a b", "e i", "x"], ["o k", "e", "y"], using, resamples=50)
    assert scores.by_name["vowels"].value == pytest.approx(200 / 3)
    assert scores.by_name["vowels"].confidence is not None
    assert {"bleu", "chrf", "ter", "exact_match"} <= set(scores.by_name)
    assert compare(["a"], ["a"], ["a"], using, resamples=20)["vowels"].p_value == 1.0
    assert isinstance(using["vowels"].corpus_score(["a"], [["a"]]), Score)
    (plugin,) = registry.plugins.loaded.values()
    assert registry.brought_by(plugin) == {"metrics": ["vowels"]}


TEXTS, OTHERS = ["the chat", "un chien", "x"], ["le chat", "un dog", "x"]
REFERENCES, SOURCES = ["le chat", "un chien", "y z"], ["the cat", "a dog", "x"]


def test_a_metric_that_needs_the_source_gets_it() -> None:
    using = {"copied": Copied(), "longer": Longer()}  # type: ignore[no-untyped-call]  # sacreBLEU's
    scores = score(TEXTS, REFERENCES, using, sources=SOURCES, resamples=100).by_name
    assert scores["copied"].value == pytest.approx(100 * 2 / 5)  # `the` and `x`
    assert scores["longer"].value == pytest.approx(100 * 2 / 3)
    assert "nrefs:1|" in scores["copied"].signature
    assert all(each.confidence is not None for each in scores.values())
    compared = compare(TEXTS, OTHERS, REFERENCES, using, sources=SOURCES, resamples=100)
    assert compared["copied"].other.value == pytest.approx(100 * 2 / 5)  # `dog` and `x`
    with pytest.raises(DataError, match="metric 'copied' needs the source of every reference"):
        score(TEXTS, REFERENCES, using)
    # sacreBLEU's own metrics never see a source.
    built_in = score(TEXTS, REFERENCES, make_metrics(), sources=SOURCES)
    assert built_in == score(TEXTS, REFERENCES, make_metrics())


PLUGIN = """
from zoo import Metric, SegmentMetric, hookimpl

ZOO_API = 2


@hookimpl
def zoo_metrics():
    yield Metric("copied", "words of the source", "zoo_copying:Copied")


class Copied(SegmentMetric):
    name = "copied"
    needs_source = True

    def count(self, text, reference, source):
        return sum(word in source.split() for word in text.split()), len(text.split())
"""


def test_zoo_eval_passes_sources_to_a_plugin_s_metric(tmp_path: Path) -> None:
    """The plugin's one file holds all code of the metric."""
    put(tmp_path, "copying", PLUGIN)
    pairs = tmp_path / "pairs.tsv"
    # The expected score is the share of the translations' words that are in their sources.
    pairs.write_text("two\tdeux\nten dix\tdix\nsix\tsix\n", encoding="utf-8")
    out = tmp_path / "out.txt"
    options = ("--data", str(pairs), "--confidence", "--json", "--out", str(out))
    done: subprocess.CompletedProcess[str] = zoo_command(
        tmp_path, "eval", "rnnsearch-tiny.numbers-en-fr", *options
    )
    record = json.loads(done.stdout)
    texts = out.read_text(encoding="utf-8").splitlines()
    sources = ["two", "ten dix", "six"]
    copied = [w in s.split() for t, s in zip(texts, sources, strict=True) for w in t.split()]
    assert any(copied)
    assert record["copied"] == pytest.approx(100 * sum(copied) / len(copied))
    assert "copied_confidence" in record
    assert record["bleu_signature"].startswith("nrefs:1|bs:1000|")
    assert record["copied_signature"].startswith("nrefs:1|bs:1000|")


def silent(*_: Any, **__: Any) -> Score:
    return Score("none", float("nan"))


def raises(*_: Any, **__: Any) -> Any:
    raise ValueError("no luck\ntoday")


class Unmade(Vowels):
    """A metric whose constructor raises."""

    __init__ = raises


class Raises(Vowels):
    """A metric that raises when it counts."""

    count = raises


class NotFinite(Vowels):
    """A metric whose score is no number."""

    corpus_score = silent


class Unsigned(Vowels):
    """A metric without a usable signature."""

    get_signature = raises


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("nowhere:Vowels", "nowhere:Vowels gave ModuleNotFoundError: No module named 'nowhere'"),
        (f"{__name__}:Absent", "has no attribute 'Absent'"),
        (f"{__name__}:Unmade", "it raised ValueError: no luck today"),
        (f"{__name__}:Registry", "missing 1 required positional argument"),
        (f"{__name__}:SimpleNamespace", "is no subclass of zoo.SegmentMetric"),
        (f"{__name__}:Raises", "it raised ValueError: no luck today"),
        (f"{__name__}:NotFinite", "it raised ValueError: its score is nan"),
        (f"{__name__}:Unsigned", "it raised ValueError: no luck today"),
    ],
)
def test_a_broken_metric_is_reported_and_the_other_scores_survive(where: str, reason: str) -> None:
    using = make_metrics(registry_with(where).metrics)
    scores = score(["a b"], ["o k"], using)
    (problem,) = (*using.problems, *scores.problems)
    assert problem.startswith("metric 'vowels' of vowels (zoo-vowels 1.0) has no score: ")
    assert reason in problem
    assert "\n" not in problem
    assert set(scores.by_name) == {"bleu", "chrf", "ter", "exact_match"}
    assert set(compare(["a"], ["b"], ["a"], using, resamples=20)) >= {"bleu", "ter"}


def test_a_broken_metric_that_no_plugin_brings_raises() -> None:
    with pytest.raises(ValueError, match="no luck"):
        score(["a"], ["a"], {"raises": Raises()})


BROKEN_METRICS = """
from zoo import Metric, SegmentMetric, hookimpl

ZOO_API = 2


@hookimpl
def zoo_metrics():
    yield Metric("absent", "not there", "zoo_nowhere:Absent")
    yield Metric("raising", "raises", "zoo_breaking:Raising")
    yield Metric("counting", "raises later", "zoo_breaking:Counting", everywhere=False)


class Raising:
    def __init__(self):
        raise RuntimeError("never")


class Counting(SegmentMetric):
    def count(self, text, reference, source):
        raise RuntimeError("later")
"""


def test_zoo_eval_prints_its_scores_and_a_line_for_each_broken_metric(tmp_path: Path) -> None:
    put(tmp_path, "breaking", BROKEN_METRICS)
    options = ("--data", "numbers-en-fr", "--limit", "20", "--json")
    done = zoo_command(tmp_path, "eval", "seq2seq-tiny.numbers-en-fr", *options)
    assert {"bleu", "chrf", "exact_match"} <= json.loads(done.stdout).keys()
    first, second = done.stderr.splitlines()
    assert first.startswith(
        "Warning: metric 'absent' of breaking (zoo-breaking 1.0) has no score: "
    )
    assert second.endswith("(zoo-breaking 1.0) has no score: it raised RuntimeError: never")
    alone = ("--data", "numbers-en-fr", "--limit", "20", "--metric", "counting")
    done = zoo_command(tmp_path, "eval", "seq2seq-tiny.numbers-en-fr", *alone, code=1)
    assert done.stdout == ""
    assert done.stderr.endswith("Error: no score: no metric that --metric names can be computed\n")


@pytest.mark.parametrize("name", ["BLEU", "ChrF", "bleu_7", "sentences", "bleu-signature"])
def test_a_plugins_metric_is_not_taken_for_another_value(name: str) -> None:
    using = make_metrics(registry_with(f"{__name__}:Vowels", name).metrics)
    assert name not in using
    assert using.problems == [
        f"metric {name!r} of vowels (zoo-vowels 1.0) is ignored: the name is taken"
    ]


def test_a_plugin_does_not_replace_a_built_in_metric() -> None:
    using = make_metrics(registry_with(f"{__name__}:Vowels", "bleu").metrics)
    assert type(using["bleu"]).__name__ == "BLEU"
    assert using.problems == [
        "metric 'bleu' of vowels (zoo-vowels 1.0) is ignored: seq2seq-zoo brings one of the same "
        "name"
    ]
