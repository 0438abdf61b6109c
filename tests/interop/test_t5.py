"""Import of T5's folders: weights against an independent computation, and token ids."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from tests.interop.t5_folder import (
    CONFIG,
    PIECES,
    VOCABULARY,
    foreign_logits,
    imported,
    rows_of,
    write_folder,
)
from zoo.translation.translator import Translator


@pytest.mark.parametrize(
    ("values", "own_output", "scaled", "start"),
    [
        ({}, False, True, 0),
        ({"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}, True, False, 0),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False, 0),
        ({"decoder_start_token_id": 17}, False, True, 17),
        ({"model_type": "mt5", "feed_forward_proj": "gated-gelu"}, True, False, 0),
        ({"model_type": "mt5", "feed_forward_proj": "relu", "tie_word_embeddings": True,
          "transformers_version": "4.40.0"}, False, True, 0),
        ({"model_type": "umt5", "transformers_version": "5.23.0"}, False, True, 0),
        ({"model_type": "umt5", "transformers_version": "4.57.3"}, False, True, 0),
        ({"model_type": "umt5", "tie_word_embeddings": False}, True, False, 0),
        ({"model_type": "umt5", "transformers_version": "5.24.0", "tie_word_embeddings": True,
          "scale_decoder_outputs": False}, False, False, 0),
    ],
)  # fmt: skip
def test_logits_equal_an_independent_computation(
    tmp_path: Path, values: dict[str, Any], own_output: bool, scaled: bool, start: int
) -> None:
    tensors = write_folder(tmp_path / "t5", values, own_output)
    model, rows = imported(tmp_path / "t5").model.double(), torch.tensor(rows_of(start))
    generator = torch.Generator().manual_seed(3)
    source, target = (torch.randint(3, len(rows), (3, n), generator=generator) for n in (14, 5))
    target[:, 0] = 1
    lengths = (14, 4, 9)
    mask = torch.arange(14) < torch.tensor(lengths)[:, None]
    doubles = {name: tensor.double() for name, tensor in tensors.items()}
    with torch.no_grad():
        given = model(source.masked_fill(~mask, 0), mask, target).logits
        for row, length in enumerate(lengths):
            expected = foreign_logits(
                doubles, {**CONFIG, **values}, rows[source[row, :length]], rows[target[row]], scaled
            )
            torch.testing.assert_close(given[row], expected[:, rows], rtol=0, atol=1e-10)


def test_sizes_by_the_librarys_other_names(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    file = tmp_path / "a" / "config.json"
    given = json.loads(file.read_text())
    other = {"hidden_size": "d_model", "num_hidden_layers": "num_layers", "head_dim": "d_kv"}
    file.write_text(json.dumps(given | {name: given.pop(own) for name, own in other.items()}))
    sizes = imported(tmp_path / "a").config
    write_folder(tmp_path / "b")
    assert imported(tmp_path / "b").config == sizes


def test_the_first_token_is_that_of_the_generation_config(tmp_path: Path) -> None:
    """As `generate` has it: `bos_token_id` without a `decoder_start_token_id`."""
    for given, first in (({"bos_token_id": 18}, 18), ({"eos_token_id": 1}, 0)):
        folder = tmp_path / str(first)
        tensors = write_folder(folder)
        (folder / "generation_config.json").write_text(json.dumps(given))
        embedding = imported(folder).model.state_dict()["target_embedding.weight"]
        assert torch.equal(embedding[1], tensors["shared.weight"][first])


def test_the_prefixes_of_tasks_are_known(tmp_path: Path) -> None:
    tasks = {
        "summarization": {"num_beams": 4, "prefix": "ab: "},
        "translation_en_to_de": {"max_length": 300, "prefix": "b a to c: "},
        **dict.fromkeys(["no object", "translation_a_to_b"], "ab"),
        "no text": {"prefix": 3}, "blank": {"prefix": " "}, "lines": {"prefix": "a\nb"},
        "long": {"prefix": "a" * 101}, "none": {},
    }  # fmt: skip
    write_folder(tmp_path / "t5", {"task_specific_params": tasks})
    checkpoint = imported(tmp_path / "t5")
    assert checkpoint.about.tasks == {"ab: ": ("", ""), "b a to c: ": ("en", "de")}
    translator = Translator(checkpoint)
    assert translator.parts("B a to c: ba ba. Ab ab.") == ["ba ba.", "Ab ab."]
    assert translator.parts("ab: ba ba. Ab ab.") == ["ba ba. Ab ab."]
    for wrong in ([1], "text", {"x": [1]}):
        write_folder(tmp_path / repr(wrong), {"task_specific_params": wrong})
        assert imported(tmp_path / repr(wrong)).about.tasks == {}


def save_bin(folder: Path, tensors: dict[str, Tensor]) -> None:
    torch.save(tensors, folder / "pytorch_model.bin")


def save_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    files = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        part = {name: tensor for name, tensor in tensors.items() if files[name] == file}
        safetensors.torch.save_file(part, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))


def save_halves(folder: Path, tensors: dict[str, Tensor]) -> None:
    halves = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    tensors.update({name: half.float() for name, half in halves.items()})
    safetensors.torch.save_file(halves, folder / "model.safetensors")


def save_copies(folder: Path, tensors: dict[str, Tensor]) -> None:
    shared = tensors["shared.weight"]
    copies = {f"{stack}.embed_tokens.weight": shared.clone() for stack in ("encoder", "decoder")}
    copies["lm_head.weight"] = shared.clone()
    old = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    copies[old] = torch.zeros(8, 2)
    safetensors.torch.save_file({**tensors, **copies}, folder / "model.safetensors")


@pytest.mark.parametrize("save", [save_bin, save_shards, save_halves, save_copies])
def test_every_kind_of_file_gives_the_same_weights(
    tmp_path: Path, save: Callable[[Path, dict[str, Tensor]], None]
) -> None:
    tensors = write_folder(tmp_path / "t5")
    (tmp_path / "t5" / "model.safetensors").unlink()
    save(tmp_path / "t5", tensors)
    weights = dict(imported(tmp_path / "t5").model.named_parameters())
    assert torch.equal(weights["target_embedding.weight"], tensors["shared.weight"][rows_of()])
    wo = tensors["decoder.block.2.layer.2.DenseReluDense.wo.weight"]
    assert torch.equal(weights["decoder.2.outer.weight"], wo)
    assert "output.weight" not in weights


def best_pieces(text: str) -> list[int]:
    """Return the ids of the most probable segmentation of each word, by enumeration."""
    scores = {piece: (id, score) for id, (piece, score) in enumerate(PIECES) if id > 2}
    least = min(score for _, score in PIECES) - 10  # what an unknown character costs
    ids: list[int] = []
    for word in ("▁" + word for word in text.split()):
        best: tuple[float, list[int]] = (-math.inf, [])
        for cuts in itertools.product((False, True), repeat=len(word) - 1):
            bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(word)]
            parts = [word[a:b] for a, b in itertools.pairwise(bounds)]
            if any(part not in scores and len(part) > 1 for part in parts):
                continue
            known = [scores.get(part, (2, least)) for part in parts]
            best = max(best, (sum(score for _, score in known), [id for id, _ in known]))
        runs = itertools.groupby(best[1])  # unknown characters in a row are one token
        ids += [i for id, run in runs for i in ([2] if id == 2 else run)]
    return ids


TEXTS = ["a b ab", "  abba  cab ", "c漢字a 😀", "", "ab\tabab\nbbb", "</s> <unk>"]


def test_token_ids_are_those_of_the_most_probable_pieces(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5")
    tokenizer = imported(tmp_path / "t5").source_tokenizer
    rows = rows_of()
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert [rows[id] for id in ids] == best_pieces(text)
        assert not {0, 1, 2} & set(ids)
    assert [rows[id] for id in tokenizer.encode(["a<extra_id_0> b"])[0]] == [6, 18, 3, 5]
    assert tokenizer.decode(tokenizer.encode(["abba  c<extra_id_1> a"])[0]) == "abba c a"
    assert tokenizer.token(VOCABULARY) == f"<unused_{VOCABULARY - 1}>"


def test_a_tag_chooses_the_target_language(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5")
    tokenizer = imported(tmp_path / "t5").source_tokenizer
    tagged, written = tokenizer.encode(["<2de> ab"])[0], tokenizer.encode(["ab"])[0]
    assert tagged == [tokenizer.tags["de"], *written]
    assert tokenizer.for_language("de").encode(["ab"])[0] == tagged
    assert (set(tokenizer.tags), tokenizer.tags_of) == ({"de", "fr"}, "target")


def message(number: int, value: bytes | int) -> bytes:
    """Return a field of protocol buffers."""

    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(extra: list[tuple[str, float, int]]) -> bytes:
    """Return a SentencePiece model with the pieces above."""
    kinds = {"<pad>": 3, "</s>": 3, "<unk>": 2, "<2de>": 4, "<2fr>": 4}
    pieces = [(piece, score, kinds.get(piece, 1)) for piece, score in PIECES] + extra
    content = b""
    for piece, score, kind in pieces:
        fields = message(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + message(3, kind)
        content += message(1, fields)
    trainer = message(3, 1) + message(35, int(bool(extra))) + message(40, 2)
    trainer += message(41, 2**64 - 1) + message(42, 1) + message(43, 0)
    return content + message(2, trainer) + message(3, message(1, b"identity"))


@pytest.mark.parametrize("by_bytes", [False, True])
def test_a_sentencepiece_model_gives_the_ids_of_its_library(tmp_path: Path, by_bytes: bool) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    extra = [(f"<0x{byte:02X}>", -30.0, 6) for byte in range(256)] if by_bytes else []
    size = len(PIECES) + len(extra) + 2
    write_folder(tmp_path / "t5", {"vocab_size": size})
    (tmp_path / "t5" / "tokenizer.json").unlink()
    content = sentencepiece_model(extra)
    (tmp_path / "t5" / "spiece.model").write_bytes(content)
    tokenizer = imported(tmp_path / "t5").source_tokenizer
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    rows = [0, 0, 1, 2, *range(3, size)]
    # Without a normalization table, the library leaves tabs and line ends as they are.
    texts = [text for text in TEXTS if "\t" not in text]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert [rows[id] for id in ids] == processor.encode(text)
        if 3 not in ids:
            assert tokenizer.decode(ids) == processor.decode(processor.encode(text))
    assert [rows[i] for i in tokenizer.encode(["<extra_id_0>"])[0]] == [size - 1]


def test_byt5_reads_and_writes_bytes(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5", {"vocab_size": 384})
    (tmp_path / "t5" / "tokenizer.json").unlink()
    (tmp_path / "t5" / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    tokenizer = imported(tmp_path / "t5").source_tokenizer
    for text in ("Zwei Hunde.", "é  ▁ 😀\0\n</s>", "漢字"):
        (ids,) = tokenizer.encode([text])
        assert [id - 1 for id in ids] == [byte + 3 for byte in text.encode()]
        assert tokenizer.decode(ids) == text.strip()
    assert tokenizer.encode(["<extra_id_3>"]) == [[259 + 3 + 1]]
    assert tokenizer.size == 385


def test_padding_may_be_another_special_token(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5", {"pad_token_id": 18})  # MADLAD-400 pads with <s>
    assert len(imported(tmp_path / "t5").source_tokenizer.encode(["ab"])[0]) == 1


def test_sentinels_and_added_tokens_of_byt5_are_those_that_its_files_name(tmp_path: Path) -> None:
    write_folder(tmp_path / "t5", {"vocab_size": 270})
    (tmp_path / "t5" / "tokenizer.json").unlink()
    decoder = {"0": {"content": "<pad>"}, "260": {"content": "<hl>"}}
    settings = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 1, "added_tokens_decoder": decoder}
    (tmp_path / "t5" / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "t5" / "added_tokens.json").write_text('{"dog": 261}')
    tokenizer = imported(tmp_path / "t5").source_tokenizer
    assert tokenizer.encode(["<extra_id_0>a<hl>dog"]) == [[260, ord("a") + 4, 261, 262]]
    assert len(tokenizer.encode(["<extra_id_1>"])[0]) == len("<extra_id_1>")
    assert tokenizer.decode([261, ord("a") + 4, 262]) == "<hl>adog"
