"""Repositories of other projects: only their format's files are pulled, and converted once."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from click.testing import Result

import zoo
from tests.hub.server import Server
from tests.interop import opennmt_layout, test_fairseq, test_joeynmt
from tests.interop.huggingface import marian
from tests.interop.marian_folder import write
from zoo.errors import HubError, HubWarning, IntegrityError, NotOursError
from zoo.interop.locate import locate

ADDRESS = "hf://them/opus"


@pytest.fixture
def foreign(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hub with a folder of Marian, a pickle of the same weights, and other files."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "zoo"))
    folder = tmp_path / "opus"
    marian(folder)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\nlanguage: [en, no]\n---\ntext\n")
    (folder / "flax.txt").write_text("not read")
    (folder / "tf_model.h5").write_bytes(b"not read")
    server.put("them/opus", folder)
    return folder


def conversions(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "zoo" / "imported").iterdir() if path.is_dir()]


def test_a_foreign_repository_is_pulled_and_converted_once(
    foreign: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = zoo.load(ADDRESS)
    assert translator.checkpoint.about.parent == ADDRESS
    (folder,) = conversions(tmp_path)
    downloaded = " ".join(server.requests())
    for name in ("pytorch_model.bin", "tf_model.h5", "flax.txt"):
        assert name not in downloaded
    assert "license: cc-by-4.0\n" in (folder / "README.md").read_text(encoding="utf-8")
    assert translator.checkpoint.about.terms == "license of the imported weights: cc-by-4.0"
    before = len(server.requests())
    text = translator.translate("A dog", max_length=6)
    assert zoo.load(ADDRESS).translate("A dog", max_length=6) == text
    again = " ".join(server.requests()[before:])
    assert "model.safetensors" not in again
    assert conversions(tmp_path) == [folder]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert zoo.load(ADDRESS).translate("A dog", max_length=6) == text


def test_a_pickle_is_read_beside_safetensors_of_something_else(
    foreign: Path, server: Server
) -> None:
    weights = safetensors.torch.load_file(foreign / "model.safetensors")
    torch.save(weights, foreign / "pytorch_model.bin")
    (foreign / "model.safetensors").rename(foreign / "adapter.safetensors")
    server.put("them/opus", foreign)
    assert zoo.load(ADDRESS).translate("A dog", max_length=6)


def test_a_vocabulary_that_only_the_settings_name_is_pulled(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "zoo"))
    folder = tmp_path / "opus"
    write(folder)
    for name in ("src", "trg"):
        words = (folder / f"vocab.{name}.yml").read_text().replace('"', "").splitlines()
        (folder / f"vocab.{name}.yml").unlink()
        (folder / f"{name}.words").write_text("\n".join(line.partition(":")[0] for line in words))
    decoder = (folder / "decoder.yml").read_text()
    (folder / "decoder.yml").unlink()
    decoder = decoder.replace("vocab.src.yml", "src.words").replace("vocab.trg.yml", "trg.words")
    (folder / "model.npz.decoder.yml").write_text(decoder)
    server.put("them/opus", folder)
    assert zoo.load(ADDRESS).translate("w2 w3", max_length=6)


def fairseq(folder: Path) -> None:
    test_fairseq.transformer(folder)


def joeynmt(folder: Path) -> None:
    network = test_joeynmt.JoeyTransformer({})
    test_joeynmt.write(folder, network.state(), test_joeynmt.transformer(layer_norm="post"))


def opennmt(folder: Path) -> None:
    state = opennmt_layout.Transformer({}).state()
    opennmt_layout.write(folder, state, opennmt_layout.TRANSFORMER, apart=True)


@pytest.mark.parametrize("write", [fairseq, joeynmt, opennmt])
def test_weights_that_alone_name_their_project_are_pulled(
    write: Callable[[Path], None], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were said not to be opened, which a folder's are."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "zoo"))
    folder = tmp_path / "opus"
    folder.mkdir()
    write(folder)
    (folder / "README.md").write_text("text\n")
    server.put("them/opus", folder)
    assert zoo.load(ADDRESS).checkpoint.architecture == "transformer"


def test_pickles_beside_settings_of_something_else_are_not_pulled(
    foreign: Path, server: Server
) -> None:
    (foreign / "config.json").write_text('{"model_type": "looms"}')
    (foreign / "weights.pt").write_bytes(b"a pickle")
    server.put("them/opus", foreign)
    with pytest.raises(NotOursError):
        zoo.load(ADDRESS)
    assert "weights.pt" not in " ".join(server.requests())


def test_a_new_commit_is_converted_anew(foreign: Path, server: Server, tmp_path: Path) -> None:
    zoo.load(ADDRESS)
    config = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(config | {"activation_function": "relu"}))
    server.put("them/opus", foreign)
    assert zoo.load(ADDRESS).checkpoint.config.activation == "relu"  # type: ignore[attr-defined]
    assert len(conversions(tmp_path)) == 2


def test_an_old_conversion_is_used_with_a_warning_unless_offline(
    foreign: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = locate(ADDRESS)
    commit = server.repositories["them/opus"].branches["main"][-1].name
    monkeypatch.setenv("ZOO_HUB_TRIES", "1")
    server.fault("GET", "/api/models/", status=500, times=99)
    with pytest.warns(HubWarning, match="using the local copy of hf://them/opus from the last"):
        assert locate(ADDRESS) == kept
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert locate(f"{ADDRESS}@{commit}") == kept
        assert locate(ADDRESS, offline=True) == kept
    server.faults.clear()
    server.fault("GET", "/api/models/", headers={"Content-Encoding": "gzip"}, times=99)
    with pytest.raises(HubError, match="the Hub sent an invalid response"):
        locate(ADDRESS)


def test_a_download_is_announced_once(foreign: Path, run: Callable[..., Result]) -> None:
    announced = run("info", ADDRESS).stderr.splitlines()
    assert len(announced) == 1
    assert announced[0].startswith(f"Pulling {ADDRESS}@")


def test_the_commit_of_a_conversion_is_that_of_its_repository(
    foreign: Path, server: Server, run: Callable[..., Result]
) -> None:
    for again in (False, True):
        pulled = json.loads(run("pull", ADDRESS, *["--offline"] * again, "--json").stdout)
        assert pulled["commit"] == server.repositories["them/opus"].branches["main"][-1].name
    branches = server.repositories["them/opus"].branches
    branches["copy"] = branches["main"]
    pulled = json.loads(run("pull", f"{ADDRESS}@copy", "--json").stdout)
    assert pulled["commit"] == branches["main"][-1].name


def test_a_repository_of_no_format_is_refused_as_before(server: Server, tmp_path: Path) -> None:
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    server.put("them/gpt", tmp_path / "gpt")
    with pytest.raises(HubError, match="is not a checkpoint of the zoo"):
        zoo.load("hf://them/gpt")


def test_changed_bytes_are_refused(foreign: Path, server: Server, tmp_path: Path) -> None:
    server.fault("GET", "source.spm", change=lambda body: body[::-1], times=9)
    with pytest.raises((IntegrityError, HubError)):
        zoo.load(ADDRESS)
    assert not (tmp_path / "zoo").exists() or not conversions(tmp_path)
