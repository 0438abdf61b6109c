"""OpenNMT-py's checkpoints, written in its layout, compared with networks of torch's layers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.interop.layouts import batch, our_ids, randomize
from tests.interop.opennmt_layout import (
    SPECIALS,
    TRANSFORMER,
    Recurrent,
    Transformer,
    tokens_of,
    write,
)
from tests.interop.test_fairseq import SIZES, D
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry


def load(folder: Path, **options: str) -> Checkpoint:
    registry = default_registry()
    made = import_checkpoint(folder, folder / "out", registry, "opennmt", options)
    assert made.startswith("opennmt-")
    return read(folder / "out", registry)


def check(folder: Path, network: nn.Module, shared: bool = False, start: int = 2) -> Checkpoint:
    """Compare the logits of a padded batch; OpenNMT-py's source has no end token."""
    checkpoint = load(folder)
    sizes = (SIZES[1], SIZES[1]) if shared else SIZES
    source, target = batch(sizes, SPECIALS, start)
    model = checkpoint.model.double().eval()
    tables = [our_ids(SPECIALS, size) for size in sizes]
    own, given = tables[0][source], tables[1][target]
    given[:, 0] = 1
    with torch.no_grad():
        actual = model(own, own != 0, given).logits[..., tables[1]]
        expected = network.double().eval()(source.where(source != 3, 1), target)
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-6)
    return checkpoint


TRANSFORMERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "gelu": ({"activation_fn": "gelu"}, {"pos_ffn_activation_fn": "gelu"}),
    "no biases": ({"bias": False}, {}),
    "two heads of keys": ({"num_kv": 2}, {"num_kv": 2}),
    "multiquery": ({"num_kv": 1, "bias": False}, {"multiquery": True, "num_kv": 0}),
    "sines, then cosines": (
        {"positions": "fairseq"}, {"position_encoding_type": "SinusoidalConcat"}),
    "no positions": ({"positions": "none"}, {"position_encoding": False}),
    "epsilon": ({"eps": 1e-2}, {"norm_eps": 1e-2}),
    "tied": ({"share_decoder_input_output_embed": True}, {"share_decoder_embeddings": True}),
    "shared": ({"share_all_embeddings": True},
               {"share_embeddings": True, "share_vocab": True, "share_decoder_embeddings": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformer(name: str, tmp_path: Path) -> None:
    given, opt = TRANSFORMERS[name]
    network = Transformer(given)
    randomize(network)
    network.limit()
    write(tmp_path, network.state(), TRANSFORMER | opt)
    checkpoint = check(tmp_path, network, shared="share_embeddings" in opt)
    config = checkpoint.config.model_dump()
    assert config["share"] == {"tied": "target", "shared": "all"}.get(name, "none")
    assert (config["attention_bias"], config["source_end"]) == (given.get("bias", True), False)


@pytest.mark.parametrize("apart", [True, False])
def test_the_decoder_may_begin_with_another_token(apart: bool, tmp_path: Path) -> None:
    """A tied generator is stored apart then: the begin token has the row of the other one."""
    network = Transformer({"share_decoder_input_output_embed": True})
    randomize(network)
    opt = TRANSFORMER | {"share_decoder_embeddings": True}
    write(tmp_path, network.state(), opt, apart=apart, decoder_start_token="</s>")
    checkpoint = check(tmp_path, network, start=3)
    assert checkpoint.config.model_dump()["share"] == "none"


def test_version_2(tmp_path: Path) -> None:
    """Its vocabularies are torchtext's, its sizes and norms have other names."""
    network = Transformer({})
    randomize(network)
    state = {
        key.replace("layer_norm.weight", "layer_norm.a_2").replace("layer_norm.bias",
                                                                   "layer_norm.b_2"): value
        for key, value in network.state().items()
    }  # fmt: skip
    opt = {**TRANSFORMER, "rnn_size": D, "decoder_rnn_size": 99, "hidden_size": None}
    write(tmp_path, state, opt, version=2)
    checkpoint = check(tmp_path, network)
    assert checkpoint.source_tokenizer.encode([" a0\u00a0 a3  x"]) == [[4, 7, 3]]


def test_a_source_without_begin_and_end(tmp_path: Path) -> None:
    network = Recurrent({"attention": "dot"})
    randomize(network)
    tokens = tokens_of(SIZES[0], "a")
    write(tmp_path, network.state(), network.settings(), version=2,
          src=["<unk>", "<blank>", *tokens[4:], "more", "words"])  # fmt: skip
    checkpoint = load(tmp_path)
    assert checkpoint.source_tokenizer.size == SIZES[0] + 2
    weight = dict(checkpoint.model.named_parameters())["source_embedding.weight"]
    theirs = network.source.weight
    assert torch.equal(weight[:4], theirs[[1, 1, 1, 0]])
    assert torch.equal(weight[4:], theirs[2:])


RECURRENT: list[dict[str, Any]] = [
    {"attention": "general"},
    {"attention": "dot", "both": True},
    {"attention": "mlp", "feed": False},
    {"attention": "general", "bridge": True},
    {"attention": "mlp", "bridge": True, "both": True},
]


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize("given", RECURRENT, ids=str)
def test_recurrent(cell: str, given: dict[str, Any], tmp_path: Path) -> None:
    network = Recurrent({**given, "rnn_type": cell})
    randomize(network)
    write(tmp_path, network.state(), network.settings())
    check(tmp_path, network)


def words_of(checkpoint: Checkpoint, text: str) -> list[str]:
    tokenizer = checkpoint.source_tokenizer
    return [tokenizer.token(i) for i in tokenizer.encode([text])[0]]


def toy(folder: Path, version: int = 3, src: list[str] | None = None, **opt: Any) -> None:
    network = Recurrent({"attention": "dot"})
    sides: dict[str, Any] = (
        {} if src is None else {"src": (tokens_of(4, "") + src + tokens_of(19, "a")[4:])[:19]}
    )
    write(folder, network.state(), network.settings() | opt, version, **sides)


def test_words(tmp_path: Path) -> None:
    toy(tmp_path, src=["", "a\u00a0b"])
    checkpoint = load(tmp_path)
    assert words_of(checkpoint, " a0  a\u00a0b x ") == ["a0", "", "a\u00a0b", "<unk>"]
    assert checkpoint.target_tokenizer.decode([4, 3, 5]) == "b0 ⁇ b1"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chosen", [True, False])
def test_byte_pair_codes(version: int, chosen: bool, tmp_path: Path) -> None:
    (tmp_path / "a.codes").write_text("#version: 0.2\na b\nab c</w>\n", encoding="utf-8")
    (tmp_path / "b.codes").write_text("#version: 0.2\nx y</w>\n", encoding="utf-8")
    named = {"src_subword_model": "/data/a.codes", "tgt_subword_model": "/data/b.codes",
             "data": {"one": {"transforms": ["bpe", "filtertoolong"]}}}  # fmt: skip
    toy(tmp_path, version, ["abc", "ab@@", "d"], **({} if chosen else named))
    options = {"source_subwords": "a.codes", "target_subwords": "b.codes"} if chosen else {}
    checkpoint = load(tmp_path, **options)
    assert words_of(checkpoint, "abc abd  d") == ["abc", "ab@@", "d", "d"]
    assert checkpoint.target_tokenizer.decode([4, 5]) == "b0 b1"


def test_sentencepiece(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = ["ein hund läuft", "zwei katzen schlafen", "ein kind lacht"] * 5
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "spm"), vocab_size=30,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())][:15]
    for kind in ("sentencepiece", "onmt_tokenize"):
        more = {"src_onmttok_kwargs": "{'mode': 'none'}", "src_subword_type": "sentencepiece"}
        toy(tmp_path, 3, pieces, transforms=[kind], share_vocab=True,
            src_subword_model="elsewhere/spm.model", **(more if kind != "sentencepiece" else {}),
            share_embeddings=False)  # fmt: skip
        checkpoint = load(tmp_path)
        expected = [piece if piece in pieces else "<unk>" for piece in model.encode(
            "ein kind schläft", out_type=str)]  # fmt: skip
        assert words_of(checkpoint, " ein  kind schläft\t") == expected
        shutil.rmtree(tmp_path / "out")
