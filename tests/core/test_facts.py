"""What `zoo info` shows of a checkpoint, and the lists of names."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from zoo.checkpoint.facts import checkpoint_facts
from zoo.checkpoint.format import FILES, check_own, describe, is_checkpoint
from zoo.errors import CheckpointError
from zoo.hub.metadata import check_card
from zoo.registry.builtin import top
from zoo.registry.registry import default_registry

NAME = "transformer-tiny.multi30k-en-de"


def test_info_shows_what_a_user_asks(run: Callable[..., Result]) -> None:
    text = " ".join(run("info", NAME).stdout.split())
    for part in (
        "en → de", "data multi30k-en-de", "origin trained", "non-commercial", "7.9 MB of weights",
        "BLEU 40.76, chrF 65.15, exact match ", " on multi30k-en-de, test",
        "--beam 5 --length-penalty 1.5",
        "Two dogs are playing in the snow.", "descriptions of everyday photographs",
    ):  # fmt: skip
        assert part in text, part
    facts = json.loads(run("info", NAME, "--json").stdout)["checkpoint"]
    assert facts["decoding"] == {"beam": 5, "length_penalty": 1.5}
    assert facts["license"] == "multi30k-non-commercial"
    assert facts["source_languages"] == ["en"]
    assert {record["split"] for record in facts["scores"]} == {"validation", "test"}
    assert "checkpoint" not in json.loads(run("info", "transformer-tiny", "--json").stdout)


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("rnnsearch-tiny.numbers-en-fr", "exact match"),
        ("transformer-tiny.g2p-en", "word error rate"),
    ],
)
def test_info_shows_the_scores_of_every_task(
    name: str, scores: str, run: Callable[..., Result]
) -> None:
    record = next(
        record
        for record in json.loads(run("info", name, "--json").stdout)["checkpoint"]["scores"]
        if record["split"] == "test"
    )
    value = record[scores.replace(" ", "_")]
    assert f"{scores} {value:.2f}" in " ".join(run("info", name).stdout.split())


def test_info_of_a_checkpoint_needs_no_torch() -> None:
    code = (
        "import sys\nfrom zoo.cli import cli\n"
        f"cli(['info', {NAME!r}], standalone_mode=False)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_names_are_listed_by_pattern() -> None:
    assert zoo.list_models("transformer*") == [
        name for name in zoo.list_models() if name.startswith("transformer")
    ]
    assert NAME in zoo.list_checkpoints("*en-de")
    assert zoo.list_checkpoints("x*") == []
    assert "shift" in zoo.list_datasets()


def test_a_card_that_is_a_link_to_a_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    folder = shutil.copytree(top() / "cards" / "checkpoints" / NAME, tmp_path / "mine")
    (folder / "README.md").rename(tmp_path / "notes.md")
    (folder / "README.md").symlink_to(tmp_path / "notes.md")
    for read in (check_card, lambda f: checkpoint_facts(f, describe(f), default_registry())):
        with pytest.raises(CheckpointError, match="it is a link to a file elsewhere"):
            read(folder)


def test_a_commit_of_the_hub_s_cache_is_read_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are links to blobs, also where the user has gone there or linked to it."""
    commit, blobs = tmp_path / "snapshots" / ("0" * 40), tmp_path / "blobs"
    shutil.copytree(top() / "cards" / "checkpoints" / NAME, blobs)
    commit.mkdir(parents=True)
    for file in blobs.iterdir():
        (commit / file.name).symlink_to(f"../../blobs/{file.name}")
    (tmp_path / "mine").symlink_to(commit)
    monkeypatch.chdir(commit)
    for folder in (commit, Path(), tmp_path / "mine"):
        check_card(folder)
        with pytest.raises(CheckpointError, match="cannot be written: it is a link to a file else"):
            check_own(folder, "README.md", writes=True)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_checkpoint_that_is_a_folder_or_a_pipe_is_named(
    name: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(top() / "cards" / "checkpoints" / NAME, tmp_path / "mine")
    for make, kind in ((os.mkdir, "a folder"), (os.mkfifo, "a pipe or a device")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink(True)
        make(folder / name)
        with pytest.raises(CheckpointError, match=rf"{name} is {kind}, not a file\. Put the file"):
            describe(folder)
        assert name != "config.json" or is_checkpoint(folder)
