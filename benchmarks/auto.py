"""The recipe `auto` compared with the tuned recipes: the same data and time, one after the other.

    python benchmarks/auto.py                                 every case and model; takes hours
    python benchmarks/auto.py --case tatoeba --minutes 2      one case
    python benchmarks/auto.py --table                         only write the table again

Corpora are written as plain text files, so that no recipe applies by name. `auto` gets them with
nothing but --minutes; the tuned recipe gets --recipe as well. The two take turns, each in its own
process, with the same number of threads. Both are scored on text that neither has read. Rows are
stored in `auto.jsonl`, and the table is written to `RESULTS-auto.md`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from report import Measurements, Row, machine, write

from zoo.data.readers import read_tsv
from zoo.registry.declarations import Pair
from zoo.registry.registry import default_registry

HERE = Path(__file__).parent
ROWS = HERE / "auto.jsonl"
RESULTS = HERE / "RESULTS-auto.md"
MODELS = ("transformer-tiny", "rnnsearch-tiny", "convs2s-tiny", "seq2seq-tiny")
RECIPES = ("auto", "tuned")
HELD_OUT = 200


class Case(NamedTuple):
    """A corpus: its languages, the minutes of a run, the tuned recipe and the metric."""

    languages: str
    minutes: float
    recipe: str
    metric: str


CASES = {
    "tatoeba": Case("en-fr", 2, "tatoeba", "chrf"),
    "multi30k": Case("en-de", 30, "{model}.multi30k", "bleu"),
    "numbers-en-fr": Case("en-fr", 5, "{model}.numbers-en-fr", "exact_match"),
    "shift": Case("a-b", 5, "shift", "exact_match"),
}


def pairs(case: str) -> dict[str, list[Pair]]:
    """Return the pairs to train on and those to score on."""
    datasets = default_registry().datasets
    if case == "tatoeba":
        file = Path(os.environ["ZOO_DATA"]) / "tatoeba-en-fr" / "fra.txt"
        return _hold_out(list(islice(read_tsv(file), 1905 + HELD_OUT)))
    dataset = datasets["multi30k-en-de" if case == "multi30k" else case]
    return {"train": dataset.load("train"), "test": dataset.load("test")}


def _hold_out(whole: list[Pair]) -> dict[str, list[Pair]]:
    """Hold out 200 pairs whose sources are in no other pair, in the order of a hash."""
    by_source: dict[str, list[Pair]] = {}
    for pair in whole:
        by_source.setdefault(pair.source, []).append(pair)
    order = sorted(by_source, key=lambda s: hashlib.blake2b(s.encode() + b"x").digest())
    test: set[str] = set()
    count = 0
    for source in order:
        if count + len(by_source[source]) <= HELD_OUT:
            test.add(source)
            count += len(by_source[source])
    return {
        "train": [pair for pair in whole if pair.source not in test],
        "test": [pair for pair in whole if pair.source in test],
    }


def write_corpus(case: str, folder: Path) -> None:
    """Write `train` and `test` as files that are aligned by line."""
    for split, chosen in pairs(case).items():
        for side, language in enumerate(CASES[case].languages.split("-")):
            text = "".join(f"{pair[side]}\n" for pair in chosen)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def measure(case: str, model: str, recipe: str, minutes: float, folder: Path) -> Row:
    """Train and score once; return the row."""
    languages, _, tuned, metric = CASES[case]
    out = folder / f"{model}.{recipe}"
    command = ["train", model, "--data", f"{folder / 'train'}:{languages}", "--out", str(out),
               "--minutes", str(minutes)]  # fmt: skip
    if recipe == "tuned":
        command += ["--recipe", tuned.format(model=model)]
    _zoo(command)
    scores = json.loads(
        _zoo(["eval", str(out), "--data", f"{folder / 'test'}:{languages}", "--json"])
    )
    training = json.loads((out / "training.json").read_text(encoding="utf-8"))
    return {
        "case": case, "model": model, "recipe": recipe, "minutes": minutes, "metric": metric,
        "score": scores[metric], "updates": training["steps"], "took": training["minutes"],
        "load": round(os.getloadavg()[0], 1), "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "machine": machine(),
    }  # fmt: skip


def _zoo(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, "-m", "zoo", *arguments], capture_output=True,
                          text=True)  # fmt: skip
    if done.returncode:
        sys.exit(f"zoo {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def table(rows: Mapping[Any, Row]) -> Iterator[str]:
    """Yield the table's lines."""
    yield "| corpus | model | minutes | metric | auto | tuned | updates, auto | tuned | load |"
    yield "|---|---|--:|---|--:|--:|--:|--:|--:|"
    for case in CASES:
        for model in MODELS:
            both = [rows.get((case, model, recipe)) for recipe in RECIPES]
            known = [row for row in both if row]
            if known:
                scores = [f"{row['score']:.1f}" if row else "" for row in both]
                updates = [f"{row['updates']:,}" if row else "" for row in both]
                first = known[0]
                cells = [case, f"`{model}`", f"{first['minutes']:g}", first["metric"]]
                load = max(row["load"] for row in known)
                yield f"| {' | '.join([*cells, *scores, *updates, f'{load:g}'])} |"


def main() -> None:
    """Measure what was asked for, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--recipe", action="append", choices=RECIPES)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    measurements = Measurements(ROWS, lambda row: (row["case"], row["model"], row["recipe"]))
    for case in [] if given.table else given.case or CASES:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(case, Path(folder))
            for model in given.model or MODELS:
                for recipe in given.recipe or RECIPES:
                    minutes = given.minutes or CASES[case].minutes
                    row = measure(case, model, recipe, minutes, Path(folder))
                    print(json.dumps(row), flush=True)
                    measurements.put(row)
    write(RESULTS, "benchmarks/auto.py", "\n".join(table(measurements.read())))


if __name__ == "__main__":
    main()
