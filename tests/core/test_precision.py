"""The choice of precision, which must not change weights or random generators."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result

from tests.core.test_training import SMALL
from zoo.errors import ConfigError
from zoo.registry.events import Report
from zoo.training import benchmark, precision
from zoo.training.request import TrainingRequest
from zoo.training.session import begin

Run = Callable[..., Result]


def test_auto_chooses_the_faster_precision_and_records_it(
    tmp_path: Path, parallel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for faster, other in (("float32", "bf16"), ("bf16", "float32")):
        times = {faster: 1.0, other: 2.0}
        monkeypatch.setattr(precision, "_seconds", lambda *given, times=times: times[given[-1]])
        settings = {**SMALL, "recipe.precision": "auto"}
        out = tmp_path / faster
        session = begin(
            TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", out, settings=settings, steps=1)
        )
        assert session.precision is not None
        assert session.precision.precision == faster
        assert "1000 ms" in str(session.precision)
        assert session.trainer.plan.recipe.precision == faster
        assert session.trainer.data.setup.recipe.precision == faster  # as objectives see it
        assert json.loads((tmp_path / f"{faster}.run/run.json").read_text())["recipe"][
            "precision"
        ] == (faster)


def test_timing_changes_neither_weights_nor_generators(tmp_path: Path, parallel: Path) -> None:
    data = f"{parallel}:en-de"
    session = begin(
        TrainingRequest("rnnsearch-tiny", data, tmp_path / "out", settings=SMALL, steps=1)
    )
    loss = session.trainer.loss.eval()
    model = session.trainer.model
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    generator_state = torch.get_rng_state()
    choice = precision.choose_precision(loss, session.trainer.corpus, session.trainer.plan.recipe)
    assert set(choice.seconds) == {"float32", "bf16"}
    assert torch.equal(torch.get_rng_state(), generator_state)
    assert not model.training
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])
        assert weight.grad is None


@pytest.mark.parametrize("name", ["rnnsearch-tiny", "transformer-tiny"])
def test_bf16_trains_as_well_as_float32(name: str, tmp_path: Path, parallel: Path) -> None:
    small = {**SMALL, "warmup": 20, "save_every": 50} if name == "rnnsearch-tiny" else {
        "dim": 32, "feedforward_dim": 64, "encoder_layers": 1, "decoder_layers": 1,
        "tokenizer": "word", "batch_tokens": 100, "validate_every": 100,
    }  # fmt: skip
    for suffix in ("en", "de"):  # an epoch's end takes longer than its few updates
        file = parallel.with_suffix(f".{suffix}")
        file.write_text(file.read_text(encoding="utf-8") * 20, encoding="utf-8")
    losses = {}
    for kind in ("float32", "bf16"):
        settings = {**small, "dropout": 0.0, "learning_rate": 1e-2,
                    "label_smoothing": 0.0, "recipe.precision": kind}  # fmt: skip
        out = tmp_path / kind
        session = begin(
            TrainingRequest(
                name,
                f"{parallel}:en-de",
                out,
                settings=settings,
                steps=200 if name == "rnnsearch-tiny" else 80,
            )
        )
        assert {w.dtype for w in session.trainer.model.parameters()} == {torch.float32}
        losses[kind] = [e.loss for e in session.trainer.events() if isinstance(e, Report)][-1]
    assert losses["float32"] < 0.3
    assert losses["bf16"] < 0.3


def test_compile_needs_a_compiler(
    tmp_path: Path, parallel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    settings = {**SMALL, "recipe.compile": True, "recipe.precision": "float32"}
    with pytest.raises(ConfigError, match=r"needs a C\+\+ compiler.*without --compile"):
        begin(TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "o", settings=settings, steps=1,
            device="cpu"))  # fmt: skip


def test_train_and_bench_accept_a_precision(
    run: Run, tmp_path: Path, parallel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "SIZE", 512)  # a matrix of 2,048 rows takes seconds
    settings = {key: value for key, value in SMALL.items() if key != "precision"}
    words = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    data = ("--data", f"{parallel}:en-de")
    out = tmp_path / "out"
    made = run("train", "rnnsearch-tiny", *data, "--out", out, "--steps", 2, *words,
               "--precision", "auto")  # fmt: skip
    assert made.exit_code == 0, made.output
    assert " ms in float32, " in made.stderr
    again = run("train", "--resume", "--out", out, "--precision", "bf16")
    assert again.exit_code == 2
    assert "--precision" in again.stderr
    bench = ("bench", "train", "rnnsearch-tiny", *data, "--updates", 2, *words)
    report = json.loads(run(*bench, "--json").stdout)
    assert report["tokens_per_second"] > 0
    assert 0 < report["utilization"] < 1
    assert 0 <= report["padding"] < 1
    shown = run(*bench, "--precision", "bf16")
    for part in (
        "bf16: ",
        "target tokens/s",
        "% padding",
        "of the throughput of a large matrix multiplication",
    ):
        assert part in shown.stderr
