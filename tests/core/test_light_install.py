"""Without the extras: inference works, and everything else names the extra that it needs.

The packages are hidden in a process of its own. `python benchmarks/install.py` tries the same in an
environment that has only the core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.registry.builtin import top

HIDDEN = ["matplotlib", "sacrebleu", "num2words", "starlette", "onnx", "ctranslate2"]
FOLDER = top() / "cards" / "checkpoints" / "rnnsearch-tiny.numbers-en-fr"
NAME = FOLDER.name
PROGRAM = f"""
import json, sys
for name in {HIDDEN}:
    sys.modules[name] = None
from click.testing import CliRunner
from zoo.cli import cli
results = []
for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(cli, arguments)
    results.append((done.exit_code, done.output))
json.dump(results, sys.stdout)
"""
COMMANDS = {
    "list": ["list"],
    "info": ["info", NAME],
    "translate": ["translate", NAME, "twenty-one"],
    "attention": ["attention", NAME, "twenty-one"],
    "page": ["attention", NAME, "twenty-one", "--out", "a.html"],
    "pull": ["pull", f"file://{FOLDER}"],
    "score": ["score", NAME, "twenty-one", "vingt et un"],
    "picture": ["attention", NAME, "twenty-one", "--out", "a.png"],
    "eval": ["eval", NAME, "--data", "shift"],
    "train": ["train", "rnnsearch-tiny", "--data", "shift", "--out", "run"],
    "numbers": ["data", "show", "numbers-en-fr"],
    "serve": ["serve", NAME],
    "export": ["export", NAME, "--format", "onnx", "--out", "exported"],
}
LACKING = {
    "picture": ("PNG and SVG", "matplotlib", "plots"),
    "eval": ("scores", "sacrebleu", "train"),
    "train": ("scores", "sacrebleu", "train"),
    "numbers": ("numbers-en-fr", "num2words", "train"),
    "serve": ("`zoo serve`", "starlette", "serve"),
    "export": ("onnx", "onnx", "onnx"),
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    folder = tmp_path_factory.mktemp("light")
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps([*COMMANDS.values()]),
                          cwd=folder, env={**_environment(folder)}, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, map(tuple, json.loads(done.stdout)), strict=True))


def _environment(folder: Path) -> dict[str, str]:
    import os

    paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)
    return {**os.environ, "ZOO_CACHE": str(folder / "cache"), "PYTHONPATH": paths}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in LACKING])
def test_inference_works_without_the_extras(name: str, outputs: dict[str, tuple[int, str]]) -> None:
    code, output = outputs[name]
    assert code == 0, output
    if name == "translate":
        assert output == "vingt et un\n"


@pytest.mark.parametrize("name", LACKING)
def test_a_missing_extra_is_named_in_one_line(
    name: str, outputs: dict[str, tuple[int, str]]
) -> None:
    code, output = outputs[name]
    purpose, package, extra = LACKING[name]
    assert code == 1
    (line,) = output.strip().splitlines()
    assert line.startswith(f"Error: missing packages for {purpose}: {package}")
    assert line.endswith(f"not installed. pip install 'seq2seq-zoo[{extra}]'")
