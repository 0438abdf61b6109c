"""What an OpenNMT-py checkpoint may not hold is refused in one line, and nothing of it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.interop.opennmt_layout import (
    TRANSFORMER,
    Recurrent,
    Transformer,
    fields,
    tokens_of,
    write,
)
from tests.interop.test_fairseq import SIZES
from tests.interop.test_pickles import Runs
from zoo.errors import ZooError
from zoo.interop import pickles
from zoo.interop.conversion import import_checkpoint
from zoo.interop.settings import brief
from zoo.registry.registry import default_registry


def refused(folder: Path, **options: str) -> str:
    """Import a folder, and return the error, which is one line."""
    with pytest.raises(ZooError) as caught:
        import_checkpoint(folder, folder / "out", default_registry(), "opennmt", options)
    assert not (folder / "out").exists()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 12_000
    return str(caught.value)


def transformer(folder: Path, state: dict[str, Any] | None = None, **opt: Any) -> str:
    write(folder, Transformer({}).state() | (state or {}), TRANSFORMER | opt)
    return refused(folder)


def recurrent(folder: Path, version: int = 3, **opt: Any) -> str:
    network = Recurrent({"attention": "general"})
    write(folder, network.state(), network.settings() | opt, version)
    return refused(folder)


TRANSFORMERS: dict[str, Any] = {
    "max_relative_positions": -1, "relative_positions_buckets": 32, "layer_norm": "rms",
    "parallel_residual": True, "num_experts": 4, "sliding_window": 64, "decoder_type": "rnn",
    "copy_attn": True, "model_task": "lm", "generator_function": "sparsemax", "lora_layers": ["a"],
    "quant_layers": ["w_1"], "n_src_feats": 1,
}  # fmt: skip


def test_all_settings_of_a_transformer_without_a_counterpart_are_named(tmp_path: Path) -> None:
    message = transformer(tmp_path, **TRANSFORMERS, self_attn_type="average",
                          pos_ffn_activation_fn="silu", word_vec_size=8, dec_hid_size=5,
                          position_encoding_type="other")  # fmt: skip
    for name in (*TRANSFORMERS, "self_attn_type", "position_encoding_type"):
        assert f"its setting {name} = " in message or f"its {name} " in message
    assert "pos_ffn_activation_fn 'silu' has no counterpart: it has a gate" in message
    assert "its embeddings have not the width 16 of its layers" in message


RECURRENT: dict[str, Any] = {"global_attention_function": "sparsemax", "coverage_attn": True,
             "context_gate": "both", "copy_attn": True, "position_encoding": True}  # fmt: skip


def test_all_settings_of_a_recurrent_network_without_a_counterpart_are_named(
    tmp_path: Path,
) -> None:
    message = recurrent(tmp_path, **RECURRENT, rnn_type="SRU", global_attention="none",
                        encoder_type="mean", layers=-1, enc_layers=2, dec_layers=1)  # fmt: skip
    for name in RECURRENT:
        assert f"its setting {name} = " in message
    for part in ("rnn_type 'SRU'", "global_attention 'none'", "encoder_type 'mean'",
                 "its encoder has 2 layers and its decoder 1"):  # fmt: skip
        assert part in message


def test_networks_of_other_kinds_are_named_by_their_settings(tmp_path: Path) -> None:
    networks = {"transformer": Transformer({}).state(),
                "rnn": Recurrent({"attention": "general"}).state(),
                "cnn": {"encoder.cnn.x": torch.zeros(1), "decoder.linear.weight": torch.zeros(1),
                        "generator.bias": torch.zeros(1)}}  # fmt: skip
    path = "embeddings.make_embedding.emb_luts.0.weight"
    for encoder, decoder, fault in (
        ("transformer", "rnn", "its encoder_type 'transformer' has no counterpart"),
        ("rnn", "transformer", "its setting encoder_type = 'rnn' has no counterpart"),
        ("cnn", "cnn", "its setting decoder_type = 'cnn' has no counterpart"),
        ("", "transformer", "its setting model_task = 'lm' has no counterpart"),
    ):
        parts = {f"{side}.{path}": torch.zeros(1) for side in ("encoder", "decoder")}
        for side, kind in (("encoder", encoder), ("decoder", decoder), ("generator", decoder)):
            given = networks.get(kind, {})
            parts |= {name: value for name, value in given.items() if name.startswith(side)}
        opt = {"encoder_type": encoder, "decoder_type": decoder} if encoder else {
            "model_task": "lm"}  # fmt: skip
        write(tmp_path, parts, TRANSFORMER | opt)
        assert fault in refused(tmp_path)


def test_an_old_bridge_of_several_layers_is_refused(tmp_path: Path) -> None:
    assert "mixes the sentences of a batch" in recurrent(tmp_path, version=2, bridge=True)


def test_all_faults_of_tensors_are_named(tmp_path: Path) -> None:
    norm = "encoder.transformer.0.layer_norm"
    state = {f"{norm}.bias": torch.zeros(1), f"{norm}.weight": torch.full((16,), torch.nan),
             "more": torch.zeros(1), "generator.bias": "text", "decoder.layer_norm.weight": None,
             "encoder.embeddings.make_embedding.pe.pe": torch.zeros(9, 1, 16)}  # fmt: skip
    message = transformer(tmp_path, state)
    for part in (f"{norm}.bias is (1,), not (16,)", f"{norm}.weight holds values that are not",
                 "more is not a tensor", "generator.bias is not a tensor",
                 "pe.pe holds other sinusoids"):  # fmt: skip
        assert part in message


SIZES_OF_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"heads": 10**500}, "its setting heads is <a large number>, not a number"),
    ({"heads": "many"}, "its setting heads is 'many', not a number"),
    ({"heads": float("inf")}, "its setting heads is inf, not a number"),
    ({"heads": 3}, "its width 16 is no multiple of 3 heads"),
    ({"num_kv": 3}, "its 4 heads are no multiple of its 3 heads of keys"),
    ({"enc_layers": 10**9}, "encoder_layers"),
    ({"transformer_ff": 10**9}, "feedforward_dim"),
    ({"enc_layers": -3}, "encoder_layers"),
    ({"norm_eps": "nan"}, "norm_epsilon"),
    ({"share_embeddings": True}, "its embeddings are shared, but the vocabularies differ"),
    ({"encoder_type": ["x" * 10_000] * 10_000}, "its setting encoder_type = ['xxx"),
]


@pytest.mark.parametrize(("opt", "message"), SIZES_OF_SETTINGS, ids=brief)
def test_sizes_that_do_not_fit_are_refused(
    opt: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in transformer(tmp_path, **opt)


def test_settings_that_multiply_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickles, "MOST_VALUES", 10_000)
    value: list[Any] = ["x"]
    for _ in range(19):
        value = [value] * 9
    assert "its settings have more than 10,000 values" in transformer(tmp_path, extra=value)


VOCABULARIES: list[tuple[dict[str, Any], str]] = [
    ({"src": tokens_of(SIZES[0] + 1, "a")}, "emb_luts.0.weight is (19, 16), not (20, 16)"),
    ({"tgt": tokens_of(SIZES[1] - 1, "b")}, "generator.weight is (15, 16), not (14, 16)"),
    ({"tgt": [*tokens_of(14, "b"), "b3"]}, "the vocabulary tgt has 'b3' twice"),
    ({"tgt": tokens_of(19, "b")[4:]}, "the vocabulary tgt has no <blank>, <s>, </s>, <unk>"),
    ({"src": tokens_of(23, "b")[4:]}, "the vocabulary src has no <blank>, <unk>"),
    ({"src": "text"}, "its vocabulary src is not a list of tokens"),
    ({"src": [*tokens_of(18, "a"), 7]}, "its vocabulary src is not a list of tokens"),
    ({"tgt": None}, "its vocabulary tgt is not a list of tokens"),
    ({"tgt": [*tokens_of(14, "b"), "\ud800"]}, "its vocabulary tgt has half of a surrogate pair"),
    ({"tgt": []}, "the vocabulary tgt has no <blank>"),
    ({"src_feats": [["x"]]}, "its source has features besides words"),
    ({"data_task": "lm"}, "its task is 'lm'"),
    ({"decoder_start_token": "b99"}, "its decoder_start_token 'b99' is not in the vocabulary tgt"),
    ({"decoder_start_token": 3}, "its decoder_start_token 3 is not in the vocabulary tgt"),
    ({"tgt": fields([], "tgt")}, "the vocabulary tgt has no <blank>"),
]


@pytest.mark.parametrize(("vocab", "message"), VOCABULARIES, ids=brief)
def test_vocabularies_that_do_not_fit_are_refused(
    vocab: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path, Transformer({}).state(), TRANSFORMER, **vocab)
    assert message in refused(tmp_path)


@pytest.mark.parametrize("vocab", [None, [1, 2], {"src": {}}, [("src", 1)], "x", {"tgt": [[]]}])
def test_what_is_no_vocabulary_is_refused(vocab: Any, tmp_path: Path) -> None:
    state = Transformer({}).state()
    torch.save({"model": state, "opt": {"a": 1}, "vocab": vocab}, tmp_path / "m.pt")
    assert "is not a list of tokens" in refused(tmp_path)


def test_features_of_version_2_are_refused(tmp_path: Path) -> None:
    words = fields(tokens_of(SIZES[0], "a"), "src")
    words.__dict__["fields"] *= 2
    write(tmp_path, Transformer({}).state(), TRANSFORMER, src=words)
    assert "its src has features besides words" in refused(tmp_path)


@pytest.mark.parametrize("where", ["opt", "vocab", "model", "optim"])
def test_a_pickle_that_calls_is_refused(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"model": Transformer({}).state(), "opt": {}, "vocab": {}, "optim": {}}
    content[where]["x"] = Runs(os.system, "touch ran")
    torch.save(content, tmp_path / "m.pt")
    assert "posix.system: reading it could run code" in refused(tmp_path, checkpoint="m.pt")
    assert not (tmp_path / "ran").exists()


TEXTS: list[tuple[dict[str, Any], str]] = [
    ({"transforms": ["bpe"], "src_subword_model": "/x/a.codes"},
     "it has no a.codes, which its settings name: put the file there, or split text before, and "
     "say --option source_subwords=none"),
    ({"transforms": ["sentencepiece"]}, "it has no subwords, which its settings name"),
    ({"transforms": ["prefix", "normalize", "clean"]},
     "its transforms prefix, normalize have no counterpart: prepare text by them, and say --option "
     "pretokenized=yes"),
    ({"transforms": ["onmt_tokenize"], "src_onmttok_kwargs": {"mode": "aggressive"},
      "src_subword_type": "bpe"}, "its src_onmttok_kwargs {'mode': 'aggressive'} have no"),
    ({"transforms": ["onmt_tokenize"],
      "src_onmttok_kwargs": "__import__('os').system('touch ran')"},
     "its src_onmttok_kwargs None have no counterpart"),
    ({"transforms": ["bpe"], "src_subword_model": "/x/model_step_10.pt"}, "model_step_10.pt"),
    ({"transforms": ["bpe"], "src_subword_vocab": "v", "src_vocab_threshold": 50},
     "its src_subword_vocab has no counterpart"),
]  # fmt: skip


@pytest.mark.parametrize(("opt", "message"), TEXTS, ids=brief)
def test_transforms_without_a_counterpart_are_refused(
    opt: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in recurrent(tmp_path, share_vocab=True, **opt)
    assert not (tmp_path / "ran").exists()


def test_prepared_text_needs_no_transforms(tmp_path: Path) -> None:
    network = Recurrent({"attention": "general"})
    opt = {"transforms": ["prefix", "onmt_tokenize", "bpe"]}
    write(tmp_path, network.state(), network.settings() | opt)
    assert "it has no subwords" in refused(tmp_path, pretokenized="yes")
    given = {"pretokenized": "yes", "source_subwords": "none", "target_subwords": "none"}
    import_checkpoint(tmp_path, tmp_path / "out", default_registry(), "opennmt", given)


def test_weights_apart_may_be_missing_damaged_or_twice(tmp_path: Path) -> None:
    write(tmp_path, Transformer({}).state(), TRANSFORMER, apart=True)
    tensors = tmp_path / "model_step_10.safetensors"
    content = tensors.read_bytes()
    (tmp_path / "model_step_10.00.safetensors").write_bytes(content)
    assert "is in several files" in refused(tmp_path)
    (tmp_path / "model_step_10.00.safetensors").unlink()
    tensors.write_bytes(content[:-5])
    assert "model_step_10.safetensors cannot be read: its header describes" in refused(tmp_path)
    tensors.unlink()
    fault = "model_step_10.pt has no tensors, and no safetensors beside it. Copy model_step_10*"
    assert fault in refused(tmp_path)
    write(tmp_path, Recurrent({"attention": "dot"}).state(), {"decoder_type": "rnn"}, apart=True)
    tensors.unlink()
    assert fault in refused(tmp_path)


def test_several_checkpoints_need_a_choice(tmp_path: Path) -> None:
    write(tmp_path, Transformer({}).state(), TRANSFORMER)
    (tmp_path / "model_step_20.pt").write_bytes(b"")
    assert "Choose one, such as --option checkpoint=model_step_10.pt" in refused(tmp_path)
    registry = default_registry()
    import_checkpoint(
        tmp_path, tmp_path / "out", registry, "opennmt-transformer",
        {"checkpoint": "model_step_10.pt"},
    )  # fmt: skip
    assert import_checkpoint(tmp_path / "model_step_10.pt", tmp_path / "again", registry)
