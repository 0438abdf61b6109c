"""The cache of the client: list, remove and verify."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from filelock import FileLock

from tests.hub.helpers import ADDRESS, NAME, refused
from tests.hub.server import Server
from zoo.errors import HubError
from zoo.files import held
from zoo.hub.cache import list_commits, verify
from zoo.hub.huggingface import HuggingFace
from zoo.hub.pull import pull
from zoo.registry.address import Address
from zoo.registry.cache_folder import KINDS, clean, contents

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


def test_a_commit_is_named_by_its_beginning(pulled: Path, run: Run, cache: Path) -> None:
    short = f"{ADDRESS}@{pulled.name[:12]}"
    assert short in run("cache", "verify", short).stdout
    assert run("cache", "remove", short[:-6], "--yes").exit_code == 1, "six digits are too few"
    twin = pulled.with_name(pulled.name[:12] + "f" * 28)
    twin.mkdir()
    (twin / "model.safetensors").write_bytes(b"weights")
    several = run("cache", "remove", short, "--yes")
    assert several.exit_code == 1
    assert f"{short} is not one commit" in several.stderr
    shutil.rmtree(twin)
    assert run("cache", "remove", short, "--yes").exit_code == 0
    assert not pulled.exists()


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


def test_models_of_other_projects_are_not_damaged(pulled: Path, run: Run, cache: Path) -> None:
    folder = cache / "models--them--foreign" / "snapshots" / ("1" * 40)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    assert run("cache", "verify").exit_code == 0
    for config in ('{"model_type": "marian"}', '{"limit": [0, Infinity]}'):
        (folder / "config.json").write_text(config)
        assert run("cache", "verify").stdout.count("good") == 3
        assert "incomplete" not in run("cache", "list").stdout


def test_verify_counts_the_files_that_it_removes(pulled: Path, run: Run) -> None:
    (pulled / "source.tokenizer.json").unlink()
    missing = run("cache", "verify", ADDRESS, "--remove")
    assert missing.exit_code == 1
    assert "it has no source.tokenizer.json" in missing.stdout
    assert "Files removed: 0." in missing.stderr
    (pulled / "model.safetensors").resolve().write_bytes(b"damaged")
    assert "Files removed: 1." in run("cache", "verify", ADDRESS, "--remove").stderr
    assert not (pulled / "model.safetensors").exists()
    assert pull(ADDRESS) == pulled
    assert run("cache", "verify").exit_code == 0


def test_clean_removes_what_can_be_made_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "own"))
    assert run("cache", "clean").stdout == "there is nothing to remove\n"
    for name in ("imported/a-marian-v1-1/model", "imported/b-t5-v1-1/model",
                 "exports/ctranslate2/c/model.bin", "tokens/d/ids"):  # fmt: skip
        file = tmp_path / "own" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 1000)
        Path(f"{file.parent}.lock").touch()
    (tmp_path / "own" / "imported" / "gone.lock").touch()
    half_written = tmp_path / "own" / "imported" / ".c-t5-v1-1.123.part"
    half_written.mkdir()
    abandoned = tmp_path / "own" / "imported" / ".c-t5-v1-1.456.part"
    abandoned.mkdir()
    (abandoned / "model").write_bytes(b"x" * 1000)
    with held(half_written):
        shown = json.loads(run("cache", "clean", "--json").stdout)
    sizes = [(row["kind"], row["number"], row["size"]) for row in shown["contents"]]
    assert sizes == [("imported", 3, 3000), ("exports", 1, 1000), ("tokens", 1, 1000)]
    assert "5.0 kB more can be made again" in run("cache", "list").stderr
    assert run("cache", "clean", "imported", input="n\n").exit_code == 1
    with FileLock(tmp_path / "own" / "imported" / "b-t5-v1-1.lock"), held(half_written):
        cleaned = run("cache", "clean", "imported", "exports", "--yes")
        locks = [lock.name for lock in (tmp_path / "own").rglob("*.lock")]
    assert "Freed 3.0 kB" in cleaned.stderr
    assert "b-t5-v1-1 is being written by another process, and stays" in cleaned.stderr
    left = [p.parent.name for p in (tmp_path / "own").rglob("*") if p.is_file() and p.stem == p.name
            and p.name in ("model", "ids")]  # fmt: skip
    assert sorted(left) == ["b-t5-v1-1", "d"]
    assert half_written.is_dir()
    assert not abandoned.exists()
    assert sorted(locks) == ["b-t5-v1-1.lock", "d.lock"]
    assert run("cache", "clean", "no-such").exit_code == 2
    explained = run("cache", "clean", "--help").stdout
    assert all(kind in explained for kind in KINDS)


def test_a_commit_that_another_process_removes_meanwhile_is_no_fault(
    pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is there when it is looked for, and gone when it is read."""
    for file in (*pulled.iterdir(), *(pulled.parents[1] / "refs").iterdir()):
        file.unlink()
        file.symlink_to("nowhere")
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: path.is_symlink() or is_file(path))
    gone, other = list_commits()
    assert (gone.address, gone.size, gone.complete, gone.revisions) == (ADDRESS, 0, False, ())
    assert other.complete
    assert HuggingFace().local(Address.parse(f"{ADDRESS}@{pulled.name}")) is None
    faults = {commit.address: faults for commit, faults in verify([gone, other])}
    assert faults.pop("hf://bob/other") == []
    assert all("is missing" in fault.reason for fault in faults[ADDRESS])
    glob = Path.glob

    def removed(path: Path, pattern: str, **options: Any) -> Iterator[Path]:
        if path == pulled.parent:
            raise FileNotFoundError(path)
        return glob(path, pattern, **options)

    monkeypatch.setattr(Path, "glob", removed)
    assert [commit.address for commit in list_commits()] == ["hf://bob/other"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOENT, "Another process may have removed the folder: try again"),
        (errno.ENOSPC, "HF_HUB_CACHE can name another folder"),
    ],
)
def test_a_file_that_cannot_be_stored(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    server.put(NAME, checkpoint)
    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", full)
    with refused(HubError, f"cannot be stored: {os.strerror(number)}. {advice}"):
        pull(ADDRESS)


def test_a_cache_that_cannot_be_made(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(NAME, checkpoint)
    monkeypatch.setenv("HF_HUB_CACHE", "/proc/none")
    with refused(HubError, "cannot be stored: /proc/none", "HF_HUB_CACHE can name another folder"):
        pull(ADDRESS)


def test_what_another_process_cleans_meanwhile_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    (tmp_path / "tokens" / "gone").mkdir(parents=True)
    walk = os.walk

    def remove(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        yield from walk(folder)
        yield str(folder), [], ["ids"]
        shutil.rmtree(folder, ignore_errors=True)

    monkeypatch.setattr(os, "walk", remove)
    assert clean(["tokens"]) == (0, [])
    assert contents() == []


def test_a_download_that_another_process_completes_meanwhile_is_no_fault(pulled: Path) -> None:
    blobs = pulled.parents[1] / "blobs"
    (blobs / "x.incomplete").symlink_to("completed")
    assert pull(ADDRESS) == pulled


def test_a_user_without_a_home_has_no_cache(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.setenv("HF_HUB_CACHE", "~/hub")
    with refused(HubError, "cannot be ~/hub: you have no home folder", "Set HF_HOME"):
        pull(ADDRESS)
