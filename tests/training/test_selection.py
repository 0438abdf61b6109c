"""Weights are selected by any metric, also one of a plugin that needs the sources."""

import json
from pathlib import Path

import pytest

import zoo
from tests.core.test_training import SMALL
from tests.shelves import registry_with
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConfigError, PluginError
from zoo.evaluation.metrics import lower_is_better, make_metrics
from zoo.registry.registry import default_registry
from zoo.training.plan import SELECTIONS

CODE = """
import zoo

@hookimpl
def zoo_metrics():
    for name in ("distance", "raises", "absent"):
        yield zoo.Metric(name, "a test", f"zoo_visitor:{name}")

class distance(zoo.SegmentMetric):
    name = "distance"
    needs_source = True
    lower_is_better = True
    calls = 0

    def count(self, text, reference, source):
        assert source.islower() or "." in source
        distance.calls += 1
        return distance.calls // 5, 1  # worse each time

class raises(zoo.SegmentMetric):
    def count(self, text, reference, source):
        raise ValueError("no luck")
"""


def test_the_best_validation_by_a_plugin_s_metric_is_released(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_with(monkeypatch, CODE)
    settings = {**SMALL, "bleu_sentences": 3, "validate_every": 3}
    data = f"{parallel}:en-de"
    out = zoo.train("rnnsearch-tiny", data, tmp_path / "a", settings={**settings, "select":
                    "distance"}, steps=9, registry=registry)  # fmt: skip
    training = json.loads((out / "training.json").read_text())
    validations = [r for r in training["curve"] if "validation_loss" in r]
    scores = [r["scores"]["distance"] for r in validations]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    assert training["released"] == 3
    for name, message in (("raises", "'raises' of visitor .* no luck"), ("absent", "'absent' of")):
        with pytest.raises(PluginError, match=message):
            zoo.train("rnnsearch-tiny", data, tmp_path / name, settings={**settings, "select":
                      name}, steps=3, registry=registry)  # fmt: skip
    with pytest.raises(ConfigError, match=r"select = 'distanc' \(did you mean distance\?\)"):
        zoo.train("rnnsearch-tiny", data, tmp_path / "b", settings={**settings, "select":
                  "distanc"}, steps=3, registry=registry)  # fmt: skip


def test_every_built_in_metric_can_be_selected_by() -> None:
    made = make_metrics(tokenizer=Tokenizer.train(["a"], "char", 9))
    assert ("last", "loss", *made) == SELECTIONS
    assert [name for name in made if lower_is_better(made[name])] == ["ter", "token_error_rate"]


def test_of_error_rates_the_lowest_is_the_best() -> None:
    declared = default_registry().metrics
    rates = [name for name in declared if "error_rate" in name]
    assert len(rates) == 4
    made = make_metrics(declared, names=rates)
    assert all(lower_is_better(made[name]) for name in rates)
