"""Tokens that users add to a tokenizer, what surrounds a text, and where outputs end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    ByteLevelBPETokenizer,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
)

import zoo
from tests.interop.huggingface import marian
from tests.interop.t5_folder import PIECES, tokenizer_json, write_folder
from tests.interop.t5_folder import imported as imported_t5
from tests.interop.test_families import folder_of, imported, names_of
from tests.interop.test_fsmt import fsmt
from tests.interop.test_huggingface import folder_of as folder_of_export
from tests.interop.test_t5 import sentencepiece_model
from zoo.data.foreign_tokenizer import ForeignTokenizer
from zoo.errors import ConversionError, ConversionWarning
from zoo.files import read_json
from zoo.interop import source
from zoo.interop.conversion import import_checkpoint
from zoo.interop.exporter import export_checkpoint
from zoo.interop.framing import Frame, stated_frame
from zoo.registry.registry import default_registry

GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}


def edit(file: Path, **values: Any) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**content, **values}))


def bart_with_pipeline(folder: Path, added: list[AddedToken]) -> ByteLevelBPETokenizer:
    """Write BART with a `tokenizer.json` as transformers does; return the library's tokenizer.

    The last entries of the vocabulary are replaced by the added tokens.
    """
    folder_of(folder, "bart")
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    names = names_of("bart")
    names[len(names) - len(added) :] = [token.content for token in added]
    vocabulary.write_text(json.dumps({name: i for i, name in enumerate(names)}))
    lines = merges.read_text().splitlines()
    merges.write_text("".join(f"{line}\n" for line in lines[: len(lines) - len(added)]))
    made = ByteLevelBPETokenizer(str(vocabulary), str(merges))
    made.add_special_tokens(["<s>", "</s>", "<pad>", "<unk>", AddedToken("<mask>", lstrip=True)])
    made.add_special_tokens(added)
    made._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.save(str(folder / "tokenizer.json"))
    return made


def test_each_json_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(file: Path, limit: int) -> dict[str, Any]:
        parsed.append(file.name)
        return read_json(file, limit)

    monkeypatch.setattr(source, "read_json", counted)
    bart_with_pipeline(tmp_path / "bart", [])
    write_folder(tmp_path / "t5")
    for name in ("bart", "t5"):
        import_checkpoint(tmp_path / name, tmp_path / f"{name}.zoo", default_registry())
        assert "tokenizer.json" in parsed
        assert len(parsed) == len({*parsed})
        parsed.clear()


def test_added_special_tokens_are_found_in_a_text_as_the_library_finds_them(
    tmp_path: Path,
) -> None:
    made = bart_with_pipeline(tmp_path / "a", [AddedToken("<hl>")])
    checkpoint = imported(tmp_path / "a")
    tokenizer = checkpoint.source_tokenizer
    for text in ("a <hl>dog<hl> runs", "a <mask> runs"):
        (ids,) = tokenizer.encode([text])
        pieces = [tokenizer.token(i) for i in ids[1:]]
        expected = [made.id_to_token(i) for i in made.encode(text).ids[1:-1]]
        assert [piece.replace("▁", "Ġ") for piece in pieces] == expected
    (ids,) = tokenizer.encode(["a </s> <s> <pad> <unk>"])
    assert min(ids[1:]) > 3, "the texts of special tokens are text"
    assert tokenizer.decode(tokenizer.encode(["a <hl>dog"])[0]) == "a dog"


@pytest.mark.parametrize("split", [False, True])
def test_an_export_keeps_special_tokens_that_texts_may_have(split: bool, tmp_path: Path) -> None:
    original = bart_with_pipeline(tmp_path / "a", [AddedToken("<hl>")])._tokenizer
    edit(tmp_path / "a" / "tokenizer_config.json", split_special_tokens=split)
    made = imported(tmp_path / "a")
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["split_special_tokens"] == split
    assert settings.get("mask_token") == (None if split else "<mask>")
    assert settings.get("additional_special_tokens") == (None if split else ["<hl>"])
    written = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    original.encode_special_tokens = written.encode_special_tokens = split  # as the library does
    texts = ["a <hl> dog<hl>", "<mask> runs", "a <mask>"]
    expected = [encoding.ids for encoding in original.encode_batch(texts)]
    assert [encoding.ids for encoding in written.encode_batch(texts)] == expected
    again = imported(tmp_path / "out")
    for text in (*texts, "a </s> dog"):
        (ids,) = made.source_tokenizer.encode([text])
        assert again.source_tokenizer.encode([text]) == [ids]
        assert again.source_tokenizer.decode(ids) == made.source_tokenizer.decode(ids)


def test_a_generic_tokenizer_frames_a_text_by_its_file(tmp_path: Path) -> None:
    bart_with_pipeline(tmp_path / "a", [])
    edit(tmp_path / "a" / "tokenizer_config.json", **GENERIC)
    first = names_of("bart").index("<s>")
    (ids,) = imported(tmp_path / "a").source_tokenizer.encode(["dog"])
    assert len(ids) > 1
    end = {"type": "TemplateProcessing", "pair": [], "single": [
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}  # fmt: skip
    assert first == 0
    bart_with_pipeline(tmp_path / "b", [])
    edit(tmp_path / "b" / "tokenizer_config.json", **GENERIC)
    edit(tmp_path / "b" / "tokenizer.json", post_processor=end)
    assert imported(tmp_path / "b").source_tokenizer.encode(["dog"]) == [ids[1:]]
    bart_with_pipeline(tmp_path / "c", [])
    edit(tmp_path / "c" / "tokenizer_config.json", **GENERIC)
    edit(tmp_path / "c" / "tokenizer.json", post_processor=None)
    with pytest.raises(ConversionError, match="does not put the end token after a text"):
        imported(tmp_path / "c")


def test_a_generic_tokenizer_puts_the_tag_of_its_file_before_a_text(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "nllb")
    names = names_of("nllb")
    tags = [names.index(tag) for tag in ("eng_Latn", "fra_Latn")]
    pieces = {name: i for i, name in enumerate(names)}
    made = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    made.add_special_tokens([names[i] for i in (0, 1, 2, 3, *tags)])
    edit(tmp_path / "a" / "tokenizer_config.json", **GENERIC)
    for tag, fine in zip(tags, (True, False), strict=True):
        made.post_processor = processors.TemplateProcessing(
            f"{names[tag]} $A </s>", special_tokens=[(names[tag], tag), ("</s>", 2)]
        )
        made.save(str(tmp_path / "a" / "tokenizer.json"))
        if fine:
            assert imported(tmp_path / "a").source_tokenizer.tags
            continue
        (tmp_path / "a").rename(tmp_path / "b")
        with pytest.raises(ConversionError, match="name its language with --option source-lang"):
            imported(tmp_path / "b")
        assert imported(tmp_path / "b", source_lang="fra_Latn").source_tokenizer.tags


@pytest.mark.parametrize("before", [False, True])
def test_a_generic_tokenizer_of_marian_frames_a_text_by_its_file(
    before: bool, tmp_path: Path
) -> None:
    marian(tmp_path / "a")
    ids = json.loads((tmp_path / "a" / "vocab.json").read_text())
    first = next(name for name, i in ids.items() if i == 5)
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.add_special_tokens(["</s>", "<unk>", "<pad>", first])
    special = [("</s>", 0), (first, 5)]
    template = f"{first} $A </s>" if before else "$A </s>"
    made.post_processor = processors.TemplateProcessing(template, special_tokens=special)
    made.save(str(tmp_path / "a" / "tokenizer.json"))
    edit(tmp_path / "a" / "tokenizer_config.json", **GENERIC)
    tokenizer = imported(tmp_path / "a").source_tokenizer
    (encoded,) = tokenizer.encode(["x"])
    assert [tokenizer.token(i) for i in encoded] == [first] * before + ["<unk>"]
    edit(tmp_path / "a" / "tokenizer.json", post_processor=None)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(ConversionError, match="does not put the end token after a text"):
        imported(tmp_path / "b")


def test_a_text_of_bart_begins_with_the_tokens_of_its_tokenizer(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "bart")
    first = names_of("bart")[50]
    edit(tmp_path / "a" / "config.json", bos_token_id=77)  # which only a decoder may start from
    edit(tmp_path / "a" / "tokenizer_config.json", cls_token={"content": first})
    tokenizer = imported(tmp_path / "a").source_tokenizer
    (ids,) = tokenizer.encode(["dog"])
    assert tokenizer.token(ids[0]) == first.replace("Ġ", "▁")


@pytest.mark.parametrize("family", ["bart", "pegasus", "mbart", "m2m100"])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_special_tokens_without_an_id_are_refused(family: str, file: str, tmp_path: Path) -> None:
    folder_of(tmp_path / "a", family)
    usual = {"bart": ["<mask>"], "pegasus": ["<unk_2>"]}.get(family, [])
    edit(tmp_path / "a" / file, additional_special_tokens=usual, mask_token="<mask>")
    imported(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    edit(tmp_path / "b" / file, additional_special_tokens=[*usual, {"content": "<hl>"}],
         mask_token={"content": "[MASK]"})  # fmt: skip
    message = r"added tokens \(<hl>, \[MASK\]\), which need tokenizer.json"
    with pytest.raises(ConversionError, match=message):
        imported(tmp_path / "b")


def test_tokens_that_were_added_to_byte_pair_codes_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "bart")
    edit(tmp_path / "a" / "added_tokens.json", **{names_of("bart")[-1]: 280})
    with pytest.raises(ConversionError, match=r"which need tokenizer\.json"):
        imported(tmp_path / "a")
    fsmt(tmp_path / "b")
    edit(tmp_path / "b" / "added_tokens.json", **{"<hl>": 9})
    with pytest.raises(ConversionError, match=r"added tokens \(<hl>\)"):
        imported(tmp_path / "b")


@pytest.mark.parametrize("family", ["bart", "pegasus", "nllb", "m2m100", "t5"])
def test_clean_texts_are_those_of_the_library(family: str, tmp_path: Path) -> None:
    """Byte-pair codes are left as they are: BART's, NLLB-200's."""
    if family == "t5":
        write_folder(tmp_path / "a")
    else:
        folder_of(tmp_path / "a", family)
    edit(tmp_path / "a" / "tokenizer_config.json", clean_up_tokenization_spaces=True)
    checkpoint = (imported_t5 if family == "t5" else imported)(tmp_path / "a")
    expected = family not in ("bart", "nllb")
    for tokenizer in (checkpoint.source_tokenizer, checkpoint.target_tokenizer):
        assert isinstance(tokenizer, ForeignTokenizer)
        assert tokenizer.entries.clean == expected
    if family != "t5":
        return
    zoo.export(tmp_path / "a.zoo", "huggingface", tmp_path / "exported")
    written = Tokenizer.from_file(str(tmp_path / "exported" / "tokenizer.json"))
    assert isinstance(written.decoder, decoders.Decoder)
    assert written.decoder.decode(["▁a", "▁.", "▁n't", "▁b"]) == "a.n't b"


def test_a_space_before_a_text_is_that_of_the_class(tmp_path: Path) -> None:
    bart_with_pipeline(tmp_path / "a", [])
    before = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    edit(tmp_path / "a" / "tokenizer.json", pre_tokenizer=before)
    with pytest.raises(ConversionError, match="add_prefix_space is False in tokenizer_config"):
        imported(tmp_path / "a")
    edit(tmp_path / "a" / "tokenizer_config.json", add_prefix_space=True)
    tokenizer = imported(tmp_path / "a").source_tokenizer
    assert tokenizer.token(tokenizer.encode(["dog"])[0][1]).startswith("▁")


@pytest.mark.parametrize("split", [False, True])
def test_special_tokens_may_be_text(split: bool, tmp_path: Path) -> None:
    made = bart_with_pipeline(tmp_path / "a", [AddedToken("<hl>")])
    edit(tmp_path / "a" / "tokenizer_config.json", split_special_tokens=split)
    made._tokenizer.encode_special_tokens = split
    tokenizer = imported(tmp_path / "a").source_tokenizer
    for text in ("a <hl>dog<hl>", "a <mask> </s> runs"):
        (ids,) = tokenizer.encode([text])
        pieces = [tokenizer.token(i).replace("▁", "Ġ") for i in ids[1:]]
        if "</s>" not in text:
            assert pieces == made.encode(text).tokens[1:-1]
        assert ("<hl>" in pieces or "<mask>" in pieces) != split
        assert not split or tokenizer.decode(ids) == text
    write_folder(tmp_path / "t5")
    content = tokenizer_json()
    flags = {**content["added_tokens"][0], "id": 19, "content": "<hl>", "special": False}
    edit(tmp_path / "t5" / "tokenizer.json", added_tokens=[*content["added_tokens"], flags])
    edit(tmp_path / "t5" / "tokenizer_config.json", split_special_tokens=split)
    tokenizer = imported_t5(tmp_path / "t5").source_tokenizer
    pieces = [tokenizer.token(i) for i in tokenizer.encode(["a<extra_id_0>b<hl>a"])[0]]
    assert ("<extra_id_0>" in pieces, "<hl>" in pieces) == (not split, True)


@pytest.mark.parametrize("name", ["BART", "mBART, untied", "M2M-100"])
def test_a_special_token_is_read_and_not_written(name: str, tmp_path: Path) -> None:
    folder_of_export(name, tmp_path / "a")
    file = tmp_path / "a" / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    flags = {**content["added_tokens"][0], "content": "w0", "id": content["model"]["vocab"]["w0"]}
    content["added_tokens"].append(flags)
    file.write_text(json.dumps(content), encoding="utf-8")
    checkpoint = imported(tmp_path / "a")
    for tokenizer in (checkpoint.source_tokenizer, checkpoint.target_tokenizer):
        (ids,) = tokenizer.encode(["a w0 dog"])
        assert "w0" in [tokenizer.token(i) for i in ids]
        assert "w0" not in tokenizer.decode(ids)


def test_t5_needs_the_end_token_after_a_text(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    edit(tmp_path / "a" / "tokenizer_config.json", **GENERIC)
    with pytest.raises(ConversionError, match="does not put the end token, and nothing else"):
        imported_t5(tmp_path / "a")
    edit(tmp_path / "a" / "tokenizer_config.json", tokenizer_class="T5TokenizerFast")
    imported_t5(tmp_path / "a")


@pytest.mark.parametrize(
    ("given", "frame"),
    [
        (None, Frame()),
        ({"type": "ByteLevel"}, Frame()),
        ({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}, Frame((0,), (2,))),
        ({"type": "Sequence", "processors": [
            {"type": "ByteLevel"}, {"type": "BertProcessing", "cls": ["a", 5], "sep": ["b", 6]}]},
         Frame((5,), (6,))),
    ],
)  # fmt: skip
def test_the_frame_of_a_post_processor(given: Any, frame: Frame) -> None:
    assert stated_frame(GENERIC, {"post_processor": given}) == frame
    assert stated_frame({"tokenizer_class": "BartTokenizer"}, {"post_processor": given}) is None


@pytest.mark.parametrize(
    "given",
    [
        {"type": "Unknown"}, {"type": "TemplateProcessing"}, {"type": "RobertaProcessing"}, "x",
        {"type": "TemplateProcessing", "single": [{}], "special_tokens": 3}, [], 7,
        {"type": "TemplateProcessing", "special_tokens": {"a": {"ids": ["x"]}},
         "single": [{"SpecialToken": {"id": "a"}}, {"Sequence": {"id": "A"}}]},
    ],
    ids=str,
)  # fmt: skip
def test_an_unknown_post_processor_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="post_processor"):
        stated_frame(GENERIC, {"post_processor": given})


def test_added_special_tokens_of_t5_are_tokens(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    content = tokenizer_json()
    flags = {**content["added_tokens"][0], "id": 19, "content": "<hl>"}
    edit(tmp_path / "a" / "tokenizer.json", added_tokens=[*content["added_tokens"], flags])
    tokenizer = imported_t5(tmp_path / "a").source_tokenizer
    (ids,) = tokenizer.encode(["a<hl>ab</s>"])
    assert [tokenizer.token(i) for i in ids][1] == "<hl>"
    assert "</s>" not in [tokenizer.token(i) for i in ids]


@pytest.mark.parametrize("family", ["bart", "m2m100"])
def test_outputs_that_end_elsewhere_are_refused(family: str, tmp_path: Path) -> None:
    config, _ = folder_of(tmp_path / "a", family)
    end = config["eos_token_id"]
    for same in (end, [end], None):
        edit(tmp_path / "a" / "generation_config.json", eos_token_id=same)
        imported(tmp_path / "a")
        (tmp_path / "a-out").rename(tmp_path / f"out-{same}")
    for other in (9, [end, 9]):
        edit(tmp_path / "a" / "generation_config.json", eos_token_id=other)
        with pytest.raises(ConversionError, match=r"ends outputs at .*9.*not at eos_token_id"):
            imported(tmp_path / "a")


def test_t5_whose_outputs_end_elsewhere_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    edit(tmp_path / "a" / "generation_config.json", eos_token_id=[1, 9])
    with pytest.raises(ConversionError, match=r"ends outputs at \[1, 9\], not at eos_token_id 1"):
        imported_t5(tmp_path / "a")


def test_what_a_folder_bans_is_recommended(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "bart")
    names = names_of("bart")
    mask = names.index("<mask>")
    edit(tmp_path / "a" / "generation_config.json", suppress_tokens=[1, 3, 20], do_sample=True,
         bad_words_ids=[[21], [22, 23], "x", [1], [mask]], temperature=0.7, top_p=0.9)  # fmt: skip
    with pytest.warns(ConversionWarning, match="bad_words_ids of several tokens are left out"):
        decoding = imported(tmp_path / "a").about.decoding
    words = (names[20].replace("Ġ", "▁"), names[21].replace("Ġ", "▁"))
    assert {*decoding["banned"]} == {*words, "<mask>"}
    sampling = {"sample": True, "top_k": 50, "temperature": 0.7, "top_p": 0.9}
    assert {name: decoding[name] for name in sampling} == sampling


def test_weights_that_are_not_finite_are_named_by_the_other_project(tmp_path: Path) -> None:
    import safetensors.torch

    folder_of(tmp_path / "a", "bart")
    file = tmp_path / "a" / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    name = "model.decoder.layers.0.fc1.bias"
    tensors[name][0] = float("nan")
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(ConversionError, match=f"{name} holds values that are not finite"):
        imported(tmp_path / "a")


def test_a_small_folder_with_large_sizes_takes_no_memory(tmp_path: Path) -> None:
    """Each missing tensor would have 268 million numbers, or 4 GB in float64."""
    import resource

    values = {"d_model": 16_384, "d_ff": 16_384, "d_kv": 8_192, "num_layers": 2}
    write_folder(tmp_path / "a")
    edit(tmp_path / "a" / "config.json", **values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConversionError, match="16384"):
        imported_t5(tmp_path / "a")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_tokens_that_were_added_to_a_model_of_t5_are_tokens(tmp_path: Path) -> None:
    size = len(PIECES) + 4  # with two sentinels
    write_folder(tmp_path / "a", {"vocab_size": size})
    (tmp_path / "a" / "tokenizer.json").unlink()
    (tmp_path / "a" / "spiece.model").write_bytes(sentencepiece_model([]))
    edit(tmp_path / "a" / "added_tokens.json", **{"<sep>": size - 2, "<hl>": size - 1})
    special = {"content": "<hl>", "special": True, "rstrip": True}
    edit(tmp_path / "a" / "tokenizer_config.json", extra_ids=2,
         added_tokens_decoder={str(size - 1): special})  # fmt: skip
    tokenizer = imported_t5(tmp_path / "a").source_tokenizer
    (ids,) = tokenizer.encode(["a<hl> b <sep> a"])
    pieces = [tokenizer.token(i) for i in ids]
    assert [piece for piece in pieces if piece.startswith("<")] == ["<hl>", "<sep>"]
    assert tokenizer.decode(ids) == "a b<sep> a"
    edit(tmp_path / "a" / "added_tokens.json", **{"<far>": size + 5})
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(ConversionError, match="'<far>' has an impossible id"):
        imported_t5(tmp_path / "b")
