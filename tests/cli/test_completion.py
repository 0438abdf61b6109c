"""Shell completion: models, checkpoints, datasets, recipes and keys of `--set`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner

from zoo.cli import cli


def completed(line: str) -> list[str]:
    """Return what the last word of a command line is completed to."""
    *words, last = line.split(" ")
    items = ShellComplete(cli, {}, "zoo", "_ZOO_COMPLETE").get_completions(words, last)
    return [f"<{item.type}>" if item.type != "plain" else item.value for item in items]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tra", ["train", "translate"]),
        ("train seq2seq-l", ["seq2seq-lstm4"]),
        ("bench train seq2seq-l", ["seq2seq-lstm4"]),
        ("train seq2seq-tiny --data sh", ["shift"]),
        ("train seq2seq-tiny --data ./cor", ["<file>"]),
        ("train seq2seq-tiny --set laye", ["layers="]),
        ("train seq2seq-tiny --set recipe.learning_r", ["recipe.learning_rate="]),
        ("train --recipe seq2seq-tiny.num", ["seq2seq-tiny.numbers-en-fr"]),
        ("info seq2seq-tiny --set recipe.l", []),
        ("info seq2seq-l", ["seq2seq-lstm4"]),
        ("card seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("translate seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("translate x --with seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("translate ./my", ["<dir>"]),
        ("eval seq2seq-tiny.numbers-en-fr --data numb", ["numbers-en-fr"]),
        ("pull seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("serve seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("list sched", ["schedules"]),
        ("list schedules co", ["constant", "cosine"]),
        ("list models seq2seq-l", ["seq2seq-lstm4"]),
        ("list nothing x", []),
        ("list metrics ble", ["bleu"]),
        ("list recipes numb", ["numbers-en-fr"]),
        ("export seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("export x --format ", ["ctranslate2", "huggingface", "onnx"]),
        ("push x hf://a/b --format hug", ["huggingface"]),
        ("import x --format joey", ["joeynmt-rnn", "joeynmt-transformer"]),
        ("data get multi30k-de", ["multi30k-de-en"]),
        ("data get numb", []),
        ("data show numb", ["numbers-en-fr"]),
        ("translate x --engine c", ["ctranslate2"]),
        ("serve x --engine onnx", ["onnxruntime"]),
        ("eval x --metric ble", ["bleu"]),
        ("eval x --metric phone_error_rate_w", ["phone_error_rate_without_stress"]),
        ("translate x --splitter sen", ["sentencex"]),
        ("translate x --search be", ["beam"]),
        ("translate x --processor min", ["min-length"]),
        ("train --from seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("train --also-score numb", ["numbers-en-fr"]),
        ("registry add x seq2seq-tiny.n", ["seq2seq-tiny.numbers-en-fr"]),
        ("plugins transf", ["transformer"]),
    ],
)
def test_names_are_completed(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoo export x --format ", ["plain,ctranslate2", "plain,huggingface", "plain,onnx"]),
        ("zoo eval x --metric ble", ["plain,bleu"]),
        ("zoo registry remove m", ["plain,mine"]),
        ("zoo plugins transf", ["plain,transformer"]),
    ],
)
def test_completion_needs_no_slow_module(line: str, expected: list[str], tmp_path: Path) -> None:
    file = tmp_path / "registry.toml"
    file.write_text('format = 1\n[checkpoints.mine]\nmodel = "m"\ndataset = "d"\nsummary = "s"\n')
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "ZOO_REGISTRY": str(file)}
    code = "import atexit, sys; slow = {'torch', 'pydantic', 'numpy', 'yaml', 'tomlkit'}; "
    code += "atexit.register(lambda: print(slow & {*sys.modules})); from zoo.cli import cli; "
    code += "cli(standalone_mode=False, prog_name='zoo', complete_var='_ZOO_COMPLETE')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, **words, "_ZOO_COMPLETE": "bash_complete",
             "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout.split() == [*expected, "set()"]


def test_names_of_the_own_catalogue_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "registry.toml"
    monkeypatch.setenv("ZOO_REGISTRY", str(file))
    assert completed("registry remove ") == []
    entry = 'model = "m"\ndataset = "d"\nsummary = "s"\n'
    file.write_text(f"format = 1\n[checkpoints.mine]\n{entry}[recipes.more]\nseed = 1\n")
    assert completed("registry remove m") == ["mine", "more"]


def test_aliases_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[aliases]\ncaptions = "runs/captions"\ncaps = "a.b"\n', encoding="utf-8")
    monkeypatch.setenv("ZOO_SETTINGS", str(settings))
    assert completed("translate cap") == ["caps", "captions"]
    assert completed("info capt") == ["captions"]
    settings.write_text("[alias", encoding="utf-8")
    assert completed("translate cap") == ["<dir>"]


@pytest.mark.parametrize("kind", [BashComplete, FishComplete, ZshComplete])
def test_the_code_for_each_shell_is_click_s(kind: type[ShellComplete]) -> None:
    printed = CliRunner().invoke(cli, ["completion", kind.name]).output
    assert printed.rstrip() == kind(cli, {}, "zoo", "_ZOO_COMPLETE").source().rstrip()
    assert "_ZOO_COMPLETE" in printed


def test_bash_accepts_the_code() -> None:
    code = CliRunner().invoke(cli, ["completion", "bash"]).output
    done = subprocess.run(
        ["bash", "-c", f"{code}\ncomplete -p zoo"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("zoo")


def test_the_versions_of_what_matters_are_printed() -> None:
    lines = CliRunner().invoke(cli, ["--version"]).output.splitlines()
    assert [line.split()[0] for line in lines] == [
        "zoo", "Python", "torch", "tokenizers", "safetensors", "huggingface-hub"
    ]  # fmt: skip
