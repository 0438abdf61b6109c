"""The readers of untrusted bytes that `fuzz` attacks, each with valid inputs to change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.format import describe
from zoo.checkpoint.scores import read_scores
from zoo.checkpoint.tensors import read_tensors
from zoo.data import corpus
from zoo.data.readers import read_jsonl, read_tsv
from zoo.data.tokenizer import Tokenizer
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.hub import folder as folder_hub
from zoo.registry import catalogue
from zoo.registry.address import Address
from zoo.registry.recipe import Recipe
from zoo.registry.registry import default_registry

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"


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


def files() -> list[Reader]:
    """Return the readers of single files."""

    def of(name: str) -> bytes:
        return (RELEASED / name).read_bytes()

    def text(value: object) -> bytes:
        return json.dumps(value).encode()

    kinds = [Tokenizer.train(["the dog runs"] * 9 + ["der Hund"], kind, 40).to_json().encode()
             for kind in ("word", "char", "bpe", "unigram")]  # fmt: skip
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
    return [
        Reader("config.json", _describe, [of("config.json")], ("checkpoint.format",)),
        Reader("about", lambda f: About.parse(read_json(f)), [text(about)], ("checkpoint.about",)),
        Reader("training.json", lambda f: read_json(f, TEXT_LIMIT), [of("training.json")],
               ("files",)),
        Reader("tokenizer.json", lambda f: Tokenizer.load(f).encode(["the dog ﬁ", "\U0001f600"]),
               kinds, ("data.tokenizer_check", "data.tokenizer_models", "data.tokenizer_regex")),
        Reader("safetensors", read_tensors,
               [len(header).to_bytes(8, "little") + header + b"\0" * 16], ("checkpoint.tensors",)),
        Reader("card", lambda f: split_card(read_text(f, 1_000_000), "card"), [of("README.md")],
               ("checkpoint.card",)),
        Reader("scores.json", _scores, [text({"scores": [score]})], ("checkpoint.scores",)),
        Reader("catalogue", lambda f: catalogue.read(f).problems, [listed],
               ("registry.catalogue",)),
        Reader("address", _address, [pinned, b"file:///a/b@main"], ("registry.address",)),
        Reader("recipe", _recipe, [Recipe().model_dump_json().encode()], ("registry.recipe",)),
        Reader("TSV", lambda f: list(read_tsv(f)), [b"the dog\tder Hund\n" * 5],
               ("data.readers",)),
        Reader("JSON lines", lambda f: list(read_jsonl(f, ("a", "b"))),
               [text({"a": "the dog", "b": "der Hund"}) + b"\n"], ("data.readers",)),
        Reader("token files", _token_files, [text(tokens)], ("data.corpus",)),
        Reader("manifest", lambda f: folder_hub._read_manifest(
            f, folder_hub.commit_name(f.read_bytes().decode("utf-8", "replace"))), [manifest],
            ("hub.folder",)),
    ]  # fmt: skip


def readers() -> list[Reader]:
    """Return all readers."""
    from tests.campaigns import folders

    return [*files(), *folders.foreign(), *folders.runs(), folders.requests()]
