"""The cache of the client: list, remove and verify."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.hub.helpers import ADDRESS, NAME
from tests.hub.server import Server
from zoo.hub.pull import pull

Run = Callable[..., Result]


@pytest.fixture
def pulled(server: Server, checkpoint: Path, run: Run) -> Path:
    server.put(NAME, checkpoint)
    server.put("bob/other", checkpoint)
    pull("hf://bob/other")
    return pull(ADDRESS)


def test_list(pulled: Path, run: Run, cache: Path) -> None:
    (cache / "models--x--other-format" / "snapshots" / ("0" * 40)).mkdir(parents=True)
    shown = json.loads(run("cache", "list", "--json").stdout)
    assert [(row["address"], row["revisions"], row["complete"]) for row in shown] == [
        (ADDRESS, ["main"], True), ("hf://bob/other", ["main"], True),
    ]  # fmt: skip
    assert shown[0]["folder"] == str(pulled)
    assert ADDRESS in run("cache", "list").stdout
    (pulled / "config.json").unlink()
    assert "incomplete" in run("cache", "list").stdout


def test_an_empty_cache(server: Server, run: Run) -> None:
    assert run("cache", "list").stdout == "the cache is empty\n"
    assert run("cache", "verify").exit_code == 0


def test_remove(pulled: Path, run: Run, cache: Path) -> None:
    assert run("cache", "remove", ADDRESS, input="n\n").exit_code == 1
    assert pulled.is_dir()
    assert run("cache", "remove", f"{ADDRESS}@v9", "--yes").exit_code == 1
    result = run("cache", "remove", f"{ADDRESS}@main", "--yes")
    assert result.exit_code == 0, result.output
    assert "Freed" in result.stderr
    assert not pulled.exists()
    assert not list(cache.glob("models--ann--small/blobs/*"))
    (left,) = json.loads(run("cache", "list", "--json").stdout)
    assert left["address"] == "hf://bob/other"


def test_verify(pulled: Path, run: Run) -> None:
    assert run("cache", "verify").stdout.count("good") == 2
    weights = (pulled / "model.safetensors").resolve()
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (pulled / "config.json").resolve().unlink()
    result = run("cache", "verify", "--json")
    assert result.exit_code == 1
    (mine, other) = json.loads(result.stdout)
    assert other["good"]
    reasons = {Path(fault["file"]).name: fault["reason"] for fault in mine["faults"]}
    assert "SHA-256" in reasons["model.safetensors"]
    assert "is missing" in reasons["config.json"]
    assert run("cache", "verify", ADDRESS, "--remove").exit_code == 1
    assert pull(ADDRESS) == pulled
    assert run("cache", "verify").exit_code == 0
