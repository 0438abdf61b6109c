"""Feature vectors as a source: data, training, the checkpoint, Python, files, the command line."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from safetensors.numpy import save_file

import zoo
from tests.core.test_training import same
from tests.examples.data import SETTINGS, phrases
from zoo.data.batches import batch_sources
from zoo.data.features import FeatureReader, Features, read_features
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.errors import CheckpointError, ConfigError, ConversionError, DataError, DecodingError
from zoo.registry.registry import Registry
from zoo.serving.checkpoints import Checkpoints
from zoo.testing import LAWS, Law, case

Run = Callable[..., Result]
DIM = 8
WORDS = sorted({word for source, _ in phrases() for word in source.split()})
VECTORS = dict(zip(WORDS, np.random.default_rng(3).normal(size=(len(WORDS), DIM)), strict=True))
"""How each word is spoken: two frames of this vector."""


def speak(text: str) -> np.ndarray[Any, Any]:
    return np.repeat(np.stack([VECTORS[word] for word in text.split()]), 2, 0)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(law: Law, networks: Registry) -> None:
    law(case("speech", networks))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, trained on files that a table names: `phrases.tsv`."""
    folder = tmp_path_factory.mktemp("speech")
    lines = []
    for number, (source, target) in enumerate(phrases()):
        np.save(folder / f"{number}.npy", speak(source))
        lines.append(f"{folder}/{number}.npy\t{target}\n")
    (folder / "phrases.tsv").write_text("".join(lines * 10))
    settings = {**SETTINGS, "batch_tokens": 200, "validate_every": 140, "word_dropout": 0.01}
    data = str(folder / "phrases.tsv")
    return zoo.train("speech-small", data, folder / "out", settings=settings, steps=140)


def test_it_learns_and_reads_arrays_tensors_and_files(trained: Path) -> None:
    translator = zoo.load(trained)
    assert translator.checkpoint.model.source_vocab == DIM
    spoken = [speak(source) for source, _ in phrases()]
    made = translator.translate(spoken, beam=2)
    right = [a == b[1] for a, b in zip(made, phrases(), strict=True)]
    assert sum(right) >= 25
    first = made[0]
    assert translator.translate(spoken[0], beam=2) == first
    assert translator.translate(torch.tensor(spoken[0]), beam=2) == first
    assert translator.translate(str(trained.parent / "0.npy"), beam=2) == first
    assert translator.translate(zoo.Features(spoken[0], "a"), beam=2) == first
    assert len(translator.score(spoken[0], "chat rouge court")) == 4
    long = np.concatenate([speak("the red cat runs")] * 200)
    assert len(long) > 1_024
    assert translator.attention(zoo.Features(long), "chat rouge").parts == 1


def test_every_kind_of_file_gives_the_same_translation(
    trained: Path, tmp_path: Path, run: Run
) -> None:
    values = speak("the red cat runs").astype(np.float32)
    np.save(tmp_path / "a.npy", values.astype(np.float64))
    np.savez_compressed(tmp_path / "a.npz", frames=values)
    save_file({"frames": values}, tmp_path / "a.safetensors")
    files = [str(tmp_path / f"a.{kind}") for kind in ("npy", "npz", "safetensors")]
    done = run("translate", trained, *files)
    assert len(set(done.stdout.splitlines())) == 1, done.stderr
    (tmp_path / "list.txt").write_text("\n".join(files))
    assert run("translate", trained, "--input", tmp_path / "list.txt").stdout == done.stdout
    shown = json.loads(run("attention", trained, files[0], "--json").stdout)
    assert shown["kinds"]["cross"]["keys"] == ["▁1 ▁2", "▁3 ▁4", "▁5 ▁6", "▁7 ▁8"]
    assert run("attention", trained, files[0]).exit_code == 0
    aligned = run("translate", trained, files[0], "--alignment")
    assert aligned.exit_code == 0
    scores = run("eval", trained, "--data", trained.parent / "phrases.tsv", "--split", "all",
                 "--limit", 27, "--json")  # fmt: skip
    assert json.loads(scores.stdout)["chrf"] > 90, scores.stderr


def test_a_batch_gives_what_one_gives(trained: Path) -> None:
    translator = zoo.load(trained)
    spoken = [speak(text) for text in ("the red cat", "the", "the blue dog eats")]
    assert translator.translate(spoken) == [translator.translate(one) for one in spoken]


def test_arrays_from_python_and_files_give_the_same_weights(
    trained: Path, tmp_path: Path, networks: Registry
) -> None:
    """A dataset of a plugin that yields arrays, and a resumed run."""
    from zoo.registry.declarations import Dataset, Pair

    def read(split: str, limit: int | None) -> list[Pair]:
        return [Pair(Features(speak(source)), target) for source, target in phrases()]

    networks.datasets.add("spoken", Dataset("spoken", "a test", read, splits=("train",)))
    networks.datasets.add("listed", Dataset("listed", "a test", lambda split, limit: [
        Pair(f"{trained.parent}/{i}.npy", t) for i, (_, t) in enumerate(phrases())
    ], splits=("train",)))  # fmt: skip
    one = zoo.train("speech-small", "spoken", tmp_path / "one", settings=SETTINGS, steps=6)
    two = zoo.train("speech-small", "listed", tmp_path / "two", settings=SETTINGS, steps=6)
    assert same(one, two)
    cut = zoo.train("speech-small", "listed", tmp_path / "cut",
                    settings={**SETTINGS, "schedule": "constant"}, steps=3)  # fmt: skip
    whole = zoo.train("speech-small", "listed", tmp_path / "whole",
                      settings={**SETTINGS, "schedule": "constant"}, steps=6)  # fmt: skip
    zoo.resume(cut, steps=6)
    assert same(cut, whole)


def test_vectors_in_pairs_are_refused_with_the_remedy(tmp_path: Path, networks: Registry) -> None:
    """A run keeps pairs as text: the vectors would be lost."""
    pairs = [(Features(speak(source)), target) for source, target in phrases()]
    message = r"cannot keep feature vectors such as 'features .* on a table FILE\.tsv"
    with pytest.raises(DataError, match=message):
        zoo.train("speech-small", pairs, tmp_path / "out", settings=SETTINGS, steps=1)


def test_changed_validation_vectors_are_refused_on_resume(trained: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.full((4, DIM), 0.25))
    (tmp_path / "other.tsv").write_text(f"{tmp_path}/one.npy\tchat rouge\n")
    zoo.train("speech-small", str(trained.parent / "phrases.tsv"), tmp_path / "out", limit=40,
              validation=str(tmp_path / "other.tsv"), settings=SETTINGS, steps=1)  # fmt: skip
    np.save(tmp_path / "one.npy", np.full((4, DIM), 0.75))
    with pytest.raises(CheckpointError, match=r"other\.tsv has changed since the run began"):
        zoo.resume(tmp_path / "out", steps=2)


def test_the_checkpoint_records_the_size_of_the_vectors(trained: Path) -> None:
    assert (trained / "source.tokenizer.json").read_text() == '{"features": 8}'
    reader = load_tokenizer(trained / "source.tokenizer.json")
    assert isinstance(reader, FeatureReader)
    assert reader.size == DIM == json.loads((trained / "config.json").read_text())["source_vocab"]
    assert copy.deepcopy(reader).dim == DIM
    with pytest.raises(DataError, match="has vectors of 3 numbers: this model reads vectors of 8"):
        zoo.load(trained).translate(np.zeros((4, 3)))


def test_the_automatic_recipe_suits_vectors(trained: Path, run: Run, tmp_path: Path) -> None:
    data = trained.parent / "phrases.tsv"
    done = run("train", "speech-small", "--data", data, "--recipe", "auto", "--steps", 1,
               "--out", tmp_path / "out")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "auto: word tokenizer" in done.stderr
    assert f"zoo translate {tmp_path / 'out'} {trained.parent}" in done.stderr
    assert "zoo serve" not in done.stderr  # which refuses the checkpoint


def test_what_cannot_read_vectors_refuses_them_in_one_line(
    trained: Path, tmp_path: Path, networks: Registry
) -> None:
    with pytest.raises(ConversionError, match="its source is feature vectors"):
        zoo.export(trained, "onnx", tmp_path / "out")
    with pytest.raises(DataError, match="cannot serve a: it reads files of feature vectors"):
        Checkpoints({"a": trained}, networks)
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in phrases()))
    text = zoo.train("pooled-small", str(tmp_path / "a.tsv"), tmp_path / "t", settings=SETTINGS,
                     steps=1)  # fmt: skip
    with pytest.raises(DecodingError, match="these are feature vectors: the model reads text"):
        zoo.load(text).translate(np.zeros((4, 8)))
    with pytest.raises(DecodingError, match="a source prefix needs texts"):
        zoo.load(trained).translate(np.zeros((4, 8)), source_prefix="a")
    with pytest.raises(DataError, match="cannot read features from"):
        zoo.train("speech-small", str(tmp_path / "a.tsv"), tmp_path / "b", settings=SETTINGS,
                  steps=1)  # fmt: skip
    settings = {**SETTINGS, "shared_vocab": True}
    with pytest.raises(ConfigError, match="shared_vocab is for one source of text"):
        zoo.train("speech-small", str(tmp_path / "a.tsv"), tmp_path / "c", settings=settings,
                  steps=1)  # fmt: skip


def test_files_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    good = np.zeros((3, 2))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "infinite.npy", np.full((2, 2), np.inf))
    np.save(tmp_path / "empty.npy", np.zeros((0, 2)))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.savez(tmp_path / "two.npz", a=good, b=good)
    np.savez(tmp_path / "objects.npz", np.array([{}], dtype=object))
    (tmp_path / "damaged.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    (tmp_path / "damaged.safetensors").write_bytes(b"\xff" * 20)
    (tmp_path / "a.txt").write_text("")
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    padded = header.ljust(117) + "\n"
    claims = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()
    (tmp_path / "claims.npy").write_bytes(claims)
    messages = {
        "objects.npy": "cannot be read", "flat.npy": "is no sequence of feature vectors",
        "infinite.npy": "not finite", "empty.npy": "is no sequence", "text.npy": "is no sequence",
        "two.npz": "does not hold one array: it holds 2", "objects.npz": "cannot be read",
        "damaged.npy": "cannot be read", "damaged.npz": "cannot be read",
        "damaged.safetensors": "cannot be read", "a.txt": "cannot read features from",
        "claims.npy": "cannot be read", "none.npy": "there is no file",
    }  # fmt: skip
    for name, message in messages.items():
        with pytest.raises(DataError, match=message):
            read_features(tmp_path / name)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.data.features.LIMIT", 10_000)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\0" * 100_000)
    with pytest.raises(DataError, match="is too large: unpacked, it has over"):
        read_features(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.zeros((1000, 2)))
    with pytest.raises(DataError, match="is too large: a sequence has at most"):
        read_features(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "content", ['{"features": 0}', '{"features": "8"}', '{"features": 8, "a": 1}']
)
def test_a_damaged_description_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CheckpointError, match="does not describe features"):
        load_tokenizer(tmp_path / "a.json")


def test_a_checkpoint_whose_parts_disagree_is_refused(trained: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(trained, tmp_path / "a"))
    shutil.copy(folder / "target.tokenizer.json", folder / "source.tokenizer.json")
    with pytest.raises(CheckpointError, match="read different things"):
        zoo.load(folder)


def test_vectors_are_padded_with_zeros_and_masked() -> None:
    one, two = np.ones((3, 2), np.float32), np.full((1, 2), 5, np.float32)
    source, mask = batch_sources([one, two])  # type: ignore[list-item]  # in place of ids
    assert source.dtype == torch.float32
    assert source.tolist() == [[[1, 1]] * 3, [[5, 5], [0, 0], [0, 0]]]
    assert mask.tolist() == [[True] * 3, [True, False, False]]
