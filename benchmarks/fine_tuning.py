"""Tune a checkpoint of each family on 500 pairs of another domain: what it gains and loses.

    python benchmarks/fine_tuning.py --out runs --write benchmarks/fine-tuning.md

The pairs are everyday sentences, of the training split of `tatoeba-en-fr-76k` (from `ZOO_DATA`). Of
its distinct sources of at least four words, 500 are drawn to tune on, and 500 others to score. Each
released checkpoint for captions is tuned as `zoo train --from` does without further options, and
with a share of the parent's weights, and scored before and after on 200 of the held-out pairs, and
on 200 of the captions' test set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from pathlib import Path

import zoo
from zoo.checkpoint.markdown import markdown_table
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry

PARENTS = [f"{family}-tiny.multi30k-en-fr"
           for family in ("transformer", "rnnsearch", "convs2s", "seq2seq")]  # fmt: skip
DATA, PAIRS = "tatoeba-en-fr-76k", 500
SHARES = (0.0, 0.3)
"""The `parent_share` of the runs."""


def split(out: Path) -> tuple[Path, Path]:
    """Write the pairs to tune on and those to score; return both files."""
    targets: dict[str, str] = {}
    for pair in find_dataset(default_registry(), DATA).load("train"):
        if len(pair.source.split()) >= 4:
            targets.setdefault(pair.source, pair.target)
    pairs = list(targets.items())
    random.Random(1).shuffle(pairs)
    files = (out / "tune.tsv", out / "held-out.tsv")
    for number, part in enumerate(files):
        chosen = pairs[number * PAIRS : (number + 1) * PAIRS]
        part.write_text("".join(f"{a}\t{b}\n" for a, b in chosen), encoding="utf-8")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoints")
    parser.add_argument("--write", type=Path, help="write the table to this file")
    parser.add_argument("--parents", nargs="+", default=PARENTS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tune, held_out = split(given.out)
    rows = []
    for parent, share in itertools.product(given.parents, SHARES):
        out, began = given.out / f"{parent}.tuned-{share:g}", time.process_time()
        if not (out / "training.json").is_file():
            zoo.train(None, str(tune), out, from_=parent, also_score=[str(held_out)],
                      settings={"parent_share": share})  # fmt: skip
        seconds = time.process_time() - began
        training = json.loads((out / "training.json").read_text(encoding="utf-8"))
        for row in training["tuning"][1:]:  # the first is of the few pairs that validate
            changes = [f"{row['before'][m]:.1f} → {row['after'][m]:.1f}" for m in ("chrf", "bleu")]
            rows.append([f"`{parent}`", f"{share:g}", f"{row['data']}, {row['split']}", *changes])
        print(
            f"{parent}, {share:g}: {training['released']} updates, {seconds:.0f} processor seconds"
        )
    table = markdown_table(
        ["checkpoint", "`parent_share`", "200 sentences of", "chrF", "BLEU"], rows
    )
    print(table)
    if given.write:
        command = "python benchmarks/fine_tuning.py --out runs"
        given.write.write_text(f"# Fine-tuning\n\nPrinted by `{command}`.\n\n{table}\n")


if __name__ == "__main__":
    main()
