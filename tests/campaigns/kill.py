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
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.figure  # noqa: F401  # imported once here, not in every process
import torch

from zoo.checkpoint.tensors import read_tensors
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume

BASE: dict[str, Any] = {
    "embedding_dim": 16, "encoder_dim": 16, "hidden_dim": 32, "attention_dim": 16,
    "readout_dim": 16, "tokenizer": "word", "batch_tokens": 200, "save_every": 2, "dropout": 0.2,
    "validate_every": 5,
}  # fmt: skip
RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulate = 3, AdamW": {"accumulate": 3, "optimizer": "adamw", "weight_decay": 0.1},
    "average_last = 3, select = loss": {"average_last": 3, "select": "loss"},
    "average_decay = 0.9, BLEU": {"average_decay": 0.9, "select": "bleu", "bleu_sentences": 20},
}
STEPS = 120
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def train(data: Path, out: Path, settings: dict[str, Any]) -> None:
    """Begin or resume the run, and train to its end."""
    values = {**BASE, **settings}
    request = TrainingRequest("rnnsearch-tiny", str(data), out, settings=values, steps=STEPS)
    begun = (out.with_name(f"{out.name}.run") / "run.json").is_file()
    with resume(out) if begun else begin(request) as session:
        # The parent reads the update resumed from, and the number of half-written folders.
        half = sum("half-written" in note or "is restored" in note for note in session.notes)
        (data.parent / "started").write_text(f"{session.trainer.state.step} {half}")
        session.run()


def forked(data: Path, out: Path, settings: dict[str, Any]) -> int:
    """Train in a forked process; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        train(data, out, settings)
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


def campaign(folder: Path, kills: int, draw: random.Random) -> list[list[str]]:
    """Kill the runs of all recipes, `kills` times in total; return the rows of the table."""
    words = [f"w{i}" for i in range(40)]
    lines = ["\t".join(" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(2))
             for _ in range(300)]  # fmt: skip
    data = folder / "data.tsv"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = []
    for number, (name, settings) in enumerate(RECIPES.items()):
        plain, cut = folder / f"plain{number}", folder / f"cut{number}"
        os.environ["ZOO_CACHE"] = str(folder / f"cache{number}a")
        began = time.monotonic()
        assert finished(forked(data, plain, settings))
        whole = time.monotonic() - began
        os.environ["ZOO_CACHE"] = str(folder / f"cache{number}b")
        share = kills // len(RECIPES) + (number < kills % len(RECIPES))
        row = one_run(data, cut, settings, share, whole, draw)
        if not same(plain, cut):
            raise SystemExit(f"{name}: the weights differ")
        left = [f.name for f in folder.iterdir() if f.name.startswith(f".{cut.name}.")]
        if left:
            raise SystemExit(f"{name}: {', '.join(left)} is left")
        rows.append([name, *row, "equal"])
    return rows


def one_run(
    data: Path, out: Path, settings: dict[str, Any], kills: int, whole: float, draw: random.Random
) -> list[str]:
    """Train with kills; return the counts of kills, resumed updates and half-written folders."""
    killed, halves, steps = 0, 0, []
    started = data.parent / "started"
    while True:
        started.unlink(missing_ok=True)
        child = forked(data, out, settings)
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
    text = (
        f"Printed by `python tests/campaigns/kill.py --kills {given.kills} --seed {given.seed}`: "
        f"{STEPS} updates of a\nsmall RNNSearch, a state every 2 updates, killed at random moments "
        f"and resumed each time; torch\n{torch.__version__}, Python {platform.python_version()}, "
        f"{(time.monotonic() - began) / 60:.1f} minutes.\n\n{table}\n"
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Kills\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
