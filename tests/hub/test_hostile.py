"""Hostile and invalid checkpoints are pulled, and rejected when they are read."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import zoo
from tests.hub.helpers import refused
from tests.hub.server import Server
from zoo.checkpoint.tensors import read_tensors, write_tensors
from zoo.errors import (
    CheckpointError,
    ConfigError,
    HubError,
    NotOursError,
    PluginError,
    ZooError,
)  # fmt: skip
from zoo.hub.pull import pull

ADDRESS = "hf://eve/trap"


@pytest.fixture
def trap(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint, which a test damages."""
    return Path(shutil.copytree(checkpoint, tmp_path / "trap"))


@pytest.fixture
def load(server: Server, trap: Path) -> Callable[[], Any]:
    """Push the trap to the Hub and load it from there."""

    def call() -> Any:
        server.put("eve/trap", trap)
        return zoo.load(ADDRESS)

    return call


def nested(depth: int) -> str:
    return '{"format": 1, "config": ' + "[" * depth + "]" * depth + "}"


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], object], type[ZooError], str]] = {
    "a width of a billion": (
        lambda c: c["config"].update(hidden_dim=10**9), ConfigError, "less than or equal to 65536"),
    "a huge integer": (
        lambda c: c["config"].update(hidden_dim=10**400), ConfigError, "hidden_dim"),
    "a vocabulary of a billion": (
        lambda c: c.update(source_vocab=10**9), CheckpointError, "from 4 to 10,000,000"),
    "a negative vocabulary": (
        lambda c: c.update(source_vocab=-1), CheckpointError, "from 4 to 10,000,000"),
    "types": (
        lambda c: c.update(config=[], tied=0, architecture=None), CheckpointError,
        "'architecture' must be of type str; 'config' must be of type dict; 'tied' must be"),
    "a boolean for a number": (
        lambda c: c.update(source_vocab=True), CheckpointError, "'source_vocab' must be of type"),
    "invalid ties": (
        lambda c: c.update(tied={"a": "b"}), CheckpointError, "its config ties {'a': 'b'}"),
    "a newer format": (
        lambda c: c.update(format=2), CheckpointError, "Install a newer seq2seq-zoo"),
    "a path for an architecture": (
        lambda c: c.update(architecture="../../x"), PluginError, "which is not installed"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_24_a_hostile_config(load: Callable[[], Any], trap: Path, case: str) -> None:
    damage, kind, message = HOSTILE[case]
    config = json.loads((trap / "config.json").read_text())
    damage(config)
    (trap / "config.json").write_text(json.dumps(config))
    with refused(kind, message):
        load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not JSON", "config.json cannot be read"),
        ("[1]", "it is not a JSON object"),
        (nested(100_000), "nested too deeply"),
        ('{"format": NaN}', "NaN is not a JSON number"),
        ('{"format": 1, "format": 1}', "duplicate key 'format'"),
        (" " * 4_000_001, "the limit is 4,000,000"),
        ("9" * 5000, "cannot be read"),
    ],
)
def test_24_an_unreadable_config(
    load: Callable[[], Any], trap: Path, text: str, message: str
) -> None:
    (trap / "config.json").write_text(text)
    with refused(CheckpointError, message):
        load()


def test_24_nothing_is_allocated_for_a_hostile_config(trap: Path) -> None:
    """The largest allowed config is rejected before its weights would be allocated."""
    config = json.loads((trap / "config.json").read_text())
    for key in ("hidden_dim", "embedding_dim", "encoder_dim", "attention_dim", "readout_dim"):
        config["config"][key] = 65_536
    (trap / "config.json").write_text(json.dumps(config))
    program = (
        "import resource, sys, torch, zoo, zoo.checkpoint\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + 600_000_000,) * 2)\n"
        "try:\n"
        "    zoo.load(sys.argv[1])\n"
        "except zoo.ZooError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is measured with /proc")
    done = subprocess.run(
        [sys.executable, "-c", program, str(trap)], capture_output=True, text=True
    )
    assert done.stdout.startswith("CheckpointError"), done.stderr
    assert "is (" in done.stdout


def test_25_missing_extra_and_misshapen_tensors_are_all_reported(
    load: Callable[[], Any], trap: Path
) -> None:
    weights = read_tensors(trap / "model.safetensors")
    first, second, third, *_ = weights
    weights["surprise"] = weights.pop(first)
    weights[second] = torch.zeros(3)
    weights[third] = weights[third].double()
    write_tensors(trap / "model.safetensors", weights)
    messages = (
        f"{first} is missing",
        "surprise is not a weight of",
        f"{second} is (3,), not",
        f"{third} is of type F64",
    )
    with refused(CheckpointError, *messages):
        load()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_26_values_that_are_not_finite(load: Callable[[], Any], trap: Path, value: float) -> None:
    weights = read_tensors(trap / "model.safetensors")
    name = list(weights)[1]
    weights[name] = (
        weights[name].flatten().index_fill(0, torch.tensor([0]), value).view_as(weights[name])
    )
    write_tensors(trap / "model.safetensors", weights)
    with refused(CheckpointError, f"{name} has values that are not finite"):
        load()


def with_header(content: bytes, change: Callable[[str], str]) -> bytes:
    """Return the content of a safetensors file with its header changed."""
    length = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + length].decode()).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def moved(header: str, step: int) -> str:
    """Return a header with its second tensor's offsets moved."""
    tensors = json.loads(header)
    entry = sorted(tensors.values(), key=lambda entry: entry["data_offsets"])[1]
    entry["data_offsets"] = [offset + step for offset in entry["data_offsets"]]
    return json.dumps(tensors)


def without_first(header: str) -> str:
    tensors = json.loads(header)
    del tensors[next(iter(tensors))]
    return json.dumps(tensors)


HEADERS: dict[str, tuple[Callable[[str], str], str]] = {
    "a duplicate name": (
        lambda h: h.rstrip()[:-1] + "," + h[1:].split("},")[0] + "}}", "duplicate key"),
    "more bytes than follow": (
        lambda h: h.replace('"shape":[', '"shape":[2,'), "do not match its shape"),
    "too many tensors": (
        lambda h: "{" + ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
                                 for i in range(100_001)) + "}", "the limit is 100,000"),
    "too long": (lambda h: h + " " * 25_000_000, "the limit is 25,000,000"),
    "not an object": (lambda h: "[]", "is not a JSON object"),
    "too deep": (lambda h: "[" * 100_000, "nested too deeply"),
    "huge sizes": (lambda h: h.replace('"shape":[', f'"shape":[{2**60},'), "no valid entry"),
    "huge sizes of nothing": (
        lambda h: f'{{"x":{{"dtype":"F32","shape":[{2**47},{2**47},0],'
                  f'"data_offsets":[0,0]}},{h[1:]}',
        "the sizes of 'x' are too large"),
    "negative sizes": (lambda h: h.replace('"shape":[', '"shape":[-1,'), "no valid entry"),
    "an unknown type": (lambda h: h.replace("F32", "F31"), "is of type 'F31', which is not read"),
    "offsets that do not match the shape": (
        lambda h: h.replace('"data_offsets":[', '"data_offsets":[1'), "do not match its shape"),
    "offsets that overlap": (lambda h: moved(h, -4), "overlaps another tensor, or a gap"),
    "offsets with a gap": (lambda h: moved(h, 4), "overlaps another tensor, or a gap"),
    "more than one list of offsets": (
        lambda h: h.replace('"data_offsets":[', '"data_offsets":[0,'), "no valid entry"),
    "more bytes than described": (lambda h: without_first(h), "bytes follow it"),
    "metadata that is not an object": (lambda h: '{"__metadata__":[1],' + h[1:], "__metadata__"),
    "metadata of numbers": (lambda h: '{"__metadata__":{"a":1},' + h[1:], "__metadata__"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_26_a_hostile_header(load: Callable[[], Any], trap: Path, case: str) -> None:
    file = trap / "model.safetensors"
    change, message = HEADERS[case]
    file.write_bytes(with_header(file.read_bytes(), change))
    with refused(
        CheckpointError, "model.safetensors cannot be read", message, "pull or train it again"
    ):
        load()


def test_26_weights_for_which_there_is_no_memory(
    load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = torch.empty

    def full(*size: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
        if dtype is torch.uint8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return empty(*size, dtype=dtype, **options)

    monkeypatch.setattr(torch, "empty", full)
    with refused(CheckpointError, "model.safetensors cannot be read", "bytes of memory for"):
        load()


def test_26_an_enormous_header_is_not_read(load: Callable[[], Any], trap: Path) -> None:
    (trap / "model.safetensors").write_bytes(b"\xff" * 7 + b"\x00" + b"{}")
    with refused(CheckpointError, "the limit is 25,000,000"):
        load()


def test_26_a_named_pipe_instead_of_a_file(server: Server, trap: Path) -> None:
    server.put("eve/trap", trap)
    folder = pull(ADDRESS)
    for name in ("model.safetensors", "config.json", "source.tokenizer.json"):
        file = folder / name
        target = file.readlink()
        file.unlink()
        os.mkfifo(file)
        with refused(HubError, "is not completely in the cache", name.split(".")[0]):
            pull(ADDRESS, offline=True)
        with refused(CheckpointError, name):
            zoo.load(folder)
        file.unlink()
        file.symlink_to(target)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl"])
def test_26_pickles_in_a_repository_are_never_opened(
    server: Server, trap: Path, load: Callable[[], Any], name: str, tmp_path: Path
) -> None:
    marker = tmp_path / "opened"
    content = safetensors.torch.load_file(trap / "model.safetensors")
    torch.save(content, trap / name)
    (trap / name).write_bytes(b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.")
    (trap / "model.safetensors").unlink()
    with refused(
        NotOursError, "it has no model.safetensors", f"it has {name}, which is not opened"
    ):
        load()
    assert not server.requests(f"/resolve/.*{name}")
    (trap / name).rename(trap / "model.safetensors")
    with refused(CheckpointError, "model.safetensors cannot be read"):
        load()
    assert not marker.exists()


def test_code_in_a_repository_is_neither_fetched_nor_run(
    server: Server, trap: Path, load: Callable[[], Any], tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    program = f"open({str(marker)!r}, 'w')\n"
    for name in ("modeling.py", "config.py", "conftest.py", "zoo.py", "__init__.py"):
        (trap / name).write_text(program)
    config = json.loads((trap / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling.Model"}
    (trap / "config.json").write_text(json.dumps(config))
    assert load().translate("the dog a runs")
    assert not server.requests(r"\.py")
    assert not marker.exists()


def test_an_architecture_that_is_not_installed_is_named_and_not_installed(
    load: Callable[[], Any], trap: Path
) -> None:
    config = json.loads((trap / "config.json").read_text())
    config["architecture"] = "mamba"
    config["plugin"] = {"package": "zoo-mamba", "version": "3.1"}
    (trap / "config.json").write_text(json.dumps(config))
    message = "it was written with zoo-mamba 3.1, which is not installed"
    with refused(PluginError, message, "Install zoo-mamba if you trust it"):
        load()


@pytest.mark.parametrize("content", ["{}", "null", '{"model": 1}', "[" * 100_000, "\ud800"])
def test_a_hostile_tokenizer(load: Callable[[], Any], trap: Path, content: str) -> None:
    (trap / "source.tokenizer.json").write_text(content, errors="surrogatepass")
    with refused(CheckpointError, "source.tokenizer.json"):
        load()
