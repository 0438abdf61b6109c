"""What a process has set as torch's default device and type changes no results."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.interop.checkpoints import SOURCES, checkpoint
from zoo.checkpoint.tensors import read_tensors
from zoo.interop import onnx_export
from zoo.interop.exporter import export_checkpoint
from zoo.registry.builtin import top
from zoo.registry.registry import default_registry
from zoo.translation.translator import Translator

FOLDER = top() / "cards" / "checkpoints" / "transformer-tiny.numbers-en-fr"
TEXTS = ["one", "four hundred and five"]
PAIRS = [("one", "un"), ("two", "deux"), ("three", "trois"), ("twenty", "zwanzig")] * 20
META = torch.device("meta")
"""A default device whose tensors have no values: what is made on it fails, as on a GPU."""


def results(precision: Any = "float32") -> list[Any]:
    """Return what a translator gives that is loaded now."""
    translator = zoo.load(FOLDER, device="cpu", precision=precision)
    options: list[dict[str, Any]] = [
        {}, {"beam": 3, "n_best": 2, "length_penalty": 0.6, "alignment": True},
        {"sample": True, "seed": 2, "temperature": 3.0, "n_best": 2},
    ]  # fmt: skip
    made: list[Any] = [translator.translate(TEXTS, details=True, **each) for each in options]
    made += [translator.translate(text, details=True) for text in TEXTS]  # each alone in a batch
    return [*made, translator.score(TEXTS, ["un", "deux"])]


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_the_default_device_does_not_matter(precision: str) -> None:
    expected = results(precision)
    with META:
        assert results(precision) == expected


def test_the_default_device_does_not_matter_to_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkpoint("seq2seq", layers=1)
    traced = functools.cache(onnx_export.graphs)  # the engine's export has the same graphs
    monkeypatch.setattr(onnx_export, "graphs", lambda *given: copy.deepcopy(traced(*given)))
    with META:
        export_checkpoint(made, "onnx", tmp_path / "onnx", default_registry())
        translated = Translator(made, engine="onnxruntime").translate(SOURCES, beam=2)
    assert translated == Translator(made).translate(SOURCES, beam=2)


def tuned(out: Path, objective: str) -> dict[str, torch.Tensor]:
    """Return the weights after two updates, with a vocabulary that grows."""
    settings = {"recipe.objective": objective}
    given: dict[str, Any] = {"from_": FOLDER, "steps": 2, "device": "cpu", "progress": False}
    made = zoo.train(None, PAIRS, out, settings=settings, extend_vocabulary="target", **given)
    return read_tensors(made / "model.safetensors")


@pytest.mark.parametrize("objective", ["cross_entropy", "minimum_risk"])
def test_training_does_not_depend_on_torchs_defaults(objective: str, tmp_path: Path) -> None:
    expected = tuned(tmp_path / "expected", objective)
    with META:
        made = {"device": tuned(tmp_path / "device", objective)}
    for default_type in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(default_type)
        try:
            made[str(default_type)] = tuned(tmp_path / str(default_type), objective)
        finally:
            torch.set_default_dtype(torch.float32)
    for default, weights in made.items():
        for name, weight in weights.items():
            assert weight.equal(expected[name]), (default, name)


def test_first_weights_do_not_depend_on_torchs_default_type(tmp_path: Path) -> None:
    settings = {"recipe.tokenizer": "word", "dim": 8, "heads": 2, "feedforward_dim": 8}

    def made(out: str) -> list[dict[str, torch.Tensor]]:
        given: dict[str, Any] = {"settings": settings, "steps": 2, "progress": False}
        folder = zoo.train("transformer-tiny", PAIRS, tmp_path / out, device="cpu", **given)
        torch.manual_seed(1)
        new = zoo.create_model("rnnsearch-tiny", source_vocab=9, target_vocab=9)
        return [read_tensors(folder / "model.safetensors"), new.state_dict()]

    expected = made("expected")
    torch.set_default_dtype(torch.float64)
    try:
        others = made("float64")
    finally:
        torch.set_default_dtype(torch.float32)
    for weights, other in zip(expected, others, strict=True):
        for name, weight in weights.items():
            assert weight.equal(other[name]), name


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_computes_gradients_where_they_are_off(mode: Any, tmp_path: Path) -> None:
    settings = {"recipe.tokenizer": "word", "hidden_dim": 8, "embedding_dim": 8}
    given: dict[str, Any] = {"settings": settings, "steps": 2, "progress": False}
    with mode():
        out = zoo.train("seq2seq-tiny", PAIRS, tmp_path / "out", **given)
        zoo.resume(out, steps=4, progress=False)
        model = zoo.load(out).checkpoint.model
        assert not torch.is_grad_enabled()
    source, target = torch.tensor([[4, 2]]), torch.tensor([[1]])
    model(source, source > 0, target).logits.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.fixture(params=[torch.bfloat16, torch.float64], ids=str)
def default_type(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


def test_weights_are_float32_whatever_the_default_type_is(default_type: torch.dtype) -> None:
    stored = read_tensors(FOLDER / "model.safetensors")
    for name, weight in zoo.load(FOLDER, device="cpu").checkpoint.model.named_parameters():
        assert weight.dtype is torch.float32, name
        assert weight.equal(stored[name]), name
    new = zoo.create_model("transformer-tiny", source_vocab=9, target_vocab=9, share="all")
    assert {weight.dtype for weight in new.parameters()} == {torch.float32}
    assert torch.get_default_dtype() is default_type


def test_the_default_type_does_not_matter_to_a_translator(default_type: torch.dtype) -> None:
    made = results()
    torch.set_default_dtype(torch.float32)
    assert made == results()
