"""What is released: names of checkpoints, and the commands that make them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tasks import TASKS, Task

TOP = Path(__file__).resolve().parents[1]
RUNS = Path("runs/release")
SHIPPED = Path("cards/checkpoints")
PENALTIES = {
    "seq2seq-tiny.multi30k-de-en": 0.6,
    "rnnsearch-tiny.multi30k-de-en": 0.6,
    "convs2s-tiny.multi30k-de-en": 1.0,
    "transformer-tiny.multi30k-de-en": 1.0,
    "seq2seq-tiny.multi30k-en-fr": 1.0,
    "rnnsearch-tiny.multi30k-en-fr": 0.6,
    "convs2s-tiny.multi30k-en-fr": 1.0,
    "transformer-tiny.multi30k-en-fr": 1.0,
}
"""Length penalties that differ from their task's, chosen on validation data."""
NAMES = tuple(f"{model}.{name}" for name, task in TASKS.items() for model in task.families)
"""Every checkpoint that has a recipe here. Those in `SHIPPED` are released."""
CATALOGUE = tuple(
    f"{model}.{name}" for name, task in TASKS.items() for model in task.families[::-1]
)
"""The order of the catalogue. Without names, `zoo serve` offers the first one first."""


def task_of(name: str) -> Task:
    """Return the task of a checkpoint."""
    return TASKS[data_of(name)]


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
    if name in PENALTIES:
        search["length_penalty"] = PENALTIES[name]
    return search


def as_options(search: dict[str, Any]) -> list[str]:
    """Return search options as command-line words."""
    return [word for k, v in search.items() for word in (f"--{k.replace('_', '-')}", str(v))]
