"""Damaged and malicious T5 folders: one clear line each, nothing executed, nothing written."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.interop.changes import Change, Touch, json_content, json_file, tensors
from tests.interop.t5_folder import CONFIG, imported, random_tensors, write_folder
from zoo.errors import ZooError

config = functools.partial(json_file, "config.json")
options = functools.partial(json_file, "tokenizer_config.json")
tokenizer = functools.partial(json_content, "tokenizer.json")


def replace_tokenizer(name: str, content: bytes) -> Change:
    def write(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        (folder / name).write_bytes(content)

    return write


def replace_weights(name: str, content: Callable[[Path], object]) -> Change:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(content(folder), folder / name)

    return write


def index_of(files: object) -> Change:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "a.safetensors")
        index = {"weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return write


WO = "encoder.block.1.layer.1.DenseReluDense.wo.weight"
ALL_IN_ONE = dict.fromkeys(random_tensors(CONFIG, False), "a.safetensors")

REFUSED: dict[str, tuple[Change, list[str]]] = {
    "sizes of wrong types": (
        config(d_model="12", num_layers=0, d_ff=10**9, vocab_size=None),
        ["d_model is '12', not an integer from 1 to 65,536", "num_layers is 0", "d_ff is 100000",
         "vocab_size is None"],
    ),
    "sizes that contradict each other": (
        config(num_hidden_layers=1, hidden_size=12, num_attention_heads=3, head_dim=5),
        ["num_hidden_layers 1 contradicts num_layers 2",
         "num_attention_heads 3 contradicts num_heads 2"],
    ),
    "ids outside the vocabulary": (
        config(pad_token_id=99, eos_token_id=[1, 2], decoder_start_token_id=-1),
        ["pad_token_id is 99", "eos_token_id is [1, 2]", "decoder_start_token_id is -1"],
    ),
    "ids that coincide": (
        config(eos_token_id=0, decoder_start_token_id=0),
        ["padding and end are one token", "the decoder starts with the end token"],
    ),
    "an activation that T5 here lacks": (
        config(feed_forward_proj="gated-tanh", dense_act_fn="relu"),
        ["feed_forward_proj is 'gated-tanh'", "dense_act_fn 'relu' contradicts"],
    ),
    "quantized": (config(quantization_config={}), ["its weights are quantized"]),
    "an encoder alone": (
        config(is_encoder_decoder=False), ["is_encoder_decoder is not true"]),
    "impossible buckets": (
        config(relative_attention_max_distance=4), ["max_distance 4 must be greater"]),
    "tensors missing, of other shapes and unknown": (
        tensors(lambda t: (t.pop(WO), t.update({"x": t.pop("shared.weight")}))),
        [f"{WO} is missing", "shared.weight is missing", "x is not a tensor of this network"],
    ),
    "a wrong shape and a wrong type": (
        tensors(lambda t: t.update({WO: t[WO].T.contiguous(),
                                    "shared.weight": t["shared.weight"].int()})),
        [f"{WO} is (14, 12), not (12, 14)", "shared.weight is of type int32"],
    ),
    "more than float32": (
        tensors(lambda t: t.update({WO: t[WO].double() / 3})),
        [f"{WO} is of type float64 and not exact in float32"],
    ),
    "values that are not finite": (
        tensors(lambda t: t[WO].fill_(math.nan)), ["not finite"]),
    "two embeddings": (
        tensors(lambda t: t.update({"encoder.embed_tokens.weight": t["shared.weight"] + 1})),
        ["encoder.embed_tokens.weight is not equal to shared.weight"],
    ),
    "an output that versions read differently": (
        tensors(lambda t: t.update({"lm_head.weight": t["shared.weight"] + 1})),
        ["tie_word_embeddings is true, but lm_head.weight differs from shared.weight"],
    ),
    "an output that is missing": (
        config(tie_word_embeddings=False),
        ["tie_word_embeddings is false, but there is no lm_head.weight"],
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["it has no weights"]),
    "weights cut off": (
        lambda f: os.truncate(f / "model.safetensors", 3000), ["model.safetensors cannot be read"]),
    "no tokenizer": (
        lambda f: (f / "tokenizer.json").unlink(), ["it has no tokenizer", "tokenizer.save_pretr"]),
    "another model of tokens": (
        tokenizer(lambda j: j["model"].update(type="BPE")), ["type 'BPE', not 'Unigram'"]),
    "a vocabulary that is too long": (
        tokenizer(lambda j: j["model"]["vocab"].extend([(f"x{i}", -9.0) for i in range(9)])),
        ["impossible id"],
    ),
    "more entries than embeddings": (
        config(vocab_size=10), ["its tokenizer has 19 entries, and vocab_size is 10"]),
    "an unknown token that is the end": (
        tokenizer(lambda j: j["model"].update(unk_id=1)),
        ["the unknown token is padding or the end token"],
    ),
    "a vocabulary of other types": (
        tokenizer(lambda j: j["model"].update(vocab={"a": 1})), ["is not a list of pieces"]),
    "pieces that occur twice": (
        tokenizer(lambda j: j["model"]["vocab"].__setitem__(5, ["a", -1.0])),
        ["has an entry twice"],
    ),
    "a broken SentencePiece model": (
        replace_tokenizer("spiece.model", b"\x0a\xff"),
        ["spiece.model is not a SentencePiece model"],
    ),
    "another class of tokenizers": (
        options(tokenizer_class="XLMRobertaTokenizerFast"),
        ["its tokenizer_class 'XLMRobertaTokenizerFast' may read otherwise"],
    ),
    "another end of texts": (
        options(eos_token={"content": "a"}),
        ["its tokenizer's eos_token is 'a', the network's '</s>'"],
    ),
    "a piece as padding": (
        config(pad_token_id=5), ["its tokenizer's pad_token is '<pad>', the network's 'b'"]),
    "a piece as the decoder's first token": (
        config(decoder_start_token_id=5),
        ["the decoder starts with 'b' (id 5), which is a token of text"]),
    "added tokens that only other files have": (
        options(added_tokens_decoder={"19": {"content": "<hl>"}},
                additional_special_tokens=["<x>", "<extra_id_0>", "<extra_id_7>"],
                extra_special_tokens={"y_token": "<y>"}),
        ["its vocabulary lacks the added tokens <hl>, <x>, <y>"],
    ),
    "an adapter": (
        lambda f: (f / "adapter_config.json").write_text("{}"),
        ["it has an adapter, whose weights are apart (adapter_config.json)"]),
    "no JSON": (lambda f: (f / "tokenizer.json").write_bytes(b"{"), ["tokenizer.json"]),
    "a pickle that would run code": (
        replace_weights("pytorch_model.bin", lambda f: {"shared.weight": Touch(f / "touched")}),
        ["reading it could run code"],
    ),
    "a pickle of another kind": (
        replace_weights("pytorch_model.bin", lambda f: [torch.zeros(1)]),
        ["it is not a dictionary of tensors"],
    ),
    "a nested pickle": (
        replace_weights("pytorch_model.bin", lambda f: {"model": {"x": torch.zeros(1)}}),
        ["it is not a dictionary of tensors"],
    ),
    "no pickle": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        ["it is not a checkpoint of torch.save"]),
    "an index that leads outside": (
        index_of({"shared.weight": "../a.safetensors"}), ["is outside its folder"]),
    "an index of files that are not there": (
        index_of({"shared.weight": "b.safetensors"}), ["it has no b.safetensors"]),
    "an index that is not one": (index_of([1]), ["is not an object of names"]),
    "an index that does not agree": (
        index_of({**ALL_IN_ONE, "y": "a.safetensors"}), ["y is in model.safetensors.index.json"]),
    "an index of too little": (
        index_of({"shared.weight": "a.safetensors"}),
        ["is in a.safetensors and not in model.safetensors.index.json", "more"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_expressed_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    change, expected = REFUSED[case]
    write_folder(tmp_path / "t5")
    change(tmp_path / "t5")
    with pytest.raises(ZooError) as refused:
        imported(tmp_path / "t5")
    for part in expected:
        assert part in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "t5" / "touched").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["t5"]


def test_options_are_checked(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5")
    with pytest.raises(ZooError, match="option tokenizer is 'byte', not bytes"):
        imported(tmp_path / "t5", tokenizer="byte")
