"""The readers of untrusted bytes that `fuzz` attacks, each with valid inputs to change."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import click
import sentencepiece
import sentencepiece.sentencepiece_model_pb2
from tokenizers import normalizers

from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.format import describe
from zoo.checkpoint.scores import read_scores
from zoo.checkpoint.tensors import read_tensors
from zoo.cli import cli, settings
from zoo.data import corpus
from zoo.data.charsmap import fault_of_charsmap
from zoo.data.compressed import open_text
from zoo.data.csv import read_csv
from zoo.data.foreign_engines import SentencePiece, TokenizersPipeline, Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from zoo.data.jsonl import read_jsonl
from zoo.data.readers import read_tsv
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.hub import folder as folder_hub
from zoo.registry import catalogue
from zoo.registry.address import Address
from zoo.registry.recipe import Recipe
from zoo.registry.records import read_metrics
from zoo.registry.registry import default_registry
from zoo.translation.shards import join

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
KINDS = ("word", "char", "bpe", "unigram")


class Reader(NamedTuple):
    """A function that reads a file, the valid files that are changed, and the modules it is in.

    `share` is its part of the inputs: slow readers get fewer.
    """

    name: str
    read: Callable[[Path], object]
    valid: list[bytes]
    modules: tuple[str, ...]
    share: float = 1.0


def _describe(file: Path) -> object:
    beside = file.parent / "checkpoint"
    beside.mkdir(exist_ok=True)
    for name in ("model.safetensors", "tokenizer.json"):
        (beside / name).touch()
    (beside / "config.json").write_bytes(file.read_bytes())
    description = describe(beside)
    architecture = default_registry().architecture(description["architecture"])
    config = architecture.config_type().parse(description["config"], "config")
    return config.parameters(description["source_vocab"], description["target_vocab"]).total


def _scores(file: Path) -> object:
    (file.parent / "scores.json").write_bytes(file.read_bytes())
    return read_scores(file.parent)


def _token_files(file: Path) -> object:
    (file.parent / "corpus.json").write_bytes(file.read_bytes())
    for name in ("source", "target"):
        for kind in corpus.KINDS:
            (file.parent / f"{name}.{kind}").write_bytes(b"\0" * 16)
    return corpus._map(file.parent)


def _address(file: Path) -> object:
    address = Address.parse(file.read_bytes().decode("utf-8", "surrogateescape"))
    assert Address.parse(str(address)) == address
    return address


def _recipe(file: Path) -> object:
    return Recipe.parse(read_json(file), "recipe")


def _named(suffix: str, read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a reader of a file with another name."""

    def read_it(file: Path) -> object:
        return read(file.rename(file.with_name(f"input{suffix}")))

    return read_it


def _text(file: Path) -> object:
    with open_text(file) as stream:
        return stream.read()


def _settings(file: Path) -> object:
    with patch.dict(os.environ, ZOO_SETTINGS=str(file)), click.Context(cli) as context:
        return settings.read_settings({n: c for n in cli.list_commands(context)
                                       if (c := cli.get_command(context, n))})  # fmt: skip


def _join(file: Path) -> object:
    (file.parent / "out.1-of-1").write_bytes(b"Ein Hund.\n")
    (file.parent / "out.1-of-1.json").write_bytes(file.read_bytes())
    return join(file.parent / "out")


def _encode(file: Path) -> object:
    tokenizer = load_tokenizer(file, default_registry())
    return tokenizer.decode(tokenizer.encode(["the dog ﬁ \U0001f600"])[0])


def _charsmap(file: Path) -> object:
    encoded = base64.b64encode(file.read_bytes()).decode()
    if fault := fault_of_charsmap(encoded):
        raise CheckpointError("a map is refused", fault)
    return normalizers.Precompiled(file.read_bytes()).normalize_str("the ﬁne dog Ⅳ ½ ｱ \U0001f600")


def _sentencepiece() -> bytes:
    """Return a small model, whose map has two characters."""
    with tempfile.TemporaryDirectory() as name:
        rules, model = Path(name, "rules.tsv"), io.BytesIO()
        rules.write_text("FB01\t66 69\nBD\t31 2F 32\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the dog runs"] * 9), model_writer=model, vocab_size=20,
            normalization_rule_tsv=str(rules), minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
    return model.getvalue()


def _of_map(model: bytes) -> bytes:
    proto = sentencepiece.sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made when it is imported
    proto.ParseFromString(model)
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def tokenizers() -> list[Reader]:
    """Return the readers of tokenizers, and of what is in them."""
    text = "the dog runs"
    own = [Tokenizer.train([text] * 9 + ["der Hund"], kind, 40) for kind in KINDS]
    model, json_of_bpe = _sentencepiece(), json.loads(own[KINDS.index("bpe")].to_json())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    of_pieces = Vocabulary((*SPECIALS, *pieces))
    of_words = Vocabulary(tuple(own[KINDS.index("bpe")].vocabulary()))
    engines = [
        (SentencePiece(model, of_pieces), of_pieces),
        (TokenizersPipeline(json_of_bpe, range(len(of_words.tokens)), of_words), of_words),
    ]  # fmt: skip
    foreign: list[Tokenizer] = [ForeignTokenizer(*engine) for engine in engines]
    joined = SourceTokenizer({"main": own[0], "tags": own[1]})
    return [
        Reader("tokenizer.json", _encode, [t.to_json().encode() for t in own],
               ("data.tokenizer_check", "data.tokenizer_models", "data.tokenizer_regex"), 0.3),
        Reader("tokenizer.json of others", _encode,
               [t.to_json().encode() for t in (*foreign, joined)],
               ("data.foreign_tokenizer", "data.foreign_engines", "data.source_tokenizer"), 0.3),
        Reader("character map", _charsmap, [_of_map(model)], ("data.charsmap",)),
    ]  # fmt: skip


def files() -> list[Reader]:
    """Return the readers of single files."""

    def of(name: str) -> bytes:
        return (RELEASED / name).read_bytes()

    def text(value: object) -> bytes:
        return json.dumps(value).encode()

    header = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    score = {"data": "a", "split": "test", "bleu": 1.5, "bleu_signature": "s", "beam": 5}
    map_of = {"sequences": 1, "tokens": 8, "type": "<u2"}
    tokens = {"source": map_of, "target": map_of, "left_out": {"empty": 0, "long": 0},
              "fingerprint": "a"}  # fmt: skip
    about = {"source_languages": ["en"], "decoding": {"beam": 5}, "origin": "trained"}
    sha = "0" * 64
    manifest = f"{sha} 5 config.json\n{sha} 9 model.safetensors\n".encode()
    pinned = f"hf://ann/small@{'0' * 40}".encode()
    listed = f'''format = 1
[checkpoints.a]
model = "m"
dataset = "d"
summary = "s"
location = "{pinned.decode()}"
files."config.json" = {{ size = 1, sha256 = "{sha}" }}
'''.encode()
    record = {"input": "a", "lines": 1, "shard": [1, 1], "beam": 5, "left": 0, "bytes": 10}
    lines = b"the dog\tder Hund\n" * 5
    report = {"step": 10, "epoch": 1, "loss": 2.5, "learning_rate": 1e-3, "minutes": 0.5}
    validation = {"step": 20, "validation_loss": 2.0, "bleu": 10.0,
                  "samples": [{"source": "the dog", "target": "der Hund"}]}  # fmt: skip
    options = b'[aliases]\nde = "a.multi30k"\n[defaults.translate]\nbeam = 5\nsplit = false\n'
    return [
        *tokenizers(),
        Reader("config.json", _describe, [of("config.json")], ("checkpoint.format",), 0.3),
        Reader("about", lambda f: About.parse(read_json(f)), [text(about)], ("checkpoint.about",)),
        Reader("training.json", lambda f: read_json(f, TEXT_LIMIT), [of("training.json")],
               ("files",), 0.01),
        Reader("safetensors", read_tensors,
               [len(header).to_bytes(8, "little") + header + b"\0" * 16], ("checkpoint.tensors",)),
        Reader("card", lambda f: split_card(read_text(f, 1_000_000), "card"), [of("README.md")],
               ("checkpoint.card",), 0.1),
        Reader("scores.json", _scores, [text({"scores": [score]})], ("checkpoint.scores",)),
        Reader("catalogue", lambda f: catalogue.read(f).problems, [listed],
               ("registry.catalogue",)),
        Reader("address", _address, [pinned, b"file:///a/b@main"], ("registry.address",)),
        Reader("recipe", _recipe, [Recipe().model_dump_json().encode()], ("registry.recipe",), 0.3),
        Reader("TSV", lambda f: list(read_tsv(f)), [lines], ("data.readers",)),
        Reader("CSV", lambda f: list(read_csv(f)),
               [b'source,target\n"the ""dog""",der Hund\n', b"de;source;target\n1;a;b\n"],
               ("data.csv",)),
        Reader("gzip", _named(".gz", _text), [gzip.compress(lines)], ("data.compressed",)),
        Reader("bzip2", _named(".bz2", _text), [bz2.compress(lines)], ("data.compressed",)),
        Reader("xz", _named(".xz", _text), [lzma.compress(lines)], ("data.compressed",)),
        Reader("metrics.jsonl", read_metrics, [text(report) + b"\n" + text(validation) + b"\n"],
               ("registry.records",)),
        Reader("record of a shard", _join, [text(record)], ("translation.shards",), 0.2),
        Reader("settings.toml", _settings, [options], ("cli.settings",), 0.1),
        Reader("JSON lines", lambda f: list(read_jsonl(f, ("a", "b"))),
               [text({"a": "the dog", "b": "der Hund"}) + b"\n"], ("data.jsonl",)),
        Reader("token files", _token_files, [text(tokens)], ("data.corpus",), 0.3),
        Reader("manifest", lambda f: folder_hub._read_manifest(
            f, folder_hub.commit_name(f.read_bytes().decode("utf-8", "replace"))), [manifest],
            ("hub.folder",)),
    ]  # fmt: skip


def readers() -> list[Reader]:
    """Return all readers."""
    from tests.campaigns import folders, hub_answers

    return [*files(), folders.requests(), hub_answers.pulls(), *folders.foreign(), *folders.runs()]
