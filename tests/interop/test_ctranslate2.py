"""CTranslate2 gives the probabilities of the checkpoint that was exported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from click.testing import Result

import zoo
from tests.interop.checkpoints import SOURCES, TARGETS, checkpoint, write
from zoo.errors import CheckpointError, ConversionError, MissingPackageError
from zoo.interop.exporter import export_checkpoint
from zoo.registry.registry import default_registry
from zoo.translation.translator import Translator

CONFIGS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, all shared": {"norm": "pre", "share": "all"},
    "target shared, unscaled": {"share": "target", "scale_embeddings": False},
    "no biases": {"attention_bias": False, "output_bias": False},
    "gelu, fairseq's positions": {"activation": "gelu", "positions": "fairseq"},
    "as in mBART": {
        "norm": "pre", "share": "all", "positions": "learned", "position_offset": 2,
        "embedding_norm": True, "activation": "gelu", "max_source_positions": 40,
        "max_target_positions": 50,
    },
    "a last norm after post-norm": {"final_norm": True, "norm_epsilon": 1e-3},
    "no last norm": {"norm": "pre", "final_norm": False, "activation": "silu"},
    "no positions, tanh": {"positions": "none", "activation": "tanh", "share": "embeddings"},
    "gelu_tanh, with an offset": {"activation": "gelu_tanh", "position_offset": 3},
    "without the source's end": {"source_end": False},
    "more layers below": {"encoder_layers": 1, "decoder_layers": 3, "norm": "pre"},
}  # fmt: skip


SHARED = ("all", "embeddings")
VOCABULARIES = [(name, True) for name in CONFIGS]
VOCABULARIES += [(name, False) for name in CONFIGS if CONFIGS[name].get("share") not in SHARED]


@pytest.mark.parametrize(("name", "shared"), VOCABULARIES)
def test_log_probabilities_are_equal(name: str, shared: bool, tmp_path: Path) -> None:
    made = checkpoint("transformer", shared=shared, **CONFIGS[name])
    export_checkpoint(made, "ctranslate2", tmp_path / "out", default_registry())
    engine = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", intra_threads=1)
    source, target = made.source_tokenizer, made.target_tokenizer
    scored = engine.score_batch(
        [[source.token(i) for i in ids] for ids in source.encode(SOURCES)],
        [[target.token(i) for i in ids] for ids in target.encode(TARGETS)],
    )
    expected = Translator(made).score(SOURCES, TARGETS)
    for actual, log_probs in zip(scored, expected, strict=True):
        assert torch.tensor(actual.log_probs) == pytest.approx(torch.tensor(log_probs), abs=1e-4)


T5: dict[str, dict[str, Any]] = {
    "gated, all shared": {"share": "all", "scale_output": True},
    "untied, relu": {"share": "embeddings", "gated": False, "activation": "relu"},
    "a table for each layer": {"layer_positions": True, "activation": "silu", "head_dim": 8},
}


@pytest.mark.parametrize("name", T5)
def test_t5_gives_equal_log_probabilities_and_translations(name: str, tmp_path: Path) -> None:
    made = checkpoint("t5", **T5[name])
    export_checkpoint(made, "ctranslate2", tmp_path / "out", default_registry())
    engine = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", intra_threads=1)
    source, target = made.source_tokenizer, made.target_tokenizer
    targets = [" ".join(TARGETS * 3), *TARGETS[1:]]  # beyond the buckets' largest distance
    scored = engine.score_batch(
        [[source.token(i) for i in ids] for ids in source.encode(SOURCES)],
        [[target.token(i) for i in ids] for ids in target.encode(targets)],
    )
    for actual, log_probs in zip(scored, Translator(made).score(SOURCES, targets), strict=True):
        assert torch.tensor(actual.log_probs) == pytest.approx(torch.tensor(log_probs), abs=1e-4)
    searched = Translator(made, engine="ctranslate2").translate(SOURCES, max_length=9)
    assert searched == Translator(made).translate(SOURCES, max_length=9)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_precision_makes_the_file_smaller(precision: str, tmp_path: Path) -> None:
    made = checkpoint("transformer", dim=64, feedforward_dim=128)
    before = {name: weight.clone() for name, weight in made.model.state_dict().items()}
    given = "bf16" if precision == "bfloat16" else precision  # as `zoo translate` calls it
    export_checkpoint(made, "ctranslate2", tmp_path / "out", default_registry(), given)
    assert all(torch.equal(before[name], now) for name, now in made.model.state_dict().items())
    sizes = {"float32": 4, "bfloat16": 2, "int8": 1}
    weights = sum(weight.numel() for weight in made.model.parameters())
    weights += 4096 * 64  # the table of positions, which both sides share
    size = (tmp_path / "out" / "model.bin").stat().st_size
    # In int8, biases, norms and positions stay float32.
    assert size == pytest.approx(weights * sizes[precision], rel=0.1) or (
        precision == "int8" and size < weights * 3
    )
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"Precision: {precision}" in card
    assert f"| model.bin | {size:,} |" in card
    assert "Languages: en to de" in card
    assert "Terms: CC0-1.0" in card


def test_what_it_cannot_express_is_refused_with_all_reasons(tmp_path: Path) -> None:
    made = checkpoint("transformer", norm="branch", unbiased_norm=True)
    with pytest.raises(ConversionError) as error:
        export_checkpoint(made, "ctranslate2", tmp_path / "out", default_registry(), "int4")
    for reason in ("'int4'", "norm is branch", "unbiased_norm"):
        assert reason in str(error.value)
    assert not list(tmp_path.iterdir())


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="ctranslate2 has no exporter for convs2s"):
        export_checkpoint(
            checkpoint("convs2s"), "ctranslate2", tmp_path / "out", default_registry()
        )


def test_a_missing_package_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'seq2seq-zoo\[ctranslate2\]'"):
        export_checkpoint(
            checkpoint("transformer"), "ctranslate2", tmp_path / "out", default_registry()
        )
    assert not list(tmp_path.iterdir())


def test_the_command_and_the_function_export_alike(
    tmp_path: Path, run: Callable[..., Result]
) -> None:
    folder = write(checkpoint("transformer"), tmp_path / "toy")
    result = run("export", folder, "--format", "ctranslate2", "--out", tmp_path / "one")
    assert result.exit_code == 0, result.output
    assert zoo.export(folder, "ctranslate2", tmp_path / "two") == tmp_path / "two"
    names = {file.name for file in (tmp_path / "one").iterdir()}
    assert names == {file.name for file in (tmp_path / "two").iterdir()}
    assert {"README.md", "model.bin", "config.json", "tokenizer.json"} <= names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    again = run("export", folder, "--format", "ctranslate2", "--out", tmp_path / "one")
    assert again.exit_code == 1
    assert "already exists" in again.output
    below = tmp_path / "one" / "README.md" / "two"
    with pytest.raises(CheckpointError, match=r"README.md/two cannot be written: .*Choose another"):
        zoo.export(folder, "ctranslate2", below)
