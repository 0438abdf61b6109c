"""Hugging Face folders of T5: an imported folder is written again with the same weights and ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tests.interop.checkpoints import SOURCES, checkpoint
from tests.interop.t5_folder import SENTINELS, foreign_logits, imported, write_folder
from zoo.data.tokenizer import Tokenizer as ZooTokenizer
from zoo.errors import ConversionError
from zoo.interop.exporter import export_checkpoint
from zoo.registry.registry import default_registry

CASES: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, False, True),
    ({"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}, True, False),
    ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False),
    ({"decoder_start_token_id": 21}, False, True),  # the last row, which has no text
    ({"model_type": "umt5", "transformers_version": "5.23.0"}, False, True),
]
"""Values of `config.json`, whether the output has a matrix of its own, and whether it is scaled."""


def test_the_prefixes_of_tasks_are_written_again(tmp_path: Path) -> None:
    given = {
        "translation_en_to_de": {"prefix": "b a to c: ", "num_beams": 4},
        "summarization": {"prefix": "ab: "},
    }
    write_folder(tmp_path / "foreign", {"task_specific_params": given})
    made, out = imported(tmp_path / "foreign"), tmp_path / "exported"
    export_checkpoint(made, "huggingface", out, default_registry())
    config = json.loads((out / "config.json").read_text())
    prefixes = {name: values["prefix"] for name, values in config["task_specific_params"].items()}
    assert prefixes == {"translation_en_to_de": "b a to c: ", "ab:": "ab: "}
    tasks = {"a: ": ("en", "de"), "b: ": ("en", "de"), "c: ": ("eng_Latn", "")}
    for some in (tasks, {**made.about.tasks, "c: ": tasks["c: "]}, {"a: ": tasks["a: "]}):
        other = replace(made, about=replace(made.about, tasks=some))
        out = tmp_path / "".join(map(str.strip, some)).replace(":", "")
        export_checkpoint(other, "huggingface", out, default_registry())
        assert imported(out).about.tasks == some  # by the card where the names cannot have them


@pytest.mark.parametrize(("values", "own_output", "scaled"), CASES)
def test_an_imported_folder_is_written_again(
    tmp_path: Path, values: dict[str, Any], own_output: bool, scaled: bool
) -> None:
    tensors = write_folder(tmp_path / "foreign", values, own_output)
    made, out = imported(tmp_path / "foreign"), tmp_path / "exported"
    export_checkpoint(made, "huggingface", out, default_registry())
    written = load_file(out / "model.safetensors")
    assert {*written} <= {*tensors}
    assert all(torch.equal(written[name], tensors[name]) for name in written)
    for name in {*tensors} - {*written}:  # copies of the one matrix
        assert torch.equal(tensors[name], written["shared.weight"]), name
    config = json.loads((out / "config.json").read_text())
    assert config["scale_decoder_outputs"] is scaled
    foreign = json.loads((tmp_path / "foreign" / "config.json").read_text())
    for key in ("model_type", "d_model", "d_kv", "num_heads", "vocab_size", "eos_token_id"):
        assert config[key] == foreign[key]
    assert config["decoder_start_token_id"] == values.get("decoder_start_token_id", 0)
    texts = ["ein Hund", "a dog", "", "Ω <extra_id_0> x"]
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    settings = json.loads((out / "tokenizer_config.json").read_text())
    tokenizer.encode_special_tokens = settings["split_special_tokens"]  # as the library does
    table = {inner: i for i, inner in enumerate(made.source_tokenizer.engine.ids)}  # type: ignore[attr-defined]  # a foreign one
    expected = [[*(table[i] for i in ids), 1] for ids in made.source_tokenizer.encode(texts)]
    assert [encoding.ids for encoding in tokenizer.encode_batch(texts)] == expected
    assert settings["additional_special_tokens"] == SENTINELS
    written_ids = tokenizer.encode("<2de> a <extra_id_0> c").ids
    assert tokenizer.decode(written_ids, skip_special_tokens=True) == "<2de> a c"
    again = imported(out)
    assert again.source_tokenizer.encode(texts) == made.source_tokenizer.encode(texts)
    for name, weight in made.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight)
    assert again.config == made.config


@pytest.mark.parametrize("kind", ["bytes", "own codes"])
def test_byte_pair_codes_of_an_export_are_read_again(kind: str, tmp_path: Path) -> None:
    """ByT5, whose bytes an export writes as codes without merges, and a tokenizer of the zoo."""
    if kind == "bytes":
        write_folder(tmp_path / "foreign", {"vocab_size": 384})
        (tmp_path / "foreign" / "tokenizer.json").unlink()
        settings = {"tokenizer_class": "ByT5Tokenizer"}
        (tmp_path / "foreign" / "tokenizer_config.json").write_text(json.dumps(settings))
        made = imported(tmp_path / "foreign")
    else:
        made = checkpoint("t5", share="embeddings")
    export_checkpoint(made, "huggingface", tmp_path / "exported", default_registry())
    again = imported(tmp_path / "exported")
    texts = [*SOURCES, "</s> é <unk>", "<extra_id_3>", "", "漢字"]
    assert again.source_tokenizer.encode(texts) == made.source_tokenizer.encode(texts)
    for ids in made.source_tokenizer.encode(SOURCES):
        assert again.source_tokenizer.decode(ids) == made.source_tokenizer.decode(ids)
    for name, weight in made.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight), name


def test_byte_pair_codes_without_an_unknown_token_or_with_gaps_are_refused(tmp_path: Path) -> None:
    export_checkpoint(
        checkpoint("t5", share="embeddings"), "huggingface", tmp_path / "t5", default_registry()
    )
    file = tmp_path / "t5" / "tokenizer.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "model": {**content["model"], "unk_token": None}}))
    with pytest.raises(ConversionError, match=r"the unk_token of tokenizer\.json is not"):
        imported(tmp_path / "t5")
    vocab = {text: id + (id > 9) for text, id in content["model"]["vocab"].items()}
    file.write_text(json.dumps({**content, "model": {**content["model"], "vocab": vocab}}))
    with pytest.raises(ConversionError, match=r"vocabulary of tokenizer\.json has gaps in its ids"):
        imported(tmp_path / "t5")


@pytest.mark.parametrize("own_output", [False, True])
def test_a_tuned_checkpoint_gets_an_entry_from_which_the_decoder_starts(
    own_output: bool, tmp_path: Path
) -> None:
    values = {"tie_word_embeddings": not own_output}
    tensors = write_folder(tmp_path / "foreign", values, own_output)
    made, out = imported(tmp_path / "foreign"), tmp_path / "exported"
    with torch.no_grad():
        made.model.get_parameter("target_embedding.weight")[1] += 0.5
    export_checkpoint(made, "huggingface", out, default_registry())
    size = len(tensors["shared.weight"])
    config, generation = (
        json.loads((out / f"{kind}.json").read_text()) for kind in ("config", "generation_config")
    )
    assert config["decoder_start_token_id"] == size == config["vocab_size"] - 1
    assert generation["suppress_tokens"] == [0, 2, size]
    again = imported(out)
    assert again.source_tokenizer.encode(SOURCES) == made.source_tokenizer.encode(SOURCES)
    for name, weight in made.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight), name


def test_the_weights_of_a_checkpoint_give_its_logits_by_the_equations(tmp_path: Path) -> None:
    made = checkpoint("t5", share="embeddings", gated=False, activation="relu")
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    weights = load_file(tmp_path / "out" / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for text in SOURCES:
        source = torch.tensor(tokenizer.encode(text).ids)
        assert source.tolist() == [*made.source_tokenizer.encode([text])[0], 2]
        target = torch.tensor([config["decoder_start_token_id"], 9, 5, 11])
        expected = foreign_logits(weights, config, source, target, False)
        with torch.no_grad():
            mask = torch.ones(1, len(source), dtype=torch.bool)
            actual = made.model(source[None], mask, target[None]).logits[0]
        assert torch.allclose(actual, expected, atol=1e-4)


def test_what_it_cannot_express_is_refused_with_all_reasons(tmp_path: Path) -> None:
    made = checkpoint("t5", share="none", activation="gelu", layer_positions=True)
    made.source_tokenizer = made.target_tokenizer = ZooTokenizer.train(SOURCES, "byte", 300)
    with pytest.raises(ConversionError) as error:
        export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    for reason in (
        "share is none", "a gate with the exact gelu", "UMT5 scales", "its tokenizer is no pipeline"
    ):  # fmt: skip
        assert reason in str(error.value)
