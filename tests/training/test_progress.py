"""Callbacks, the curve, and what `zoo train` shows."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from tests.core.test_training import SMALL, finished
from zoo import Callback, Report, Validation, hookimpl
from zoo.registry.events import Event, Note
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry, default_registry
from zoo.training.callbacks import TensorBoard
from zoo.training.curve import draw_curve, smoothed
from zoo.training.progress import _scores
from zoo.training.request import TrainingRequest
from zoo.training.session import begin


class Diary(Callback):
    """Records every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def begin(self, folder: Path, description: Mapping[str, Any]) -> None:
        self.calls.append(("begin", folder.name, description["recipe"]["batch_tokens"]))

    def report(self, report: Report) -> None:
        self.calls.append(report)

    def validation(self, validation: Validation) -> None:
        self.calls.append(validation)

    def end(self) -> None:
        self.calls.append("end")


class Broken(Callback):
    def report(self, report: Report) -> None:
        raise ZeroDivisionError("no\nluck")


def with_callbacks(*callbacks: object) -> Registry:
    """A registry with one more plugin, which brings these callbacks."""

    @hookimpl
    def zoo_callbacks() -> Iterable[Any]:
        return callbacks

    plugins = Plugins()
    for plugin in default_registry().plugins.loaded.values():
        module = default_registry().plugins.manager.get_plugin(plugin.name)
        plugins.add(module, plugin)
    plugins.add(
        SimpleNamespace(ZOO_API=2, zoo_callbacks=zoo_callbacks), Plugin("diary", "zoo-diary", "1")
    )
    return Registry(plugins)


def test_a_plugin_s_callback_receives_every_event(parallel: Path, tmp_path: Path) -> None:
    diary = Diary()
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, epochs=2
        ),
        with_callbacks(diary),
    )
    events: list[Event] = []
    with session:
        events += session.trainer.events()
    assert diary.calls == [("begin", "a.run", 100), *events, "end"]
    assert {type(event) for event in events} == {Report, Validation}


def test_training_continues_when_a_callback_fails(parallel: Path, tmp_path: Path) -> None:
    diary = Diary()
    registry = with_callbacks(Broken(), diary, "no callback")
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, steps=20
        ),
        registry,
    )
    with session:
        notes = [event for event in session.trainer.events() if isinstance(event, Note)]
    assert [note.text for note in notes] == ["Broken is disabled: ZeroDivisionError: no luck"]
    assert diary.calls[-1] == "end"
    assert session.notes == [
        "plugin diary (zoo-diary 1) brings 'no callback', which is no Callback"
    ]


def test_callbacks_are_ended_when_a_run_fails(parallel: Path, tmp_path: Path) -> None:
    diary = Diary()
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, steps=20
        ),
        with_callbacks(diary),
    )

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    session.trainer.update = fail  # type: ignore[method-assign, assignment]
    with session, pytest.raises(ZeroDivisionError):
        list(session.trainer.events())
    assert diary.calls[-1] == "end"


def test_tensorboard_is_written_where_it_is_installed(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a recording writer in place of TensorBoard's, which may not be installed."""
    calls: list[tuple[Any, ...]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            calls.append(("folder", folder))

        def add_scalar(self, *given: Any) -> None:
            calls.append(given)

        add_text = add_scalar

        def flush(self) -> None: ...

        def close(self) -> None:
            calls.append(("close",))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    settings = {**SMALL, "bleu_sentences": 3}
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, epochs=1
        )
    )
    session.trainer.callbacks.active = [TensorBoard()]
    events: list[Event] = []
    with session:
        events += session.trainer.events()
    assert calls[0] == ("folder", str(tmp_path / "a.run" / "tensorboard"))
    assert calls[-1] == ("close",)
    losses = [(e.loss, e.step) for e in events if isinstance(e, Report)]
    assert [entry[1:] for entry in calls if entry[0] == "training/loss"] == losses
    (validation,) = [e for e in events if isinstance(e, Validation)]
    assert ("validation/loss", validation.validation_loss, validation.step) in calls
    assert ("validation/bleu", validation.bleu, validation.step) in calls


@pytest.mark.usefixtures("every_curve_is_drawn")
def test_the_curve_plots_the_metrics(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    drawn: dict[str, list[tuple[float, float]]] = {}
    plot = Axes.plot

    def recording_plot(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("label"):
            name = options["label"].partition(":")[0]
            drawn[name] = list(zip(*arguments[:2], strict=True))
        return plot(self, *arguments, **options)

    monkeypatch.setattr(Axes, "plot", recording_plot)
    settings = {**SMALL, "bleu_sentences": 3}
    finished(
        begin(
            TrainingRequest(
                "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, epochs=3
            )
        )
    )
    picture = (tmp_path / "a" / "curve.png").read_bytes()
    assert picture == (tmp_path / "a.run" / "curve.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    lines = (tmp_path / "a.run" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    losses = [(r["step"], r["loss"]) for r in records if "loss" in r]
    average = smoothed([loss for _, loss in losses])
    expected = [(step, value) for (step, _), value in zip(losses, average, strict=True)]
    assert drawn["training, smoothed"] == expected
    assert drawn["validation"] == [
        (r["step"], r["validation_loss"]) for r in records if "validation_loss" in r
    ]
    assert drawn["BLEU"] == [(r["step"], r["bleu"]) for r in records if r.get("bleu") is not None]
    assert draw_curve([], "nothing yet").startswith(b"\x89PNG")


def test_a_sample_is_shown_at_each_validation(
    run: Callable[..., Result], parallel: Path, tmp_path: Path
) -> None:
    words = [
        word for key, value in SMALL.items() for word in ("--set", f"{key}={json.dumps(value)}")
    ]
    data = f"{parallel}:en-de"
    arguments = ("train", "rnnsearch-tiny", "--data", data, "--epochs", 2, *words)
    output = run(*arguments, "--out", tmp_path / "a", "--set", "bleu_sentences=3").stderr
    sources = [line.partition(": ")[2] for line in output.splitlines() if " source: " in line]
    assert len(sources) == 2
    assert sources[0] != sources[1], "each validation shows another sample"
    assert output.count(" translation: ") == output.count(" reference: ") == 2
    assert output.count("  BLEU") == 2
    quiet = run(*arguments, "--out", tmp_path / "b", "--set", "samples=0").stderr
    assert " source: " not in quiet
    events = run(*arguments, "--out", tmp_path / "c", "--json").stdout.splitlines()
    (first, _) = [e for e in map(json.loads, events) if "validation_loss" in e]
    assert set(first["samples"][0]) == {"source", "reference", "translation"}


def test_a_recipe_file_on_the_command_line(
    run: Callable[..., Result], parallel: Path, tmp_path: Path
) -> None:
    file = tmp_path / "small.toml"
    config = {k: v for k, v in SMALL.items() if k.endswith("_dim") or k == "dropout"}
    lines = ['tokenizer = "word"', "batch_tokens = 100", "steps = 3", "[config]"]
    file.write_text("\n".join([*lines, *(f"{k} = {v}" for k, v in config.items())]))
    arguments = ("train", "rnnsearch-tiny", "--data", f"{parallel}:en-de", "--out", tmp_path / "a")
    done = run(*arguments, "--recipe", file, "--set", "batch_tokens=90")
    assert done.exit_code == 0, done.output
    recipe = json.loads((tmp_path / "a" / "training.json").read_text())["recipe"]
    assert (recipe["batch_tokens"], recipe["steps"], recipe["tokenizer"]) == (90, 3, "word")


@pytest.mark.parametrize(("bleu", "exact", "scores", "shown"), [
    (None, None, {}, "  validation 1.500"),
    (12.0, 3.0, {}, "  validation 1.500  BLEU 12.0  chrF 40.0"),
    (0.0, 0.0, {}, "  validation 1.500  BLEU 0.0  chrF 40.0"),
    (0.0, 25.0, {}, "  validation 1.500  exact match 25.0%  chrF 40.0"),
    (0.0, 25.0, {"exact_match": 25.0}, "  validation 1.500  chrF 40.0  exact_match 25.0"),
])  # fmt: skip
def test_bleu_gives_way_to_exact_matches_of_short_texts(
    bleu: float | None, exact: float | None, scores: dict[str, float], shown: str
) -> None:
    chrf = None if bleu is None else 40.0
    event = Validation(1, 1, 1.5, bleu, True, (), 0.1, chrf, scores, exact)
    assert _scores(event) == shown
