"""The commands in docs/formats are run, on small folders of each format."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.interop import marian_folder
from tests.interop.t5_folder import PIECES, SENTINELS, write_folder
from tests.interop.test_g2p import npz, random_arrays, write_wheel
from zoo.cli import cli

DOCS = Path(__file__).parents[2] / "docs" / "formats"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def commands(page: str) -> list[list[str]]:
    """Return the page's commands of the zoo, each as a list of words."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
             for line in block.splitlines()]  # fmt: skip
    return [shlex.split(line)[1:] for line in lines if line.startswith("zoo ")]


def test_the_commands_for_t5_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, size in (("t5", 22), ("madlad", 22), ("byt5", 384)):
        write_folder(tmp_path / f"{name}-folder", {"vocab_size": size})
    (tmp_path / "byt5-folder" / "tokenizer.json").unlink()
    assert len(PIECES) + len(SENTINELS) <= 22
    given = [words for words in commands("t5") if not words[1].startswith("hf://")]
    assert {words[0] for words in given} == {"import", "translate"}
    for words in given:
        more = ["--beam", "1"] if words[0] == "translate" else []
        assert run(*words, *more).exit_code == 0, words


def test_the_commands_for_g2p_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = commands("g2p")
    write_wheel(tmp_path / given[0][1], npz(random_arrays()))
    for words in given:
        assert run(*words).exit_code == 0, words


def test_the_commands_for_marian_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marian_folder.write(tmp_path / "marian-model")
    given = commands("marian")
    assert len(given) == 5
    for words in given:
        more = ["--max-length", "5"] if words[0] == "translate" else []
        result = run(*words, *more)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", sorted(path.stem for path in DOCS.glob("*.md")))
def test_every_page_names_options_that_exist(page: str) -> None:
    for words in commands(page):
        help_text = run(words[0], "--help").stdout
        for word in words:
            assert not word.startswith("--") or word in help_text
