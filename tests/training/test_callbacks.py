"""Callbacks see copies of weights and optimizer, and can end a run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import SMALL, same
from tests.external_plugins.packages import put
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


STOPPER = """
import zoo
from zoo import hookimpl

ZOO_API = 2

@hookimpl
def zoo_callbacks():
    return [Stopper()]

class Stopper(zoo.Callback):
    def report(self, report):
        if report.step >= 4:
            assert self.run.weights["output.weight"].isfinite().all()
            self.run.stop("four are enough")
"""


def test_a_callback_ends_the_run_of_two_processes(parallel: Path, tmp_path: Path) -> None:
    """The first process has the callback; both end after the same update."""
    put(tmp_path / "site", "stopper", STOPPER)
    settings = {**SMALL, "save_every": 2, "samples": 0}
    words = [w for k, value in settings.items() for w in ("--set", f"{k}={json.dumps(value)}")]
    begins = ["train", "rnnsearch-tiny", "--data", f"{parallel}:en-de", *words]
    jobs = [[2, str(tmp_path / "ended.log"), [*begins, "--steps", "50", "--out", "ended"]],
            [2, str(tmp_path / "plain.log"), ["--no-plugins", *begins, "--steps", "6",
                                              "--out", "plain"]]]  # fmt: skip
    path = os.pathsep.join((str(tmp_path / "site"), *sys.path))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-m", "tests.training.forks"], env=environment,
                          input="".join(f"{json.dumps(job)}\n" for job in jobs), cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == 2 * "[0, 0]\n", (tmp_path / "ended.log").read_text() + done.stderr
    assert same(tmp_path / "plain", tmp_path / "ended")
    reports = (tmp_path / "ended.run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(reports[-1])["step"] == 6


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
