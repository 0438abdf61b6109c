"""What is released: names, search options, scores and terms of every checkpoint."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
RUNS = Path("runs/release")
SHIPPED = Path("cards/checkpoints")
MODELS = ("seq2seq-tiny", "rnnsearch-tiny", "convs2s-tiny", "transformer-tiny")
SEARCH: dict[str, dict[str, Any]] = {
    "numbers-en-fr": {},
    "multi30k-en-de": {"beam": 5, "length_penalty": 1.5},
}
"""Search options of each task."""
PENALTIES = {"rnnsearch-tiny.multi30k-en-de": 1.0}
"""Length penalties that differ from their task's, chosen on validation data."""
SCORED = {
    "numbers-en-fr": [["--split", "test", "--confidence"]],
    "multi30k-en-de": [
        ["--split", "validation"],
        ["--split", "test", "--confidence"],
        ["--split", "test", "--lowercase", "--confidence"],
    ],
}
"""Options of the `zoo eval` runs of each task."""
HEADLINES = {
    "numbers-en-fr": ("exact_match",),
    "multi30k-en-de": ("bleu", "chrf", "tokenized_bleu"),
}
"""Test scores that the catalogue lists."""
LICENSES = {
    "numbers-en-fr": {"license": "apache-2.0"},
    "multi30k-en-de": {"license": "other", "license_name": "multi30k-non-commercial"},
}
TERMS = {
    "numbers-en-fr": "The data is generated. The weights are under the license of the project.",
    "multi30k-en-de": (
        "The data is for research and education, not for commercial use (Elliott et al. 2016), and "
        "so are weights trained on it. The example sentences are quoted from it."
    ),
}
PLOTTED = {
    "numbers-en-fr": "four hundred and ninety-two thousand, six hundred and five",
    "multi30k-en-de": "Two dogs are playing in the snow.",
}
"""Sources of the attention plots."""
NAMES = tuple(f"{model}.{task}" for task in SCORED for model in MODELS)


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
    search = dict(SEARCH[name.partition(".")[2]])
    if name in PENALTIES:
        search["length_penalty"] = PENALTIES[name]
    return search


def as_options(search: dict[str, Any]) -> list[str]:
    """Return search options as command-line words."""
    return [word for k, v in search.items() for word in (f"--{k.replace('_', '-')}", str(v))]
