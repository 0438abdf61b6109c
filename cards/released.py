"""What is released: names of checkpoints, and the commands that make them."""

from __future__ import annotations

import datetime
import hashlib
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks import TASKS, Task

TOP = Path(__file__).resolve().parents[1]
RUNS = Path("runs/release")
SHIPPED = Path("cards/checkpoints")
CHOICES = TOP / "cards" / "choices.json"
"""Length penalties that were chosen on validation data: see `selection.py`."""
TEST_LOG = TOP / "cards" / "test-scores.md"
NAMES = tuple(f"{model}.{name}" for name, task in TASKS.items() for model in task.families)
"""Every checkpoint that has a recipe here. Those in `SHIPPED` are released."""
CATALOGUE = tuple(
    f"{model}.{name}" for name, task in TASKS.items() for model in task.families[::-1]
)
"""The order of the catalogue. Without names, `zoo serve` offers the first one first."""


def task_of(name: str) -> Task:
    """Return the task of a checkpoint, with the limits of its model."""
    task = TASKS[data_of(name)]
    return replace(task, limits=task.limits_of.get(name.partition(".")[0], task.limits))


def data_of(name: str) -> str:
    """Return the name of the dataset of a checkpoint."""
    return name.partition(".")[2]


def run(*words: str | Path, stdin: str | None = None) -> str:
    """Run a `zoo` command or a Python program at the repository's top and return its output."""
    arguments = [str(word) for word in words]
    print(f"$ {shlex.join(arguments)}", file=sys.stderr, flush=True)
    program = ["-m", "zoo", *arguments[1:]] if arguments[0] == "zoo" else arguments[1:]
    done = subprocess.run(
        [sys.executable, *program], cwd=TOP, input=stdin, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(arguments)} exited with {done.returncode}")
    return done.stdout


def search_of(name: str) -> dict[str, Any]:
    """Return the search options of a checkpoint."""
    search = dict(task_of(name).search)
    if name in (choices := read_json(CHOICES)):
        search["length_penalty"] = choices[name]["length_penalty"]
    return search


def as_options(search: dict[str, Any]) -> list[str]:
    """Return search options as command-line words."""
    return [word for k, v in search.items() for word in (f"--{k.replace('_', '-')}", str(v))]


def read_json(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file, which may not exist yet."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return content


def log_test_score(name: str, folder: Path, options: list[str]) -> None:
    """Add a line to the log of when test sets were scored, unless these weights are in it."""
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]
    line = f"| {name} | {digest} | `{shlex.join(options)}` |"
    text = TEST_LOG.read_text(encoding="utf-8")
    if line not in text:
        today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
        TEST_LOG.write_text(f"{text}| {today} {line}\n", encoding="utf-8")
