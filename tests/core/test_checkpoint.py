"""The checkpoint folder: written completely or not at all, and read strictly."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import safetensors.torch
import torch

import zoo
from tests.core.test_training import PLAIN, SMALL
from zoo.checkpoint.tensors import (
    DTYPES,
    LazyTensors,
    open_tensors,
    read_tensors,
    write_tensors,
)
from zoo.errors import CheckpointError, DecodingError, PluginError, ZooError
from zoo.files import whole_folder
from zoo.registry.registry import Registry, default_registry
from zoo.translation.parts import MAX_SOURCE_LENGTH

TINY: dict[str, dict[str, Any]] = {
    "rnnsearch-tiny": SMALL,
    "seq2seq-tiny": {"embedding_dim": 16, "hidden_dim": 32, "tokenizer": "char"},
    "transformer-tiny": {**PLAIN, "dim": 16, "heads": 2, "feedforward_dim": 16, "vocab_size": 60},
    "convs2s-tiny": {
        "embedding_dim": 16, "output_dim": 16, "encoder": [[16, 3]], "decoder": [[16, 3]],
        "max_positions": 40, "tokenizer": "unigram", "vocab_size": 60,
    },
}  # fmt: skip


@pytest.fixture(scope="session", params=sorted(TINY))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of each family, trained for a few updates."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "a.tsv").write_text("".join(f"the dog {n} runs\tder Hund {n} rennt\n" for n in "abcd"
                                          "efghijklmnopqrstuvwxyz"))  # fmt: skip
    settings = TINY[request.param]
    return zoo.train(request.param, str(folder / "a.tsv"), folder / "out", settings=settings,
                     steps=12)  # fmt: skip


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_a_checkpoint_has_the_files_of_the_format(trained: Path) -> None:
    files = {f.name for f in trained.iterdir()}
    assert files == {
        "config.json", "model.safetensors", "source.tokenizer.json", "target.tokenizer.json",
        "README.md", "training.json", "curve.png", "source-words.txt",
    }  # fmt: skip
    assert "dog" in zoo.load(trained).checkpoint.words
    config = json.loads((trained / "config.json").read_text())
    assert config["format"] == 1
    assert config["plugin"] == {"package": "seq2seq-zoo", "version": zoo.__version__}
    assert not [f for f in trained.parent.iterdir() if f.name.startswith(".")]


def test_a_checkpoint_can_be_moved(trained: Path, tmp_path: Path) -> None:
    texts = ["the dog a runs", "", "  ", "dog q", "the dog the dog"]
    before = list(zoo.load(trained).stream(texts))
    moved = shutil.copytree(trained, tmp_path / "elsewhere")
    after = list(zoo.load(str(moved)).stream(texts))
    assert after == before
    assert [t.text for t in after][1:3] == ["", ""]
    assert zoo.load(moved).translate(texts) == [t.text for t in before]
    assert zoo.load(moved).translate(texts[0]) == before[0].text


def test_half_precision_weights_are_read(copied: Path) -> None:
    half = {n: w.half() for n, w in read_tensors(copied / "model.safetensors").items()}
    write_tensors(copied / "model.safetensors", half)
    model = zoo.load(copied).checkpoint.model
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "source.tokenizer.json",
                                  "target.tokenizer.json"])  # fmt: skip
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "other"])
def test_a_damaged_file_is_reported_in_one_line(copied: Path, file: str, damage: str) -> None:
    path = copied / file
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        kept = {"truncated": content[: len(content) // 2], "empty": b"", "other": b"<html></html>"}
        path.write_bytes(kept[damage])
    with pytest.raises(CheckpointError, match=file.replace(".", r"\.")) as error:
        zoo.load(copied)
    assert "\n" not in str(error.value)


def test_all_missing_files_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config.json, no model.safetensors, no source"):
        zoo.load(tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint 'nowhere'"):
        zoo.load("nowhere")


def test_all_weights_that_do_not_fit_are_listed(copied: Path) -> None:
    weights = read_tensors(copied / "model.safetensors")
    first, second = list(weights)[:2]
    weights["surprise"] = weights.pop(first)
    weights[second] = torch.zeros(3)
    write_tensors(copied / "model.safetensors", weights)
    with pytest.raises(CheckpointError) as error:
        zoo.load(copied)
    message = str(error.value)
    assert f"{first} is missing" in message
    assert "surprise is not a weight of this network" in message
    assert f"{second} is (3,), not" in message


def edit(folder: Path, **values: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.mark.parametrize(
    ("values", "message", "kind"),
    [
        ({"format": 2}, "has format 2: this version of the zoo reads format 1", CheckpointError),
        ({"architecture": 5, "tied": 3}, "'architecture' must be of type str; 'tied'", ZooError),
        ({"architecture": "gone"}, f"written with seq2seq-zoo {zoo.__version__}", PluginError),
        ({"config": {"surprise": 1}}, "unknown key 'surprise'", ZooError),
        (
            {"source_vocab": 9},
            "source tokenizer has .* entries, and config.json says 9",
            ZooError,
        ),
    ],
)
def test_a_config_that_does_not_fit(
    copied: Path, values: dict[str, object], message: str, kind: type[ZooError]
) -> None:
    edit(copied, **values)
    with pytest.raises(kind, match=message):
        zoo.load(copied)


def test_a_text_too_long_for_the_model_is_rejected(trained: Path) -> None:
    translator = zoo.load(trained)
    model_limit = translator.checkpoint.config.length_limits.source
    limit = min(model_limit or MAX_SOURCE_LENGTH, MAX_SOURCE_LENGTH)
    assert translator.translate(["a", " " * 3000])[1] == "", "a blank line stays empty"
    expected = f"reads {limit:,} at most" if model_limit else f"max_source_length is {limit:,}"
    with pytest.raises(DecodingError, match=f"text 2 is too long: .* {expected}"):
        translator.translate(["a", "a b " * 600])
    assert translator.translate("a b " * 600, long_texts="split", max_length=3)


def test_a_stream_is_read_lazily(trained: Path) -> None:
    read_lines = []

    def lines() -> Any:
        for i in range(10):
            read_lines.append(i)
            yield "the dog a runs"

    stream = zoo.load(trained).stream(lines(), window=2)
    next(stream)
    assert read_lines == [0, 1]


def test_order_is_kept_with_any_batches(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"the dog {'a ' * (i % 7)} runs {i}" for i in range(40)]
    translator = zoo.load(trained)
    # The network has hardly learned, and would never end.
    expected = [translator.translate(text, max_length=12) for text in texts]
    assert translator.translate(texts, max_length=12) == expected
    monkeypatch.setattr("zoo.translation.text_search.BATCH_TOKENS", 30)
    assert translator.translate(texts, max_length=12) == expected
    assert [t.source for t in translator.stream(texts, max_length=12)] == texts


def test_tied_weights_are_stored_once(tmp_path: Path, registry: Registry) -> None:
    """A network that uses one parameter twice loads it as one parameter."""
    from zoo.checkpoint import checkpoint
    from zoo.checkpoint.checkpoint import Checkpoint
    from zoo.data.tokenizer import Tokenizer
    from zoo.nn.build import build, network_type

    network = network_type(registry.architecture("seq2seq"))

    class Tied(network):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.output.weight = self.target_embedding.weight

    config = registry.config("seq2seq-tiny", {"embedding_dim": 32, "hidden_dim": 32})
    tokenizer = Tokenizer.train(["a b c d"], "word", 20)
    model = build(Tied, config, tokenizer.size, tokenizer.size)
    tied = Checkpoint("x", "seq2seq-tiny", "seq2seq", config, model, tokenizer, tokenizer)
    checkpoint.write(tmp_path / "x", tied, registry, "card", {})
    written = json.loads((tmp_path / "x" / "config.json").read_text())
    assert written["tied"] == {"output.weight": "target_embedding.weight"}
    assert "output.weight" not in read_tensors(tmp_path / "x" / "model.safetensors")
    twice = read_tensors(tmp_path / "x" / "model.safetensors")
    twice["output.weight"] = twice["target_embedding.weight"].clone()
    write_tensors(tmp_path / "twice.safetensors", twice)
    other = build(Tied, config, tokenizer.size, tokenizer.size, "meta")
    with pytest.raises(CheckpointError, match="is stored although it is tied to target_embedding"):
        checkpoint.load_weights(other, tmp_path / "twice.safetensors", written["tied"], "cpu")
    checkpoint.load_weights(other, tmp_path / "x" / "model.safetensors", written["tied"], "cpu")
    assert len(list(other.parameters())) == len(list(model.parameters()))
    assert other.output.weight is other.target_embedding.weight  # type: ignore[union-attr]
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_folder_whose_block_fails_is_removed(tmp_path: Path) -> None:
    def fail(replace: bool) -> None:
        with (
            contextlib.suppress(ZeroDivisionError),
            whole_folder(tmp_path / "out", replace=replace) as part,
        ):
            (part / "file").write_text("new")
            assert 1 / 0

    fail(replace=False)
    assert not list(tmp_path.iterdir())
    with whole_folder(tmp_path / "out") as part:
        (part / "file").write_text("old")
    fail(replace=True)
    assert (tmp_path / "out" / "file").read_text() == "old"
    with whole_folder(tmp_path / "out", replace=True) as part:
        (part / "file").write_text("new")
    assert (tmp_path / "out" / "file").read_text() == "new"
    assert [f.name for f in tmp_path.iterdir()] == ["out"]
    with (
        pytest.raises(CheckpointError, match="already exists"),
        whole_folder(tmp_path / "out") as part,
    ):
        (part / "file").write_text("newer")
    assert (tmp_path / "out" / "file").read_text() == "new"


def test_a_released_checkpoint_is_loaded_by_name(trained: Path, tmp_path: Path) -> None:
    registry = Registry(default_registry().plugins)
    catalogue = tmp_path / "registry.toml"
    catalogue.write_text(
        'format = 1\n[checkpoints."x.y"]\nmodel = "m"\ndataset = "d"\nsummary = "s"\n'
    )
    registry.read_catalogue(catalogue)
    shutil.copytree(trained, tmp_path / "cards" / "checkpoints" / "x.y")
    assert zoo.load("x.y", registry=registry).translate("the dog a runs") == zoo.load(
        trained
    ).translate("the dog a runs")


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_tensors_equal_those_read_by_the_safetensors_library(tmp_path: Path, dtype: str) -> None:
    numbers = torch.arange(24).to(DTYPES[dtype]).view(2, 3, 4)
    tensors = {
        "b": numbers,
        "a": numbers[1, 1, 1].clone(),
        "empty": numbers[:, :0].clone(),
        "c": torch.ones(3, dtype=torch.uint8),
    }
    file = tmp_path / "x.safetensors"
    try:
        safetensors.torch.save_file(tensors, file, metadata={"format": "pt", "more": "é"})
    except KeyError:
        pytest.skip(f"this version of safetensors cannot write {dtype}")
    by_library = safetensors.torch.load_file(file)
    by_zoo = read_tensors(file)
    assert by_zoo.keys() == by_library.keys()
    for name, tensor in by_zoo.items():
        other = by_library[name]
        assert (tensor.dtype, tensor.shape) == (other.dtype, other.shape)
        assert torch.equal(tensor.ravel().view(torch.uint8), other.ravel().view(torch.uint8))
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, "the tensor shares no storage"
    write_tensors(tmp_path / "y.safetensors", by_zoo)
    assert (tmp_path / "y.safetensors").read_bytes() == safetensors.torch.save(tensors)


def test_a_file_that_is_truncated_while_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    write_tensors(file, {"a": torch.zeros(1000)})
    with open_tensors(file) as opened:
        os.truncate(file, 2000)
        with pytest.raises(CheckpointError, match="it became shorter while it was read"):
            opened.read()


def test_nothing_is_pickled(trained: Path, forbid_pickle: Callable[[], None]) -> None:
    forbid_pickle()
    with pytest.raises(AssertionError, match="pickle"):
        torch.load(trained / "model.safetensors")
    assert zoo.load(trained).translate("the dog a runs") is not None
    assert safetensors.torch.load_file(trained / "model.safetensors")


@pytest.fixture
def forbid_pickle(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("pickle was used")

        monkeypatch.setattr("torch.load", refuse)
        monkeypatch.setattr("pickle.load", refuse)
        monkeypatch.setattr("pickle.loads", refuse)
        monkeypatch.setattr("pickle.Unpickler", refuse)

    return forbid


def test_lazy_tensors_are_read_one_by_one_and_a_lazy_mapping_is_looked_up_once(
    tmp_path: Path,
) -> None:
    tensors = {"b": torch.randn(3, 2), "a": torch.randn(4), "c": torch.ones(2, dtype=torch.int64)}
    write_tensors(tmp_path / "x.safetensors", tensors)
    lazy = LazyTensors(tmp_path / "x.safetensors")
    assert set(lazy) == set(tensors)
    assert all(torch.equal(lazy[name], tensor) for name, tensor in tensors.items())

    class Once(dict[str, torch.Tensor]):
        looked_up: ClassVar[list[str]] = []

        def __getitem__(self, name: str) -> torch.Tensor:
            self.looked_up.append(name)
            return super().__getitem__(name)

    like = {name: tensor.to("meta") for name, tensor in tensors.items()}
    write_tensors(tmp_path / "y.safetensors", Once(tensors), like)
    assert sorted(Once.looked_up) == ["a", "b", "c"]
    content = (tmp_path / "y.safetensors").read_bytes()
    assert content == (tmp_path / "x.safetensors").read_bytes() == safetensors.torch.save(tensors)
    with pytest.raises(ValueError, match="b is not of the type and shape"):
        write_tensors(tmp_path / "z.safetensors", {**tensors, "b": torch.zeros(1)}, like)
    (tmp_path / "x.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError):
        lazy["a"]
