"""Callbacks see copies of weights and optimizer, and can end a run."""

from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import SMALL, same
from tests.shelves import registry_with
from zoo.registry.events import Event, Note

CODE = """
import torch
import zoo

@hookimpl
def zoo_callbacks():
    return [Meddler()]

class Meddler(zoo.Callback):
    seen = []

    def begin(self, folder, description):
        assert "output.weight" in self.run.weights

    def report(self, report):
        torch.rand(3)
        weights = self.run.weights
        weights["output.weight"].fill_(float("nan"))
        for value in self.run.optimizer_state.values():
            value.zero_()
        model = self.run.model()
        assert not model.training
        assert torch.equal(model.get_parameter("output.weight"), weights["output.weight"])
        for weight in model.parameters():
            weight.data.zero_()
        self.seen.append((report.step, len(weights), len(self.run.optimizer_state)))
        if report.step >= 10:
            self.run.stop("ten are enough")
"""


def test_a_callback_changes_nothing_and_ends_a_run_with_its_checkpoint(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_with(monkeypatch, CODE)
    data = f"{parallel}:en-de"
    given: dict[str, Any] = {"settings": SMALL}
    zoo.train("rnnsearch-tiny", data, tmp_path / "plain", steps=11, **given)
    events: list[Event] = []
    out = zoo.train("rnnsearch-tiny", data, tmp_path / "ended", steps=100, registry=registry,
                    on_event=events.append, **given)  # fmt: skip
    assert same(tmp_path / "plain", out)
    notes = [event.text for event in events if isinstance(event, Note)]
    assert notes == ["Meddler ends the run: ten are enough"]
    resumed: list[Event] = []
    zoo.resume(out, steps=13, on_event=resumed.append)  # without the plugin, it goes on
    assert max(event.step for event in resumed) == 13
    assert torch.isfinite(next(zoo.load(out).checkpoint.model.parameters())).all()


LEAVES = """
import zoo

@hookimpl
def zoo_callbacks():
    return [Leaves()]

class Leaves(zoo.Callback):
    def report(self, report):
        raise SystemExit(4)
"""


def test_a_callback_that_exits_is_disabled(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_with(monkeypatch, LEAVES)
    events: list[Event] = []
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "out", steps=2, settings=SMALL,
              registry=registry, on_event=events.append)  # fmt: skip
    notes = [event.text for event in events if isinstance(event, Note)]
    assert "Leaves is disabled: SystemExit: 4" in notes
