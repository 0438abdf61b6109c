"""The commands in docs/formats that name repositories of the Hub are run, on a Hub on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hub.server import Server
from tests.interop.huggingface import marian
from tests.interop.t5_folder import write_folder
from tests.interop.test_families import folder_of
from tests.interop.test_fsmt import fsmt
from tests.interop.test_pages_of_formats import commands, run


@pytest.fixture
def folders(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small folders of each kind, on the Hub and on the disk, by the names in the pages."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "zoo"))
    monkeypatch.chdir(tmp_path)
    marian(tmp_path / "opus-mt-en-de")
    folder_of(tmp_path / "mbart-large-cc25", "mbart", decoder_start_token_id=2)
    folder_of(tmp_path / "nllb", "nllb")
    fsmt(tmp_path / "wmt19")
    write_folder(tmp_path / "t5", {"vocab_size": 22})
    for name, folder in {
        "Helsinki-NLP/opus-mt-en-de": "opus-mt-en-de", "facebook/wmt19-en-de": "wmt19",
        "facebook/nllb-200-distilled-600M": "nllb", "google-t5/t5-small": "t5",
        "google/flan-t5-small": "t5", "google/madlad400-3b-mt": "t5",
    }.items():  # fmt: skip
        server.put(name, tmp_path / folder)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(("page", "all_of_it"), [("transformers", True), ("t5", False)])
def test_the_commands_of_a_page(page: str, all_of_it: bool) -> None:
    given = [words for words in commands(page) if all_of_it or words[1].startswith("hf://")]
    assert len(given) == (6 if all_of_it else 3)
    for words in given:
        more = ["--beam", "1", "--max-length", "5"] if words[0] == "translate" else []
        result = run(*words, *more)
        assert result.exit_code == 0, (words, result.output)
