"""Passes that are repeated as they were recorded; here a processor repeats them, call by call."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import weights
from zoo.data.batches import Batch
from zoo.training import passes
from zoo.training.objective import Loss
from zoo.training.passes import Passes, RecordedPasses

SETTINGS: dict[str, Any] = {
    "warmup": 4, "batch_tokens": 120, "validate_every": 16, "save_every": 16, "seed": 3,
    "bleu_sentences": 3, "schedule": "constant", "vocab_size": 90,
}  # fmt: skip


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record passes on the CPU; return what has been recorded and repeated."""
    log: list[str] = []

    def record(function: Callable[[], None], pool: Any, stream: Any) -> Callable[[], None]:
        given = inspect.getclosurevars(function).nonlocals
        made, owner = given["made"], given["self"]
        function()
        # A GPU computes nothing while it records.
        gradients = [(w, w.grad.clone()) for w in owner._weights if w.grad is not None]
        with torch.random.fork_rng([]):
            function()
        for weight, gradient in gradients:
            weight.grad.copy_(gradient)
        log.append("recorded")

        def repeat() -> None:
            function()
            total, parts = made.pop()
            made[1][0].copy_(total)
            for name, part in parts.items():
                made[1][1][name].copy_(part)
            log.append("repeated")

        return repeat

    monkeypatch.setattr(passes, "can_record", lambda device: True)
    monkeypatch.setattr(passes, "new_pool", lambda: (0, 1))
    monkeypatch.setattr(passes, "record", record)
    monkeypatch.setattr(RecordedPasses, "_has_memory", lambda self: True)
    monkeypatch.setattr(passes, "new_stream", lambda device: SimpleNamespace())
    monkeypatch.setattr(passes, "on_stream", lambda stream: contextlib.nullcontext())
    return log


SMALL = {
    "transformer-tiny": {
        "dim": 16, "heads": 2, "feedforward_dim": 32, "encoder_layers": 1, "decoder_layers": 2,
    },
    "rnnsearch-tiny": {}, "convs2s-tiny": {},
}  # fmt: skip


def train(data: Path, out: Path, steps: int, **settings: Any) -> Path:
    model = settings.pop("model", "transformer-tiny")
    settings = {**SMALL[model], **settings}
    changes = {**SETTINGS, **settings}
    return zoo.train(model, f"{data}:en-de", out, steps=steps, settings=changes, device="cpu")


@pytest.mark.parametrize("settings", [
    {}, {"precision": "bf16", "word_dropout": 0.1}, {"average_decay": 0.9, "r_drop": 1.0},
    {"accumulate": 2}, {"model": "convs2s-tiny"},
], ids=str)  # fmt: skip
def test_training_is_the_same(
    settings: dict[str, Any], parallel: Path, tmp_path: Path, recorded: list[str]
) -> None:
    actual = weights(train(parallel, tmp_path / "recorded", 20, **settings))
    assert "repeated" in recorded
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "can_record", lambda device: False)
        expected = weights(train(parallel, tmp_path / "plain", 20, **settings))
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=0, atol=0)


def test_what_a_recorded_pass_reads_is_not_freed(
    parallel: Path, tmp_path: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer translation, in a validation, replaces a table of positions."""
    tables: list[weakref.ref[Any]] = []

    def record(self: RecordedPasses, *given: Any) -> Any:
        made = original(self, *given)
        tables.append(weakref.ref(self._networks[0]._sinusoids))
        self._networks[0]._sinusoids = None  # type: ignore[assignment]
        gc.collect()
        assert tables[-1]() is not None
        return made

    original = RecordedPasses._record
    monkeypatch.setattr(RecordedPasses, "_record", record)
    train(parallel, tmp_path / "run", 12)
    assert tables


def test_training_goes_on_where_recording_fails(
    parallel: Path, tmp_path: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(function: Callable[[], None], pool: Any, stream: Any) -> Callable[[], None]:
        function()  # the update itself
        recorded.append("failed")
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(passes, "record", record)
    actual = weights(train(parallel, tmp_path / "recorded", 12))
    assert recorded == ["failed"]
    monkeypatch.setattr(passes, "can_record", lambda device: False)
    expected = weights(train(parallel, tmp_path / "plain", 12))
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=0, atol=0)


RISK = {"name": "minimum_risk", "samples": 2, "longest": 8}


@pytest.mark.parametrize("settings", [
    {"objective": RISK}, {"objective": ["cross_entropy", RISK]},
], ids=str)  # fmt: skip
def test_objectives_that_read_values_are_not_recorded(
    settings: dict[str, Any], parallel: Path, tmp_path: Path, recorded: list[str]
) -> None:
    train(parallel, tmp_path / "run", 8, batch_tokens=400, **settings)
    assert not recorded


def test_what_has_changed_is_recorded_anew(
    parallel: Path, tmp_path: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a callback changes in the middle of a run counts, as without recordings."""
    calls: list[int] = []

    def changing(self: RecordedPasses, *given: Any) -> Any:
        network: Any = self._networks[0]
        if len(calls) == 14:
            network.decoder[0].inner.weight.requires_grad_(False)
        if len(calls) == 26:
            network.decoder[0].cross_norm.eps = 0.5
        if len(calls) == 38:
            weight = network.target_embedding.weight
            weight.data = weight.data.clone()
        if len(calls) == 50:
            network.target_embedding.weight.register_hook(lambda gradient: gradient * 0)
        calls.append(recorded.count("repeated"))
        return original(self, *given)

    original = RecordedPasses.__call__
    monkeypatch.setattr(RecordedPasses, "__call__", changing)
    actual = weights(train(parallel, tmp_path / "recorded", 54, validate_every=54))
    repeated = [calls[i] for i in (14, 26, 38, 50)]
    assert all(a < b for a, b in itertools.pairwise([0, *repeated]))
    assert calls[50] == calls[53], "a hook would not be called"
    calls.clear()
    monkeypatch.setattr(RecordedPasses, "clear", Passes.clear)
    monkeypatch.setattr(RecordedPasses, "_may_record", lambda self: False)
    expected = weights(train(parallel, tmp_path / "plain", 54, validate_every=54))
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=0, atol=0)


def test_a_weight_that_only_some_batches_use_has_no_gradient_in_others() -> None:
    """Nothing is recorded then: its gradient would be zero, by which AdamW decays it."""
    used, other = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))

    def compute(batch: Batch) -> Loss:
        total = (used * batch.source).sum() + (other.sum() if len(batch.source) > 2 else 0)
        return Loss(total, torch.tensor(1))

    computed = RecordedPasses(
        compute, [used, other], torch.device("cpu"), "float32", [torch.nn.Linear(1, 1)]
    )
    assert not computed._gradients
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordedPasses, "_has_memory", lambda self: True)
        patch.setattr(passes, "new_stream", lambda device: SimpleNamespace())
        patch.setattr(passes, "on_stream", lambda stream: contextlib.nullcontext())
        for rows in (1, 1, 3, 1):
            computed.clear()
            ones = torch.ones(rows, 2)
            computed(Batch(ones, ones > 0, ones.long(), torch.arange(rows)), 1)
            assert (other.grad is None) == (rows == 1)
    assert not computed._recorded
