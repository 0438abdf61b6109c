"""Kill training runs at random moments and resume each: the final weights must be the same.

    python tests/campaigns/kill.py --kills 60 --write tests/campaigns/kill.md

Each recipe is trained once without interruption. Then it is trained in processes that receive
SIGKILL after a random time. Each next process resumes the run, and the last one finishes it. States
are saved every other update, so that many kills interrupt a write; others interrupt the writing of
token files, of the run folder, or of the checkpoint.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.figure  # noqa: F401  # imported once here, not in every process
import torch

from zoo.checkpoint.tensors import read_tensors
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume

BASE: dict[str, Any] = {
    "tokenizer": "word", "batch_tokens": 200, "save_every": 2, "dropout": 0.2, "validate_every": 5,
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "rnnsearch-tiny": {"embedding_dim": 16, "encoder_dim": 16, "hidden_dim": 32,
                       "attention_dim": 16, "readout_dim": 16},
    "seq2seq-tiny": {"embedding_dim": 16, "hidden_dim": 16},
    "convs2s-tiny": {"embedding_dim": 16, "encoder": [[16, 3]], "decoder": [[16, 3]],
                     "output_dim": 16},
    "transformer-tiny": {"dim": 16, "heads": 2, "feedforward_dim": 16, "encoder_layers": 1,
                         "decoder_layers": 1},
}  # fmt: skip


class Row(NamedTuple):
    """A training run to kill: with a parent, `zoo train --from` with vocabularies of new words."""

    name: str
    model: str
    settings: dict[str, Any]
    parent: Path | None = None


TRAINED = [
    Row("plain", "rnnsearch-tiny", {}),
    Row("accumulate = 3, AdamW", "rnnsearch-tiny",
        {"accumulate": 3, "optimizer": "adamw", "weight_decay": 0.1}),
    Row("average_last = 3, select = loss", "rnnsearch-tiny",
        {"average_last": 3, "select": "loss"}),
    Row("average_decay = 0.9, BLEU", "rnnsearch-tiny",
        {"average_decay": 0.9, "select": "bleu", "bleu_sentences": 20}),
]  # fmt: skip
STEPS = 120
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def train(data: Path, out: Path, row: Row) -> None:
    """Begin or resume the run, and train to its end."""
    values = {**BASE, **({} if row.parent else SIZES[row.model]), **row.settings}
    tuned: dict[str, Any] = {"from_": row.parent, "new_vocabulary": "both"} if row.parent else {}
    request = TrainingRequest(
        "" if row.parent else row.model, str(data), out, settings=values, steps=STEPS, **tuned
    )
    begun = (out.with_name(f"{out.name}.run") / "run.json").is_file()
    with resume(out) if begun else begin(request) as session:
        # The parent reads the update resumed from, and the number of half-written folders.
        half = sum("half-written" in note or "is restored" in note for note in session.notes)
        (data.parent / "started").write_text(f"{session.trainer.state.step} {half}")
        session.run()


def forked(data: Path, out: Path, row: Row) -> int:
    """Train in a forked process; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        train(data, out, row)
    except BaseException as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def finished(child: int) -> bool:
    """Wait for a process; return whether it was not killed.

    Raises:
        SystemExit: the run failed, which no kill may cause.
    """
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("a resumed run failed")
    return not os.WIFSIGNALED(status)


def same(one: Path, other: Path) -> bool:
    """Return whether two checkpoints have the same weights, bit for bit."""
    a, b = (read_tensors(folder / "model.safetensors") for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def corpus(folder: Path, words: range, draw: random.Random) -> Path:
    """Write 300 pairs of random words."""
    names = [f"w{i}" for i in words]
    lines = ["\t".join(" ".join(draw.choices(names, k=draw.randint(2, 9))) for _ in range(2))
             for _ in range(300)]  # fmt: skip
    data = folder / "data.tsv"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return data


def tuned(folder: Path, draw: random.Random) -> list[Row]:
    """Train a parent of each family on words of which the runs' data has half."""
    data = corpus(folder, range(20, 60), draw)
    rows = []
    for model in SIZES:
        parent = folder / model
        assert finished(forked(data, parent, Row("parent", model, {})))
        rows.append(Row(f"{model.removesuffix('-tiny')} tuned, new vocabularies", "", {}, parent))
    rows[-1].settings.update({"freeze": ["encoder*"], "select": "loss"})
    return rows


def campaign(folder: Path, kills: int, draw: random.Random) -> list[list[str]]:
    """Kill the runs of all rows, `kills` times in total; return the rows of the table."""
    everything = [*TRAINED, *tuned(folder, draw)]
    data = corpus(folder, range(40), draw)
    rows = []
    for number, row in enumerate(everything):
        plain, cut = folder / f"plain{number}", folder / f"cut{number}"
        os.environ["ZOO_CACHE"] = str(folder / f"cache{number}a")
        began = time.monotonic()
        assert finished(forked(data, plain, row))
        whole = time.monotonic() - began
        os.environ["ZOO_CACHE"] = str(folder / f"cache{number}b")
        share = kills // len(everything) + (number < kills % len(everything))
        counts = one_run(data, cut, row, share, whole, draw)
        if not same(plain, cut):
            raise SystemExit(f"{row.name}: the weights differ")
        left = [f.name for f in folder.iterdir() if f.name.startswith(f".{cut.name}.")]
        if left:
            raise SystemExit(f"{row.name}: {', '.join(left)} is left")
        rows.append([row.name, *counts, "equal"])
    return rows


def one_run(
    data: Path, out: Path, row: Row, kills: int, whole: float, draw: random.Random
) -> list[str]:
    """Train with kills; return the counts of kills, resumed updates and half-written folders."""
    killed, halves, steps = 0, 0, []
    started = data.parent / "started"
    while True:
        started.unlink(missing_ok=True)
        child = forked(data, out, row)
        if killed < kills:
            # A quarter while the process starts, the others while it trains or writes.
            if draw.random() < 0.25:
                time.sleep(draw.uniform(0, 0.5))
            else:
                while not started.exists() and not os.waitid(os.P_PID, child, ENDED):
                    time.sleep(0.002)
                time.sleep(draw.uniform(0, whole / 6))
            os.kill(child, signal.SIGKILL)
        if finished(child):
            if killed >= kills:
                break
        else:
            killed += 1
        if started.exists() and (text := started.read_text()):
            step, half = map(int, text.split())
            steps.append(step)
            halves += half
        print(f"\r{out.name}: killed {killed} times, at update {max(steps, default=0)}  ", end="",
              file=sys.stderr, flush=True)  # fmt: skip
    print(file=sys.stderr)
    return [str(killed), str(len(set(steps))), str(halves)]


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = campaign(Path(folder), given.kills, random.Random(given.seed))
    head = ["recipe", "kills (-9)", "distinct updates resumed from",
            "half-written folders found", "final weights"]  # fmt: skip
    table = "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])
    minutes = (time.monotonic() - began) / 60
    text = (
        f"Printed by `python tests/campaigns/kill.py --kills {given.kills} --seed {given.seed}`: "
        f"{STEPS} updates of\nsmall networks, RNNSearch where none is named, a state every 2 "
        f"updates, killed at random moments\nand resumed each time; torch {torch.__version__}, "
        f"Python {platform.python_version()}, {minutes:.1f} minutes.\n\n{table}\n"
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Kills\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
