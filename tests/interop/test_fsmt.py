"""FSMT's folders: the same logits, ids and texts, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import zoo
from tests.interop.changes import Change, content, json_file, tensors
from tests.interop.families import Rules, reference, write
from tests.interop.refused import require_refused
from zoo.checkpoint.checkpoint import read
from zoo.errors import ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.nn.contract import BEGIN
from zoo.registry.registry import default_registry

RULES = Rules(
    False, "fairseq", first=2, bias=False, output="model.decoder.output_projection.weight"
)
MERGES = [
    "h u 9", "hu n 8", "hun d</w> 7", "l a 6", "a n 5", "d o 4", "do g</w> 3", "l a 2",
    "& a 1", "&a p 1", "&ap o 1", "&apo s 1", "&apos ; 1", "&apos; s</w> 1",
    "& q 1", "&q u 1", "&qu o 1", "&quo t 1", "&quot ;</w> 1", "@ - 1", "@- @</w> 1",
]  # fmt: skip
POSITIONS = "model.encoder.embed_positions.weight"
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = {
    "src": (*"hundla.,'", *"hundla.,'&", "hund</w>", "do", "dog</w>", "la", "&apos;s</w>", "A</w>"),
    "tgt": (*"hundlafo.", "hund</w>", "ein</w>", "dog</w>", "läuft</w>", "la", ".</w>", "e", "i",
            "n</w>", "@-@</w>", "&quot;</w>"),
}  # fmt: skip


def fsmt(folder: Path, tied: str = "output", joined: bool = False, **values: Any) -> Any:
    """Write a folder; return its configuration and weights."""
    folder.mkdir()
    (folder / "merges.txt").write_text("\n".join(MERGES) + "\n")
    sizes = []
    for side, words in WORDS.items():
        names = dict.fromkeys([*SPECIALS, *(WORDS["src"] if joined else words)])
        ids = {name: i for i, name in enumerate(names)}
        (folder / f"vocab-{side}.json").write_text(json.dumps(ids))
        sizes.append(len(ids))
    config = {"model_type": "fsmt", "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0,
              "decoder_start_token_id": 2, "activation_function": "relu", "langs": ["en", "de"],
              "scale_embedding": True, "src_vocab_size": sizes[0], "tgt_vocab_size": sizes[1],
              "num_beams": 5, "length_penalty": 1.1, "max_length": 200}  # fmt: skip
    settings = {"langs": ["en", "de"], "do_lower_case": False}
    return write(folder, RULES, (sizes[0], sizes[1]), settings, tied, **config | values)


@pytest.mark.parametrize(("tied", "values", "share"), [
    ("output", {}, "target"), ("", {"scale_embedding": False}, "none"),
    ("all", {"tie_word_embeddings": True, "activation_function": "gelu"}, "all"),
])  # fmt: skip
def test_logits_equal_the_reference(
    tied: str, values: dict[str, Any], share: str, tmp_path: Path
) -> None:
    config, weights = fsmt(tmp_path / "a", tied, joined=tied == "all", **values)
    if tied == "output":  # version 4 of the library saves only this one of two equal matrices
        tensors = safetensors.torch.load_file(tmp_path / "a" / "model.safetensors")
        del tensors["model.decoder.embed_tokens.weight"]
        safetensors.torch.save_file(tensors, tmp_path / "a" / "model.safetensors")
    assert import_checkpoint(tmp_path / "a", tmp_path / "b", default_registry()) == "fsmt"
    checkpoint = read(tmp_path / "b", default_registry())
    model = checkpoint.model.double()
    assert checkpoint.config.model_dump()["share"] == share
    orders = [
        torch.tensor([4, 0, 2, 3, *range(5, config[f"{side}_vocab_size"] + 1)])
        for side in ("src", "tgt")
    ]
    torch.manual_seed(1)
    sources = [torch.randint(4, len(orders[0]), (n,)) for n in (5, 2, 7)]
    target = torch.randint(4, len(orders[1]), (3, 6))
    target[:, 0] = 2
    batch = torch.zeros(3, 7, dtype=torch.long)
    for row, source in zip(batch, sources, strict=True):
        row[: len(source)] = orders[0][source]
    inputs = orders[1][target]
    inputs[:, 0] = BEGIN
    with torch.inference_mode():
        logits = model(batch, batch > 0, inputs).logits
    for row, source, given in zip(logits, sources, target, strict=True):
        expected = reference(weights, config, RULES, source, given)
        torch.testing.assert_close(row[:, orders[1]], expected, rtol=0, atol=1e-10)
    assert float(logits[..., BEGIN].max()) < -9000, "begin has no probability"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_stored_table_of_sinusoids_may_be_rounded(dtype: torch.dtype, tmp_path: Path) -> None:
    fsmt(tmp_path / "a")
    rate = 10000 ** (-torch.arange(6, dtype=torch.float64) / 5)
    angle = torch.arange(40)[:, None] * rate
    table = torch.cat([angle.sin(), angle.cos()], 1)
    table[1] = 0  # the row of padding, which is not read
    tensors(lambda w: w.update({POSITIONS: table.to(dtype)}))(tmp_path / "a")
    assert zoo.load(tmp_path / "a").checkpoint.config.model_dump()["positions"] == "fairseq"


def test_text_is_cut_as_moses_and_the_codes_do(tmp_path: Path) -> None:
    fsmt(tmp_path / "a")
    import_checkpoint(tmp_path / "a", tmp_path / "b", default_registry())
    checkpoint = read(tmp_path / "b", default_registry())
    source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer

    def parts(text: str) -> list[str]:
        return [source.token(i) for i in source.encode([text])[0]]

    assert parts("hund dog") == ["hund</w>", "dog</w>"]
    assert parts("A hund's") == ["A</w>", "hund</w>", "&apos;s</w>"]
    assert parts("hun") == ["<unk>", "<unk>"], "neither hu nor n</w> is an entry"
    # of equal lines the last counts, so that "l a" comes after "a n"
    assert source.engine.codes.cut("lanx") == ["l", "an", "x</w>"]  # type: ignore[attr-defined]
    assert parts("") == []
    assert len(parts("</s>")) > 3, "special tokens are text: &lt; / s &gt;"
    assert parts("hund\x00hund，") == [*parts("hundhund,")], "Moses' normalizer"
    quoted = target.encode(["ein „hund“ hund-hund."])[0]
    assert target.decode(quoted) == 'ein "hund" hund-hund.'
    assert checkpoint.about.source_languages == ("en",)
    assert checkpoint.about.target_languages == ("de",)
    assert checkpoint.about.decoding == {"beam": 5, "length_penalty": 1.1, "max_length": 199}
    again = type(source).parse(json.loads(source.to_json()), "x")  # type: ignore[attr-defined]
    assert again.encode(["A hund's, dog"]) == source.encode(["A hund's, dog"])


def test_without_the_library_the_command_that_installs_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsmt(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ZooError, match=r"needs the library sacremoses.*seq2seq-zoo\[moses\]"):
        zoo.load(tmp_path / "a")


FAULTS: dict[str, tuple[Change, str]] = {
    "a pipeline instead of Moses": (
        lambda f: [(f / "tokenizer.json").write_text("{}"),
                   json_file("tokenizer_config.json", tokenizer_class="TokenizersBackend")(f)],
        "tokenizer_class 'TokenizersBackend' reads tokenizer.json, and not Moses' tokens"),
    "a table that is none of sinusoids": (
        tensors(lambda w: w.update({POSITIONS: torch.ones(9, 12)})),
        "embed_positions.weight is not the table of sinusoids"),
    "a table without columns": (
        tensors(lambda w: w.update({POSITIONS: torch.ones(9, 0)})),
        "embed_positions.weight is not the table of sinusoids"),
    "a wrong shape": (
        tensors(lambda w: w.update({"model.encoder.embed_tokens.weight": torch.ones(3, 12)})),
        r"embed_tokens.weight is \(3, 12\), not"),
    "one matrix for two vocabularies": (
        json_file("config.json", tie_word_embeddings=True),
        "tie_word_embeddings needs one vocabulary, not of 20 and 24 entries"),
    "no pair of languages": (
        json_file("tokenizer_config.json", langs=["en", "../de"]), "is not a pair of languages"),
    "languages that are no list": (
        json_file("tokenizer_config.json", langs="en"), "is not a pair of languages"),
    "lowercase of another type": (
        json_file("tokenizer_config.json", do_lower_case="no"), "do_lower_case is 'no'"),
    "two unknown tokens": (
        json_file("vocab-tgt.json", **{"<unk>": 7}), "do not give <unk> one id"),
    "an id twice": (json_file("vocab-src.json", more=5), "gives 'more' the id 5"),
    "an id out of bounds": (json_file("vocab-src.json", more=10**6), "the embedding has"),
    "a start without a position": (
        json_file("config.json", decoder_start_token_id=1), "its decoder starts with padding"),
    "another end": (json_file("config.json", eos_token_id=7), "gives </s> the id 2, not 7"),
    "a type": (json_file("config.json", src_vocab_size="x"), "src_vocab_size is 'x'"),
    "no merges": (lambda folder: (folder / "merges.txt").unlink(), "it has no merges.txt"),
    "merges that are no text": (
        content("merges.txt", b"\xff\xff"), "merges.txt"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    fsmt(tmp_path / "a")
    change, message = FAULTS[fault]
    change(tmp_path / "a")
    require_refused(tmp_path / "a", message)
