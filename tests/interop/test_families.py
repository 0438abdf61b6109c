"""BART, Pegasus, mBART, M2M-100 and NLLB-200: the same logits and ids, and refusals.

The folders have no `tokenizer.json`: the files are those of the library's slow tokenizers.
"""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import AddedToken, ByteLevelBPETokenizer

import zoo
from tests.interop.changes import Change, content, json_file, tensors
from tests.interop.families import LONGEST, Rules, Weights, reference, write
from tests.interop.huggingface import LINES
from tests.interop.refused import require_refused
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.errors import DecodingError, ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.nn.contract import BEGIN
from zoo.registry.registry import default_registry
from zoo.serving.beam_tree import beam_tree

TAGS = {"mbart50": ("en_XX", "de_DE", "ro_RO"), "nllb": ("eng_Latn", "fra_Latn", "deu_Latn")}
CODES = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT
lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"""
FIRST_TAGS = CODES.split()
PRE_LEARNED = Rules(True, "learned", first=2, embedding_norm=True)
FAIRSEQ = Rules(True, "fairseq", first=2, bias=False)
RULES = {
    "bart": Rules(False, "learned", first=2, embedding_norm=True),
    "pegasus": Rules(True, "halves"),
    "mbart50": PRE_LEARNED,
    "mbart": PRE_LEARNED,
    "m2m100": FAIRSEQ,
    "nllb": FAIRSEQ,
}
IDS = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2}


@functools.cache
def pieces(pegasus: bool = False) -> bytes:
    content = io.BytesIO()
    special: dict[str, Any] = (
        {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if pegasus else {}
    )
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=content, vocab_size=56, num_threads=1,
        minloglevel=2, hard_vocab_limit=False, **special,
    )  # fmt: skip
    return content.getvalue()


@functools.cache
def byte_codes() -> tuple[str, str]:
    """Return `vocab.json` and `merges.txt`."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(
        LINES, 300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    model = json.loads(made.to_str())["model"]
    lines = [" ".join(pair) for pair in model["merges"]]
    return json.dumps(model["vocab"]), "\n".join(["#version: 0.2", *lines, ""])


def names_of(family: str) -> list[str]:
    """Return the texts of all entries by the library's ids, by its documentation."""
    if family == "bart":
        vocabulary: dict[str, int] = json.loads(byte_codes()[0])
        return sorted(vocabulary, key=lambda name: vocabulary[name])
    model = SentencePieceProcessor(model_proto=pieces(family == "pegasus"))
    plain = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    if family == "pegasus":
        unused = [f"<unk_{i}>" for i in range(2, 103)]
        return ["<pad>", "</s>", "<mask_1>", "<mask_2>", *unused, *plain[2:]]
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "m2m100":
        return [*first, *sorted(plain[3:])]
    return [*first, *plain[3:], *TAGS.get(family, FIRST_TAGS), "<mask>"]


def folder_of(
    folder: Path, family: str, tied: str = "all", **values: Any
) -> tuple[dict[str, Any], Weights]:
    """Write a folder; return its configuration and weights."""
    folder.mkdir()
    names = names_of(family)
    size = len(names) + (108 if family == "m2m100" else 0)
    config: dict[str, Any] = {**IDS, "vocab_size": size, "max_position_embeddings": LONGEST}
    settings: dict[str, Any] = {}
    if family == "bart":
        for file, text in zip(("vocab.json", "merges.txt"), byte_codes(), strict=True):
            (folder / file).write_text(text, encoding="utf-8")
        config |= {"model_type": "bart"}
    elif family == "pegasus":
        (folder / "spiece.model").write_bytes(pieces(pegasus=True))
        config |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
        config |= {"model_type": "pegasus", "scale_embedding": True}
    else:
        (folder / "sentencepiece.bpe.model").write_bytes(pieces())
        config |= {"model_type": "mbart" if family.startswith("mbart") else "m2m_100"}
        if family in TAGS:
            settings["additional_special_tokens"] = TAGS[family]
        if family == "m2m100":
            ids = {name: i for i, name in enumerate(names)}
            (folder / "vocab.json").write_text(json.dumps(ids))
        if family in ("m2m100", "nllb"):
            config |= {"activation_function": "relu", "scale_embedding": True}
        if family == "mbart50":
            settings["tokenizer_class"] = "MBart50Tokenizer"
        if family == "mbart":
            config["decoder_start_token_id"] = names.index("ro_RO")
    return write(folder, RULES[family], (size, size), settings, tied, **config | values)


def order_of(config: dict[str, Any], unknown: int) -> torch.Tensor:
    """Return the zoo's id of each of the library's."""
    special = {config["pad_token_id"]: 0, config["eos_token_id"]: 2, unknown: 3}
    rest = iter(range(4, config["vocab_size"] + 1))
    ids = [special[i] if i in special else next(rest) for i in range(config["vocab_size"])]
    return torch.tensor(ids)


def imported(folder: Path, **options: str) -> Checkpoint:
    out = folder.with_name(f"{folder.name}-out")
    given = {name.replace("_", "-"): value for name, value in options.items()}
    import_checkpoint(folder, out, default_registry(), options=given)
    return read(out, default_registry())


CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((family, "all", {}) for family in RULES),
    ("bart", "", {"tie_word_embeddings": False, "scale_embedding": True}),
    ("mbart50", "all", {"activation_function": "gelu_new"}),
    ("pegasus", "output", {"share_encoder_decoder_embeddings": False, "scale_embedding": False}),
]


@pytest.mark.parametrize(("family", "tied", "values"), CASES)
def test_logits_equal_the_reference(
    family: str, tied: str, values: dict[str, Any], tmp_path: Path
) -> None:
    config, weights = folder_of(tmp_path / "a", family, tied, **values)
    checkpoint = imported(tmp_path / "a")
    order = order_of(config, names_of(family).index("<unk>"))
    low, end = 4, config["eos_token_id"]
    torch.manual_seed(1)
    sources = [torch.randint(low, len(order), (n,)) for n in (5, 2, 7)]
    if family == "mbart":  # the tag follows the end token; the zoo's own end token is not read
        sources = [torch.cat([s, torch.tensor([end, len(order) - 5])]) for s in sources]
    target = torch.randint(low, len(order), (3, 6))
    target[:, 0] = config["decoder_start_token_id"]
    batch = torch.zeros(3, 10, dtype=torch.long)
    for row, source in zip(batch, sources, strict=True):
        row[: len(source)] = order[source]
        if family == "mbart":
            row[len(source)] = 2
    inputs = order[target]
    inputs[:, 0] = BEGIN
    with torch.inference_mode():
        logits = checkpoint.model.double()(batch, batch > 0, inputs).logits
    for row, source, given in zip(logits, sources, target, strict=True):
        expected = reference(weights, config, RULES[family], source, given)
        torch.testing.assert_close(row[:, order], expected, rtol=0, atol=1e-10)
    assert float(logits[..., BEGIN].max()) < -9000, "begin has no probability"


TEXTS = [*LINES, "", "  odd\tspaces  ", "u\u0308ber 🙂 сорок", "</s> <mask>", "a\u00a0b"]


@pytest.mark.parametrize("family", RULES)
def test_ids_are_those_of_the_slow_tokenizers(family: str, tmp_path: Path) -> None:
    config, _ = folder_of(tmp_path / "a", family)
    checkpoint = imported(tmp_path / "a")
    names = names_of(family)
    ids = {name: i for i, name in enumerate(names)}
    order = order_of(config, ids["<unk>"]).tolist()
    if family == "bart":
        files = str(tmp_path / "a" / "vocab.json"), str(tmp_path / "a" / "merges.txt")
        codes = ByteLevelBPETokenizer(*files)
        codes.add_special_tokens([AddedToken("<mask>", lstrip=True)])
        before, after, tag = [order[ids["<s>"]]], [], []
        cut: Callable[[str], list[str]] = lambda text: [  # noqa: E731
            codes.id_to_token(i) for i in codes.encode(text).ids
        ]
    else:
        processor = SentencePieceProcessor(model_proto=pieces(family == "pegasus"))
        cut = functools.partial(processor.encode, out_type=str)
        tag = {
            "mbart50": [ids.get("en_XX", 0)], "mbart": [ids.get("en_XX", 0)],
            "nllb": [ids.get("eng_Latn", 0)], "m2m100": [len(names) + 18], "pegasus": [],
        }[family]  # fmt: skip
        before = [order[i] for i in tag]
        after = [2, *before] if family == "mbart" else []
    for text, encoded in zip(TEXTS, checkpoint.source_tokenizer.encode(TEXTS), strict=True):
        plain = [order[ids.get(piece, ids["<unk>"])] for piece in cut(text)]
        assert encoded == (plain + after if family == "mbart" else before + plain), text
    line = LINES[0]
    (target,) = checkpoint.target_tokenizer.encode([line])
    assert checkpoint.target_tokenizer.decode(target) == line


def test_the_first_mbart_has_one_target_language(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "mbart")
    checkpoint = imported(tmp_path / "a")
    assert checkpoint.config.model_dump()["source_end"] is False
    assert checkpoint.about.source_languages[0] == "en_XX"
    assert len(checkpoint.about.source_languages) == 25
    assert checkpoint.about.target_languages == ("ro_RO",)
    translator = zoo.load(tmp_path / "a-out")
    options: dict[str, Any] = {"max_length": 6, "recommended": False}
    assert translator.translate("A dog", source_lang="English", **options)
    with pytest.raises(DecodingError, match="no source language 'xx'"):
        translator.translate("A dog", source_lang="xx")
    import_checkpoint(
        tmp_path / "a", tmp_path / "b", default_registry(), options={"target-lang": "de_DE"}
    )
    german = read(tmp_path / "b", default_registry())
    assert german.about.target_languages == ("de_DE",)
    embedding = german.model.state_dict()["target_embedding.weight"]
    german_tag = german.source_tokenizer.tags["de_DE"]
    assert torch.equal(embedding[BEGIN], embedding[german_tag]), "the decoder starts from the tag"


@pytest.mark.parametrize("family", ["mbart", "mbart50", "m2m100"])
def test_tags_are_in_no_word_of_an_alignment(family: str, tmp_path: Path) -> None:
    folder_of(tmp_path / "a", family)
    imported(tmp_path / "a")
    translator = zoo.load(tmp_path / "a-out")
    options: dict[str, Any] = {"max_length": 7, "recommended": False, "split": False}
    made = translator.translate("A dog runs.", alignment=True, details=True, **options)
    assert made.alignment
    assert max(source for source, _ in made.alignment) <= 2
    assert max(target for _, target in made.alignment) < len(made.text.split())


@pytest.mark.parametrize("family", ["bart", "pegasus", "mbart50", "m2m100"])
def test_a_bare_network_is_read_like_the_whole_one(family: str, tmp_path: Path) -> None:
    folder_of(tmp_path / "a", family)
    expected = imported(tmp_path / "a").model.state_dict()
    folder_of(tmp_path / "b", family)

    def strip(weights: dict[str, torch.Tensor]) -> None:
        for name in list(weights):
            weights[name.removeprefix("model.")] = weights.pop(name)
        weights.pop("final_logits_bias", None)

    without = [name for name in expected if name != "output.bias"]
    tensors(strip)(tmp_path / "b")
    given = imported(tmp_path / "b").model.state_dict()
    assert all(torch.equal(given[name], expected[name]) for name in without)


@pytest.mark.parametrize(
    ("family", "given", "first"),
    [
        ("bart", {"decoder_start_token_id": 5, "bos_token_id": 7}, 5),
        ("bart", {"bos_token_id": 7}, 7),  # as `generate` does, whatever config.json says
        ("bart", {"eos_token_id": 2}, 2),
        ("nllb", {"bos_token_id": 0}, 0),
    ],
)
def test_the_first_token_is_that_of_the_generation_config(
    family: str, given: dict[str, int], first: int, tmp_path: Path
) -> None:
    folder_of(tmp_path / "a", family)
    (tmp_path / "a" / "generation_config.json").write_text(json.dumps(given))
    foreign = safetensors.torch.load_file(tmp_path / "a" / "model.safetensors")
    embedding = imported(tmp_path / "a").model.state_dict()["target_embedding.weight"]
    assert torch.equal(embedding[BEGIN], foreign["model.decoder.embed_tokens.weight"][first])


def test_mbarts_first_token_without_one_in_its_files(tmp_path: Path) -> None:
    """It is `<s>`, as `generate` has it; that of the first mBART is the tag of its target."""
    folder_of(tmp_path / "a", "mbart50")
    json_file("config.json", decoder_start_token_id=None)(tmp_path / "a")
    foreign = safetensors.torch.load_file(tmp_path / "a" / "model.safetensors")
    embedding = imported(tmp_path / "a").model.state_dict()["target_embedding.weight"]
    assert torch.equal(embedding[BEGIN], foreign["model.decoder.embed_tokens.weight"][0])
    folder_of(tmp_path / "b", "mbart")
    (tmp_path / "b" / "generation_config.json").write_text('{"bos_token_id": 0}')
    assert imported(tmp_path / "b").about.target_languages == ("ro_RO",)


@pytest.mark.parametrize("family", ["nllb", "mbart50"])
def test_a_forced_tag_precedes_the_tokenizers_target_language(family: str, tmp_path: Path) -> None:
    folder_of(tmp_path / "a", family)
    source, first, last = TAGS[family]
    forced = names_of(family).index(last)
    json_file("tokenizer_config.json", src_lang=source, tgt_lang=first)(tmp_path / "a")
    assert imported(tmp_path / "a").about.target_languages[0] == first
    json_file("config.json", forced_bos_token_id=forced)(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert imported(tmp_path / "b").about.target_languages[0] == last


def test_sizes_by_the_librarys_other_names(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", "bart", activation_function="gelu")
    expected = imported(tmp_path / "a")
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    config["hidden_size"] = config.pop("d_model")
    config["num_attention_heads"] = config.pop("encoder_attention_heads")
    layers = config["num_hidden_layers"] = config.pop("encoder_layers")
    config["activation_function"] = "gelu_python"
    (tmp_path / "a" / "config.json").write_text(json.dumps(config))
    (tmp_path / "a").rename(tmp_path / "b")
    assert imported(tmp_path / "b").config == expected.config
    # the library takes them before the usual ones
    heads = config["num_attention_heads"]
    json_file("config.json", num_attention_heads=1, encoder_attention_heads=heads)(tmp_path / "b")
    require_refused(tmp_path / "b", f"encoder_attention_heads 1 is not .* {heads}")
    # version 4 takes encoder_layers, and version 5 the other
    json_file("config.json", num_attention_heads=heads, encoder_layers=layers + 1)(tmp_path / "b")
    message = f"num_hidden_layers {layers} contradicts encoder_layers {layers + 1}"
    require_refused(tmp_path / "b", message)
    json_file("config.json", encoder_layers=layers)(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "c")
    assert imported(tmp_path / "c").config == expected.config


def test_tuning_has_the_tags_of_the_datas_languages(tmp_path: Path) -> None:
    """Also by codes with a country or by names, where it had those of the default languages."""
    folder_of(tmp_path / "a", "nllb")
    (tmp_path / "d.tsv").write_text("".join(f"A dog {i}.\tEin Hund {i}.\n" for i in range(30)))
    for number, (languages, tags) in enumerate({
        "fr_FR-deu_Latn": ("fra_Latn", "deu_Latn"), "Deutsch-Français": ("deu_Latn", "fra_Latn"),
        "src-tgt": ("eng_Latn", "deu_Latn"),
    }.items()):  # fmt: skip
        out = tmp_path / str(number)
        zoo.train(None, f"{tmp_path / 'd.tsv'}:{languages}", out, from_=tmp_path / "a", steps=1)
        tuned = read(out, default_registry())
        sides = (tuned.source_tokenizer, tuned.target_tokenizer)
        assert tuple(side.language for side in sides) == tags
    with pytest.raises(DecodingError, match="no source language 'pt_BR'"):
        zoo.train(None, f"{tmp_path / 'd.tsv'}:pt_BR-de", tmp_path / "b", from_=tmp_path / "a")


@pytest.mark.parametrize("family", ["nllb", "mbart50"])
def test_the_tree_of_a_search_begins_with_the_tag_too(family: str, tmp_path: Path) -> None:
    folder_of(tmp_path / "a", family)
    imported(tmp_path / "a")
    translator = zoo.load(tmp_path / "a-out")
    options: dict[str, Any] = {"max_length": 6, "beam": 3, "n_best": 3, "recommended": False}
    made = translator.translate("A dog", details=True, **options)
    shown = beam_tree(translator.checkpoint, "A dog", {"max_length": 6, "beam": 3})
    expected = [one.text for one in (made, *made.alternatives)]
    assert [one["text"] for one in shown["hypotheses"]] == expected
    (tag,) = translator.checkpoint.target_tokenizer.encode([""])
    name = translator.checkpoint.target_tokenizer.token(tag[0])
    assert [n["token"] for n in shown["steps"][0] if n["status"] == "kept"] == [name]


@pytest.mark.parametrize(("family", "reason"), [
    ("mbart", "its tokenizer is of a kind that mbart of"), ("nllb", "its tags are NLLB-200's"),
])  # fmt: skip
def test_what_transformers_cannot_tokenize_is_not_exported(
    family: str, reason: str, tmp_path: Path
) -> None:
    folder_of(tmp_path / "a", family)
    imported(tmp_path / "a")
    with pytest.raises(ZooError, match=reason):
        zoo.export(tmp_path / "a-out", "huggingface", tmp_path / "exported")


FAULTS: dict[str, tuple[str, Change, str]] = {
    "added tokens": (
        "m2m100", json_file("tokenizer_config.json", added_tokens_decoder={
            "9": {"content": "<new>", "special": False}, "1": {"content": "<pad>", "special": True},
            "8": {"content": "<more>", "special": True}}),
        r"its tokenizer has added tokens \(<new>, <more>\), which need tokenizer.json"),
    "a forced token outside": (
        "bart", json_file("config.json", forced_bos_token_id=1_000_000),
        "texts begin with the token 1000000 of "),
    "a begin token outside": (
        "bart", json_file("tokenizer_config.json", cls_token="<cls>"),
        "its vocabulary has no cls_token '<cls>'"),
    "another end of sources": (
        "bart", json_file("tokenizer_config.json", sep_token="dog"),
        "its tokenizer's sep_token is 'dog', the network's '</s>'"),
    "another end of Pegasus": (
        "pegasus", json_file("tokenizer_config.json", eos_token="<unk_9>"),
        "its tokenizer's eos_token is '<unk_9>', the network's '</s>'"),
    "another end of mBART": (
        "mbart", json_file("special_tokens_map.json", eos_token={"content": ","}),
        "its tokenizer's eos_token is ',', the network's '</s>'"),
    "another end of M2M-100": (
        "m2m100", json_file("tokenizer_config.json", eos_token=","),
        "its tokenizer's eos_token is ',', the network's '</s>'"),
    "a piece as padding": (
        "mbart50", json_file("config.json", pad_token_id=30),
        "its tokenizer's pad_token is '<pad>', the network's"),
    "backwards": (
        "m2m100", json_file("tokenizer_config.json", sp_model_kwargs={"reverse": True}),
        "sp_model_kwargs in tokenizer_config.json changes how texts are cut"),
    "an adapter": (
        "bart", json_file("adapter_config.json", peft_type="LORA"),
        r"it has an adapter, whose weights are apart \(adapter_config.json\)"),
    "quantized weights": (
        "bart", json_file("config.json", quantization_config={"load_in_8bit": True}),
        "cannot be imported: its weights are quantized: use those of 16 or 32 bits$"),
    "more entries than rows": (
        "bart", json_file("config.json", vocab_size=9_999_999),
        r"embed_tokens.weight is \(281, 12\), and the vocabulary has 9999999 entries"),
    "float64": (
        "bart", tensors(lambda w: w.update({
            "final_logits_bias": w["final_logits_bias"].double() + 1e-12})),
        "final_logits_bias is of type float64 and not exact in float32"),
    "no embedding norm": (
        "bart", tensors(lambda w: w.pop("model.encoder.layernorm_embedding.bias")),
        "encoder.layernorm_embedding.bias is missing"),
    "short positions": (
        "bart", json_file("config.json", max_position_embeddings=7), r"embed_positions.weight is"),
    "named added tokens": (
        "bart", json_file("tokenizer_config.json", extra_special_tokens={"x_token": "<x>"}),
        r"its tokenizer has added tokens \(<x>\), which need tokenizer.json"),
    "a prefix space": (
        "bart", json_file("tokenizer_config.json", add_prefix_space=True), "add_prefix_space"),
    "no merges": ("bart", lambda f: (f / "merges.txt").unlink(), "it has no tokenizer.json"),
    "unknown merges": (
        "bart", content("merges.txt", b"#v\n\xc4\xa0 zz\n"), "which vocab.json lacks"),
    "vocabulary of floats": ("bart", json_file("vocab.json", A=1.5), "gives 'A' the id 1.5"),
    "no unknown": ("bart", content("vocab.json", b'{"<s>": 0}'), "has no <unk>|lacks"),
    "torn pieces": ("pegasus", content("spiece.model", b"\n\xff"), "it is torn"),
    "no pieces": ("pegasus", content("spiece.model", b""), "it has no pieces"),
    "an odd offset": (
        "pegasus", json_file("tokenizer_config.json", offset=-5), "offset in tokenizer_config"),
    "more pieces than rows": ("pegasus", json_file("tokenizer_config.json", offset=500), "has id"),
    "pieces of Pegasus": (
        "mbart50", content("sentencepiece.bpe.model", pieces(pegasus=True)),
        "begins with <pad>, </s>, <unk>, not <unk>, <s>, </s>"),
    "no pieces at all": (
        "mbart50", lambda f: (f / "sentencepiece.bpe.model").unlink(),
        "it has no tokenizer: neither tokenizer.json nor sentencepiece.bpe.model nor vocab.json. "
        "Save its tokenizer there too: `tokenizer.save_pretrained"),
    "no target": (
        "mbart", json_file("config.json", decoder_start_token_id=2),
        "begins targets with 2, which is no tag of a language: give --option target-lang=CODE, "
        "one of ar_AR"),
    "tag after the end": (
        "nllb", json_file("tokenizer_config.json", legacy_behaviour=True), "legacy_behaviour"),
    "no tags": (
        "nllb", json_file("tokenizer_config.json", additional_special_tokens=[]),
        "its vocabulary has no tags"),
    "languages in a list": (
        "mbart", lambda f: [json_file("config.json", decoder_start_token_id=None)(f),
                            json_file("tokenizer_config.json", tgt_lang=["de_DE"])(f)],
        r"it has no \['de_DE'\]: give --option target-lang"),
    "a start without a position": (
        "m2m100", json_file("generation_config.json", decoder_start_token_id=1),
        r"its decoder starts with padding \(id 1\), which has no position there"),
    "a forced end": (
        "bart", json_file("generation_config.json", forced_bos_token_id=2),
        "forced_bos_token_id 2 is padding, the end or the unknown token"),
    "a forced word": (
        "bart", json_file("config.json", forced_bos_token_id=77), "77 is a token of text"),
    "a forced token of Pegasus": (
        "pegasus", json_file("config.json", forced_bos_token_id=0), "no token is forced here"),
    "a forced token of the first mBART": (
        "mbart", json_file("generation_config.json", forced_bos_token_id=60),
        "forced_bos_token_id: no token is forced here at the beginning"),
    "a forced token that is no tag": (
        "nllb", json_file("config.json", forced_bos_token_id=9), "9 is not the tag of a language"),
    "another tokenizer": (
        "m2m100", json_file("tokenizer_config.json", tokenizer_class="SMALL100Tokenizer"),
        "its tokenizer_class 'SMALL100Tokenizer' may read otherwise"),
    "a class that is a list": (
        "mbart50", json_file("tokenizer_config.json", tokenizer_class=["MBart50Tokenizer"]),
        "its tokenizer_class \"\\['MBart50Tokenizer'\\]\" may read otherwise"),
    "an unknown language": (
        "nllb", json_file("tokenizer_config.json", src_lang="tlh_Latn"),
        "it has no source language 'tlh_Latn'"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    family, change, message = FAULTS[fault]
    folder_of(tmp_path / "a", family)
    change(tmp_path / "a")
    require_refused(tmp_path / "a", message)


DOCS = Path(__file__).parents[2] / "docs" / "formats"


def test_the_page_names_every_format() -> None:
    text = (DOCS / "transformers.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE))
    assert named >= {"marian", "bart", "pegasus", "mbart", "mbart50", "m2m100", "fsmt"}
    assert named <= {*default_registry().importers}
