"""Pushed exports: the files of another project's format, which the zoo can read back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

import zoo
from tests.hub.server import Blob, Server
from tests.interop.checkpoints import SOURCES, TARGETS, checkpoint, write
from zoo.errors import CheckpointError, ConversionError, HubError
from zoo.files import write_json
from zoo.hub.digest import FileDigest
from zoo.interop import onnx_export
from zoo.interop.conversion import import_checkpoint
from zoo.interop.onnx_graphs import ENCODER, LAYOUT, STEP
from zoo.interop.onnx_weights import WEIGHTS
from zoo.nn import Seq2Seq
from zoo.registry.parameters import LengthLimits
from zoo.registry.registry import default_registry

NAME = "ann/toy"
CONFIGS: dict[str, dict[str, Any]] = {
    "marian": {"share": "all"},
    "marian, target shared": {"share": "target"},
    "pegasus": {"norm": "pre", "share": "all"},
}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "zoo"))


@pytest.fixture(params=["hub", "folder"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"hf://{NAME}" if request.param == "hub" else f"file://{tmp_path}/repository"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_pushed_export_gives_the_same_logits_and_ids(
    name: str, address: str, tmp_path: Path
) -> None:
    made = checkpoint("transformer", **CONFIGS[name])
    folder = write(made, tmp_path / "toy")
    pushed = zoo.push(folder, address, format="huggingface")
    assert {change.path for change in pushed.changes} == {
        "README.md", "config.json", "generation_config.json", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert zoo.push(folder, address, format="huggingface").changes == []
    loaded = zoo.load(address)
    assert loaded.checkpoint.source_tokenizer.size == made.source_tokenizer.size
    source, target = (loaded.checkpoint.source_tokenizer, loaded.checkpoint.target_tokenizer)
    texts = [*SOURCES, "an unknown Ω", "</s>"]
    assert source.encode(texts) == made.source_tokenizer.encode(texts)
    assert target.encode(TARGETS) == made.target_tokenizer.encode(TARGETS)
    tokens = torch.tensor(made.source_tokenizer.encode(SOURCES[:1]))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    with torch.no_grad():
        actual = loaded.checkpoint.model(tokens, mask, tokens).logits
        expected = made.model(tokens, mask, tokens).logits
    assert torch.allclose(actual, expected, atol=1e-4)
    written = zoo.load(folder).translate(SOURCES, max_length=9)
    assert loaded.translate(SOURCES, max_length=9) == written


def test_another_format_is_pushed_and_a_new_push_removes_old_files(
    server: Server, tmp_path: Path
) -> None:
    format = "ctranslate2"
    made = checkpoint("transformer", encoder_layers=1, decoder_layers=1)
    folder = write(made, tmp_path / "toy")
    zoo.push(folder, f"hf://{NAME}", format=format)
    repository = server.repositories[NAME]
    files = dict(repository.branches["main"][-1].files)
    exported = zoo.export(folder, format, tmp_path / "out")
    for file in exported.iterdir():
        if file.name != "README.md":  # it has the name of the checkpoint
            assert files[file.name].content == file.read_bytes()
    extra = {"notes.txt": Blob(b"mine"), "source.tokenizer.json": Blob(b"old")}
    repository.commit({**files, **extra})
    pushed = zoo.push(folder, f"hf://{NAME}", format=format)
    assert [(c.kind, c.path) for c in pushed.changes] == [("remove", "source.tokenizer.json")]
    why = r"of the zoo: its model\.bin is a model of CTranslate2, which has no importer\. Name the"
    with pytest.raises(HubError, match=why):
        zoo.load(f"hf://{NAME}")
    with pytest.raises(CheckpointError, match=why):
        zoo.load(tmp_path / "out")
    with pytest.raises(HubError, match=why):
        zoo.load(f"file://{tmp_path}/out")
    for path in (tmp_path / "out", tmp_path / "out" / "model.bin"):
        with pytest.raises(ConversionError, match=why.replace("of the zoo", "cannot be imported")):
            import_checkpoint(path, tmp_path / "in", default_registry())


def write_untraced(model: Seq2Seq, folder: Path, precision: str, limits: LengthLimits) -> None:
    """Write the files of an ONNX export, empty but for the layout: tracing takes seconds."""
    for file in (ENCODER, STEP, WEIGHTS):
        (folder / file).touch()
    write_json(folder / LAYOUT, {"opset": 18})


@pytest.mark.parametrize("format", ["ctranslate2", "onnx", None])
def test_a_repository_of_another_format_is_not_broken(
    server: Server,
    tmp_path: Path,
    run: Callable[..., Result],
    format: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnx_export, "write_network", write_untraced)
    made = checkpoint("transformer", share="all", encoder_layers=1, decoder_layers=1)
    folder = write(made, tmp_path / "toy")  # every format can hold it
    assert run("card", folder, "--write").exit_code == 0
    first = None if format else "huggingface"
    zoo.push(folder, f"hf://{NAME}", format=first)
    commits = len(server.repositories[NAME].branches["main"])
    with pytest.raises(HubError, match=r"would be replaced, and the rest left. Push to another"):
        zoo.push(folder, f"hf://{NAME}", format=format, dry_run=True)
    assert len(server.repositories[NAME].branches["main"]) == commits


def test_the_command_pushes_an_export_or_nothing(
    server: Server, tmp_path: Path, run: Callable[..., Result]
) -> None:
    folder = write(checkpoint("transformer", share="all"), tmp_path / "toy")
    more = ("--format", "huggingface", "--precision", "float16")
    dry = run("push", folder, f"hf://{NAME}", *more, "--dry-run")
    assert "add     generation_config.json" in dry.stdout, dry.output
    assert server.repositories == {}
    done = run("push", folder, f"hf://{NAME}@half", *more)
    assert done.exit_code == 0, done.output
    commit = server.repositories[NAME].branches["half"][-1]
    assert commit.message == "Push toy as huggingface"
    assert commit.files["README.md"].content.startswith(b"---\nlibrary_name: transformers\n")
    halved = run("pull", f"hf://{NAME}@half")
    assert halved.exit_code == 0, halved.output
    assert zoo.load(halved.stdout.strip()).translate("a dog")
    for wrong, text in (
        (("--format", "huggingface", "--dtype", "float16"), "use --precision"),
        (("--precision", "int8"), "name its --format"),
    ):
        result = run("push", folder, f"hf://{NAME}", *wrong)
        assert result.exit_code == 2
        assert text in result.output


def test_what_the_format_cannot_express_is_not_sent(server: Server, tmp_path: Path) -> None:
    folder = write(checkpoint("transformer", norm="branch"), tmp_path / "toy")
    with pytest.raises(ConversionError, match="no class has norm branch"):
        zoo.push(folder, f"hf://{NAME}", format="huggingface")
    with pytest.raises(ConversionError, match="no format is given"):
        zoo.push(folder, f"hf://{NAME}", precision="int8")
    with pytest.raises(CheckpointError):
        zoo.push(tmp_path / "none", f"hf://{NAME}")
    assert not server.requests("^(POST|PUT)")


def test_a_damaged_commit_of_a_folder_is_refused(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/repository"
    folder = write(checkpoint("transformer", share="all"), tmp_path / "toy")
    pushed = zoo.push(folder, address, format="huggingface")
    file = tmp_path / "repository" / str(pushed.commit) / "generation_config.json"
    good = FileDigest.of(file)
    file.write_bytes(file.read_bytes().replace(b"1", b"2"))
    assert not good.matches(file)
    with pytest.raises(HubError, match="does not match its digest"):
        zoo.load(address)
