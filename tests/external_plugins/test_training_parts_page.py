"""The package of docs/training-parts.md, installed, beside one whose entries are all broken."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import zoo
from tests.external_plugins.packages import put
from tests.external_plugins.test_pages import snippets
from tests.forked import python

TOP = Path(__file__).parents[2]
WHO = "worn (zoo-worn 1.0)"
WORN = """
import zoo
from zoo import hookimpl

ZOO_API = 2

@hookimpl
def zoo_objectives():
    yield zoo.Objective("ctc", "a taken name", "zoo_worn:no")
    yield zoo.Objective("cross_entropy", "a built-in name", "zoo_worn:no")
    yield zoo.Objective("elsewhere", "an import error", "zoo_absent:no")
    yield "ctc"

@hookimpl
def zoo_schedules():
    yield zoo.Schedule("narrow", "a wrong signature", "zoo_worn:narrow")
    yield zoo.Schedule("pathless", "no path", "narrow")

def narrow():
    pass
"""


SCRIPT = """
import json, sys
import pytest
from click.testing import CliRunner
from zoo.cli import cli

for words in json.load(sys.stdin):
    result = CliRunner().invoke(cli, words)
    print(json.dumps([result.exit_code, result.stdout, result.stderr]), file=sys.stderr)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_parts.py"]))
"""
"""Runs commands of the command line in one process, and then the laws."""


def test_the_package_of_the_page_beside_a_broken_one(tmp_path: Path) -> None:
    parts = list(snippets("training-parts"))
    (code,) = (s.text for s in parts if s.title == "zoo_parts.py")
    (shell,) = (s.text for s in parts if s.kind == "sh")
    site = tmp_path / "site"
    put(site, "parts", code)
    put(site, "worn", WORN)
    for snippet in parts:
        if snippet.title:
            (tmp_path / snippet.title).write_text(snippet.text)
    (tmp_path / "zoo_parts.py").unlink()
    path = os.pathsep.join(map(str, (site, TOP, TOP / "plugins")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}

    def run(*words: str, given: object = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*python(), *words], cwd=tmp_path, env=environment,
                              input=json.dumps(given), capture_output=True, text=True)  # fmt: skip

    trained = [
        [*re.sub(r"--steps \d+", f"--steps {steps}", line).split(), *limit]
        for line, steps, limit in zip(
            re.findall(r"^zoo (train .*)$", shell, re.MULTILINE),
            (3, 5),
            (["--limit", "300"], []),
            strict=True,
        )
    ]
    new = ["train", "rnnsearch-tiny", "--data", "shift", "--out", "x", "--steps", "1"]
    broken = [[*new, "--set", choice] for choice in ("objective=elsewhere", "schedule=narrow")]
    done = run("-c", SCRIPT, given=[["plugins", "--json"], *trained, *broken])
    results = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
    assert [code for code, _, _ in results] == [0, 0, 0, 1, 1], done.stderr[-2000:]
    assert "25 passed" in done.stdout, done.stdout
    check_listing(json.loads(results[0][1]))
    reports = (tmp_path / "parts.run" / "metrics.jsonl").read_text().splitlines()
    assert set(json.loads(reports[0])["losses"]) == {"cross_entropy", "ctc"}
    messages = (
        ("objective 'elsewhere'", "gave ModuleNotFoundError: No module named 'zoo_absent'"),
        ("schedule 'narrow'", "it is called with (recipe, option=…), and takes ()"),
    )
    for (_, _, errors), (entry, message) in zip(results[3:], messages, strict=True):
        last = errors.splitlines()[-1]
        assert f"Error: {entry} of {WHO} is broken: " in last
        assert message in last
    for folder in site.glob("zoo_worn*"):  # uninstalled
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    listed = json.loads(run("-m", "zoo", "plugins", "--json").stdout)
    assert not [problem for problem in listed["problems"] if "worn" in problem]


def check_listing(listed: dict[str, Any]) -> None:
    (row,) = (row for row in listed["plugins"] if row["name"] == "parts")
    assert row["adds"]["objectives"] == ["ctc"]
    assert row["adds"]["augmentations"] == ["reversed"]
    (row,) = (row for row in listed["plugins"] if row["name"] == "worn")
    assert row["adds"]["objectives"] == ["elsewhere"]
    core = f"core (seq2seq-zoo {zoo.__version__})"
    same = "brings one of the same name"
    for problem in (
        f"objective 'ctc' of {WHO} is ignored: parts (zoo-parts 1.0) {same}",
        f"objective 'cross_entropy' of {WHO} is ignored: {core} {same}",
        f"a schedule of {WHO} is ignored: its path is 'narrow', not 'package.module:Name'",
        f"zoo_objectives of {WHO} returned 'ctc', which is not of type Objective",
        f"schedule 'narrow' of {WHO} is broken: it is called with (recipe, option=…), and takes ()",
    ):
        assert problem in listed["problems"]
