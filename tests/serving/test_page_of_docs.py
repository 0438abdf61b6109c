"""The commands in docs/serving.md are run."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from tests.serving.client import start
from tests.serving.conftest import CAPTIONS, CARDS
from zoo.cli import cli

TEXT = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("zoo ")])
def test_options_of_each_command_exist(line: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(line, comments=True)[1:]
    key = tmp_path / "key.txt"
    key.write_text("secret\n")
    command = cli.get_command(click.Context(cli), program)
    assert command is not None
    given = [str(key) if argument == "key.txt" else argument for argument in arguments]
    command.make_context(program, given)  # parses, and does not run


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_command_gets_two_translations() -> None:
    (line,) = (line for line in COMMANDS if line.startswith("curl "))
    with start(f"captions={CARDS / CAPTIONS}", "--workers", "1", forked=True) as server:
        command = [*shlex.split(line), "--silent"]
        command = [word.replace(":8000", f":{server.port}") for word in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        (translation,) = json.loads(done.stdout)["translations"]
        (text,) = server.translate("captions", "A man walks.", beam=4, n_best=2)
        request = {"checkpoint": "captions", "texts": ["A man walks."], "token_scores": True}
        (scored,) = server.send("/api/translate", request).json["translations"]
        unknown = server.send("/api/translate", {**request, "checkpoint": "caption"})
    assert translation["text"] == text
    assert len(translation["alternatives"]) == 1
    total = sum(token["log_prob"] for token in scored["tokens"])
    assert total == pytest.approx(scored["score"], rel=1e-4)
    assert "`token_scores` gives the log probability of each token" in TEXT
    assert unknown.status == 404
    assert "captions" in unknown.json["error"]
    assert "near names of checkpoints are suggested" in TEXT
