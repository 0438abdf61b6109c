"""Several processes that train one model, started by torchrun, over gloo on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.core.test_training import SMALL, weights
from zoo.errors import ConfigError
from zoo.training.group import Group, join

SETTINGS = {**SMALL, "dropout": 0.0, "accumulate": 2, "clip": 0.5, "bleu_sentences": 3,
            "validate_every": 5, "average_decay": 0.9}  # fmt: skip
WORDS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
PLAIN = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def torchrun(*options: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            *options, "-m", "zoo", "train"]  # fmt: skip


Train = Callable[..., str]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Train]:
    """Train in that many processes, and return what was told."""
    command = [sys.executable, "-m", "tests.training.forks"]
    top = Path(__file__).parents[2]
    logs = tmp_path_factory.mktemp("logs")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=ENVIRONMENT, cwd=top) as server:  # fmt: skip

        def call(processes: int, *arguments: object, ends: int = 0) -> str:
            assert server.stdin is not None
            assert server.stdout is not None
            log = logs / str(len(list(logs.iterdir())))
            job = [processes, str(log), ["train", *map(str, arguments)]]
            server.stdin.write(json.dumps(job) + "\n")
            server.stdin.flush()
            codes = json.loads(server.stdout.readline())
            told = log.read_text()
            assert codes == [ends] * processes, told
            return told

        yield call


def metrics(out: Path) -> list[dict[str, Any]]:
    lines = out.with_name(f"{out.name}.run").joinpath("metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(out: Path) -> list[tuple[int, float]]:
    return [(r["step"], r.get("loss") or r["validation_loss"]) for r in metrics(out)]


def assert_same(one: Path, other: Path, within: float = 1e-5) -> None:
    """The same losses and scores at the same updates, and the same weights, to rounding."""
    pairs = list(zip(losses(one), losses(other), strict=True))
    assert len(pairs) > 3
    for (step, loss), (other_step, other_loss) in pairs:
        assert step == other_step
        assert loss == pytest.approx(other_loss, abs=within)
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    for name, weight in a.items():
        assert a[name].shape == b[name].shape
        assert float((weight - b[name]).abs().max()) < within


def test_two_processes_do_what_one_does(trained: Train, parallel: Path, tmp_path: Path) -> None:
    """Whole on each or in shards; and each of them goes on from the other's state."""
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *WORDS, "--steps", 16, "--out")
    trained(1, *given, tmp_path / "one")
    told = trained(2, *given, tmp_path / "two")
    assert told.count("2 processes, data in parallel") == 1, "the first process alone prints"
    assert told.count("16 updates") == 1
    assert_same(tmp_path / "one", tmp_path / "two")
    half = (*given[:-3], "--steps", 8, "--out", tmp_path / "mixed")
    told = trained(2, *half, "--shard")
    assert "2 processes, each with its share of the weights" in told
    told = trained(1, "--resume", "--steps", 16, "--out", tmp_path / "mixed")
    assert "processes 2 → 1" in told
    states = {r["step"] for r in metrics(tmp_path / "mixed")}
    # The first half's last update was looked at too.
    one = [r for r in losses(tmp_path / "one") if r[0] in states]
    assert one[-1][1] == pytest.approx(losses(tmp_path / "mixed")[-1][1], abs=1e-5)
    a, b = weights(tmp_path / "one"), weights(tmp_path / "mixed")
    assert all(float((a[name] - b[name]).abs().max()) < 1e-5 for name in a)


def test_layers_in_shards_do_what_a_whole_model_does(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    # Without the keys' biases: no loss moves them, and Adam makes updates of rounding errors.
    values = {"dim": 16, "heads": 2, "feedforward_dim": 16, "attention_bias": "false",
              "tokenizer": "word", "dropout": 0,
              "batch_tokens": 100, "share": "all", "shared_vocab": "true", "average_last": 2,
              "validate_every": 3, "select": "loss", "save_every": 4}  # fmt: skip
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    given = ("transformer-tiny", "--data", f"{parallel}:en-de", *words, "--out")
    trained(1, *given, tmp_path / "one", "--steps", 10)
    trained(2, *given, tmp_path / "shards", "--steps", 6, "--shard")
    trained(2, "--resume", "--steps", 10, "--shard", "--out", tmp_path / "shards")
    a, b = weights(tmp_path / "one"), weights(tmp_path / "shards")
    assert a.keys() == b.keys()
    assert all(float((a[name] - b[name]).abs().max()) < 1e-5 for name in a)


def test_a_process_that_dies_ends_the_others_and_a_restart_goes_on(
    parallel: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [*torchrun("--max-restarts", "1"), "rnnsearch-tiny", "--data", f"{parallel}:en-de",
             *PLAIN, "--steps", "120", "--out", str(out)]  # fmt: skip
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        wait_for(lambda: len(list(tmp_path.glob("out.run/states/[0-9]*"))) == 2, process)
        os.kill(worker(process.pid, rank=0), signal.SIGKILL)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert told.count("Error: another process of this run ended at update") == 1, told
    assert told.count("Resuming after update") == 1
    assert json.loads((out / "training.json").read_text())["steps"] == 120
    assert not list(tmp_path.glob("out.run/ended*"))


def wait_for(condition: Any, process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + 240  # a busy machine takes long to start processes
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def worker(parent: int, rank: int) -> int:
    """Return the id of torchrun's process of that rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                environment = (folder / "environ").read_bytes().split(b"\0")
                if f"RANK={rank}".encode() in environment:
                    return int(folder.name)
        except (OSError, IndexError):
            continue
    raise AssertionError(f"no process of rank {rank}")


def test_torchrun_s_signals_save_and_stop(trained: Train, parallel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*torchrun(), "rnnsearch-tiny", "--data", f"{parallel}:en-de", *PLAIN, "--steps",
             "100000", "--out", str(out)]  # fmt: skip
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        wait_for(lambda: list(tmp_path.glob("out.run/states/[0-9]*")), process)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=300)
    assert process.returncode != 0
    assert told.count(f"Stopped; go on with: zoo train --resume --out {out}") == 1, told
    trained(2, "--resume", "--out", out, "--minutes", 0.001 + metrics(out)[-1]["minutes"])
    assert out.is_dir()


def test_shares_are_the_whole_batch() -> None:
    indices = torch.arange(7)
    for size in (1, 2, 3, 9):
        groups = [Group(torch.device("cpu"), rank, size) for rank in range(size)]
        shares = [group.share(indices) for group in groups]
        rows = sorted(i for mine, weight in shares if weight for i in mine.tolist())
        assert rows == list(range(7))
        assert all(len(mine) for mine, _ in shares), "each takes part"


def test_one_process_has_nothing_to_part() -> None:
    with pytest.raises(ConfigError, match="torchrun"):
        join("cpu", shard=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_does_what_the_processor_does(trained: Train, parallel: Path, tmp_path: Path) -> None:
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *WORDS, "--steps", 16, "--out")
    trained(1, *given, tmp_path / "cpu", "--device", "cpu")
    trained(1, *given, tmp_path / "cuda", "--device", "cuda")
    assert_same(tmp_path / "cpu", tmp_path / "cuda", within=1e-3)


def test_processes_that_fail_alike_tell_it_once(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", "--out", tmp_path / "x")
    told = trained(2, *given, "--set", "learning_rate=fast", ends=1)
    assert told.count("Error: ") == 1
    assert "learning_rate = 'fast'" in told
    # The first alone has something to complain of: the others, left waiting, say nothing more.
    (tmp_path / "x").mkdir()
    told = trained(2, *given, "--steps", 1, *PLAIN, ends=1)
    assert told.count("Error: ") == 1
    assert "x is there already" in told
