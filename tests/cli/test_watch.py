"""`zoo watch`: what the run's metrics say, while they grow."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from tests.core.test_checkpoint import TINY
from zoo.cli.watching import HEIGHT, Watched, plot

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watch")
    (folder / "a.tsv").write_text("".join(f"a {n}\tb {n} [x]\n" for n in "abcdefghij"))
    out = folder / "made"
    data = str(folder / "a.tsv")
    settings = TINY["rnnsearch-tiny"]
    return zoo.train("rnnsearch-tiny", data, out, validation=data, settings=settings, steps=30)


def test_a_finished_run(run: Run, trained: Path) -> None:
    state = json.loads(run("watch", trained, "--json").stdout)
    assert state["finished"] is True
    assert state["model"] == "rnnsearch-tiny"
    assert state["step"] == 30
    assert state["done"] == 1.0
    assert state["minutes_left"] == 0
    metrics = (trained.with_name("made.run") / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in metrics]
    assert state["loss"] == [r for r in records if "loss" in r][-1]["loss"]
    assert state["samples"] == [r for r in records if "validation_loss" in r][-1]["samples"]
    shown = run("watch", trained).stdout
    assert "rnnsearch-tiny on" in shown
    assert "finished" in shown
    assert "30 updates" in shown
    assert state["samples"]
    for sample in state["samples"]:
        assert sample["source"] in shown


def test_records_appear_while_they_are_written(tmp_path: Path, trained: Path) -> None:
    out = tmp_path / "growing"
    folder = tmp_path / "growing.run"
    folder.mkdir()
    (folder / "run.json").write_text('{"id": "x", "model": "m", "data": "d"}')
    watched = Watched(out)
    assert watched.update() == []
    assert watched.state["step"] is None
    lines = [json.dumps({"step": n, "loss": 5 - n / 10, "done": n / 40, "minutes": n,
                         "tokens_per_second": 1.0}) + "\n" for n in range(1, 6)]  # fmt: skip
    file = folder / "metrics.jsonl"
    file.write_text(lines[0] + lines[1][:10])
    assert [r["step"] for r in watched.update()] == [1]
    file.write_text("".join(lines))
    assert [r["step"] for r in watched.update()] == [2, 3, 4, 5]
    assert watched.state["minutes_left"] == pytest.approx(5 * 7)
    assert watched.update() == []
    changed = [lines[0], lines[1].replace("4.8", "1.8")]
    file.write_text("".join(changed))  # resumed from an earlier state
    assert [r["loss"] for r in watched.update()] == [4.9, 1.8]
    file.write_text("".join(changed).replace("1.8", "1.7"))  # and grown to the same size
    os.utime(file, (0, 0))  # changed at another time, on any file system
    assert watched.state["loss"] == 1.8
    watched.update()
    assert watched.state["loss"] == 1.7


def test_watching_ends_with_the_run(run: Run, tmp_path: Path) -> None:
    out, folder = tmp_path / "made", tmp_path / "made.run"
    folder.mkdir()
    (folder / "run.json").write_text('{"id": "x", "model": "m", "data": "d"}')

    def train() -> None:
        time.sleep(0.3)
        record: dict[str, Any] = {"step": 1, "loss": 2.5, "done": 1.0, "minutes": 0.1}
        (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
        out.mkdir()
        (out / "training.json").write_text('{"run": "x"}')

    thread = threading.Thread(target=train)
    thread.start()
    made = run("watch", out, "--every", "0.1")
    thread.join()
    assert made.exit_code == 0
    assert "loss 2.5000" in made.stdout


def test_no_run_is_one_line(run: Run, tmp_path: Path) -> None:
    made = run("watch", tmp_path / "none")
    assert made.exit_code == 1
    assert "no run at" in made.output


def test_the_plot_has_its_size_and_its_extremes() -> None:
    loss = [(float(n), 10.0 / n) for n in range(1, 200)]
    lines = plot(loss, [(100.0, 0.1), (199.0, 0.05)], 60)
    assert len(lines) == HEIGHT + 1
    assert all(len(line) <= 61 for line in lines)
    assert sum(line.count("o") for line in lines[:-1]) == 2
    assert plot([(1.0, 2.0)], [], 40)


RECORD = {"step": 1, "loss": 2.0, "done": 0.5, "minutes": 1}
ODD: dict[str, dict[str, Any]] = {
    "a huge update": {"step": 10**400},
    "an update before the first": {"step": -5},
    "huge progress": {"done": 10**400},
    "progress backwards": {"done": -1e18},
    "infinite time": {"minutes": float("inf")},
    "samples of texts": {"validation_loss": 1.0, "samples": ["a"]},
    "samples in a table": {"validation_loss": 1.0, "samples": {"a": 1}},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_metrics_are_refused_in_one_line(name: str, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "made.run"
    folder.mkdir()
    (folder / "run.json").write_text('{"id": "x", "model": "m", "data": "d"}')
    (folder / "metrics.jsonl").write_text(json.dumps({**RECORD, **ODD[name]}) + "\n")
    done = run("watch", tmp_path / "made", "--once")
    assert done.exit_code == 1
    assert "line 1 is not a record of an update" in done.output


def test_losses_that_cannot_be_drawn(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "made.run"
    folder.mkdir()
    (folder / "run.json").write_text('{"id": "x", "model": "m", "data": "d"}')
    losses = [float("nan"), float("inf"), -1e308, 1e308, None, 3.0]
    lines = [json.dumps({**RECORD, "step": n, "loss": loss}) for n, loss in enumerate(losses)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert "3.00" in run("watch", tmp_path / "made", "--once").output
    (folder / "run.json").write_text("{")
    done = run("watch", tmp_path / "made", "--once")
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1
