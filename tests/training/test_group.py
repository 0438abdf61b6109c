"""Several processes train one model, connected by gloo on one machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.core.test_training import PLAIN as DEFAULTS
from tests.core.test_training import SMALL, same, weights
from tests.examples.conftest import install
from tests.examples.data import SETTINGS as PHRASE_SETTINGS
from tests.examples.data import phrases
from tests.external_plugins.packages import put
from zoo.errors import ConfigError
from zoo.training.process_group import ProcessGroup, join_process_group


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Return the options of `zoo train` that change these settings."""
    return [
        word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")
    ]


WORDS = words_of({**SMALL, "dropout": 0.0, "accumulate": 2, "clip": 0.5, "bleu_sentences": 3,
                  "validate_every": 5, "average_decay": 0.9})  # fmt: skip
PLAIN = words_of(SMALL)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


Train = Callable[..., str]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Train]:
    """A function that trains in a number of processes, and returns their output."""
    command = [sys.executable, "-m", "tests.training.forks"]
    top = Path(__file__).parents[2]
    logs = tmp_path_factory.mktemp("logs")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=ENVIRONMENT, cwd=top) as server:  # fmt: skip

        def call(
            processes: int, *words: object, exit_code: int = 0, folders: Sequence[Path] = ()
        ) -> str:
            assert server.stdin is not None
            assert server.stdout is not None
            log = logs / str(len(list(logs.iterdir())))
            given = ["train", *map(str, words)]
            job = [processes, str(log), given, [str(folder) for folder in folders]]
            server.stdin.write(json.dumps(job) + "\n")
            server.stdin.flush()
            codes = json.loads(server.stdout.readline())
            output = log.read_text()
            assert codes == [exit_code] * processes, output
            return output

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


def test_two_processes_train_the_same_weights_as_one(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    """With whole or sharded weights; one process also resumes a run of two."""
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *WORDS, "--steps", 16, "--out")
    trained(1, *given, tmp_path / "one")
    output = trained(2, *given, tmp_path / "two")
    assert output.count("2 processes, data parallel") == 1, "the first process alone prints"
    assert output.count("two: 16 updates") == 1
    assert_same(tmp_path / "one", tmp_path / "two")
    half = (*given[:-3], "--steps", 8, "--out", tmp_path / "mixed")
    output = trained(2, *half, "--shard")
    assert "2 processes, weights sharded" in output
    output = trained(1, "--resume", "--steps", 16, "--out", tmp_path / "mixed")
    assert "processes 2 → 1" in output
    states = {r["step"] for r in metrics(tmp_path / "mixed")}
    # The last update of the first half has a report as well.
    one = [r for r in losses(tmp_path / "one") if r[0] in states]
    assert one[-1][1] == pytest.approx(losses(tmp_path / "mixed")[-1][1], abs=1e-5)
    a, b = weights(tmp_path / "one"), weights(tmp_path / "mixed")
    assert all(float((a[name] - b[name]).abs().max()) < 1e-5 for name in a)


def test_sharded_layers_train_the_same_weights_as_a_whole_model(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    # Without the biases of keys: their gradient is zero, and Adam would amplify rounding errors.
    values = {**DEFAULTS, "dim": 16, "heads": 2, "feedforward_dim": 16, "attention_bias": False,
              "tokenizer": "word", "dropout": 0,
              "batch_tokens": 100, "share": "all", "shared_vocab": True, "average_last": 2,
              "validate_every": 3, "select": "loss", "save_every": 4}  # fmt: skip
    words = words_of(values)
    given = ("transformer-tiny", "--data", f"{parallel}:en-de", *words, "--out")
    trained(1, *given, tmp_path / "one", "--steps", 10)
    trained(2, *given, tmp_path / "shards", "--steps", 6, "--shard")
    trained(2, "--resume", "--steps", 10, "--shard", "--out", tmp_path / "shards")
    a, b = weights(tmp_path / "one"), weights(tmp_path / "shards")
    assert a.keys() == b.keys()
    assert all(float((a[name] - b[name]).abs().max()) < 1e-5 for name in a)


@pytest.mark.parametrize("average", ["average_decay=0.9", "average_last=2"])
def test_processes_release_the_same_share_of_a_parent(
    average: str, trained: Train, parallel: Path, tmp_path: Path
) -> None:
    data = ("--data", f"{parallel}:en-de", "--out")
    trained(1, "rnnsearch-tiny", *PLAIN, *data, tmp_path / "parent", "--steps", 2)
    given = ("--from", tmp_path / "parent", "--set", "parent_share=0.25", "--set", average,
             "--set", "validate_every=3", "--set", "select=last", "--set", "dropout=0",
             "--steps", 6, *data)  # fmt: skip
    trained(1, *given, tmp_path / "one")
    trained(2, *given, tmp_path / "two")
    trained(2, *given, tmp_path / "shards", "--shard")
    assert_same(tmp_path / "one", tmp_path / "two")
    assert_same(tmp_path / "one", tmp_path / "shards")


def test_torchrun_resumes_after_a_death_and_saves_the_state_at_a_signal(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    """A process that dies ends the others; after the restart, a signal stops all of them."""
    out = tmp_path / "out"
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             "--log-dir", str(tmp_path / "logs"), "--max-restarts", "1", "-m", "zoo", "train",
             "rnnsearch-tiny", "--data", f"{parallel}:en-de", *PLAIN, "--steps", "100000", "--out",
             str(out)]  # fmt: skip

    def saved() -> list[int]:
        return sorted(int(state.name) for state in tmp_path.glob("out.run/states/[0-9]*"))

    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        wait_for(lambda: len(saved()) == 2, process)
        first = worker(process.pid, rank=0)
        assert first
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: worker(process.pid, rank=0) not in (None, first), process)
        died = saved()[-1]
        wait_for(lambda: saved()[-1] > died, process)
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=300)
    assert process.returncode != 0
    assert output.count("Error: another process of this run ended at update") == 1, output
    assert output.count("Resuming after update") == 1
    assert output.count(f"Stopped. Resume with: zoo train --resume --out {out}") == 1, output
    trained(2, "--resume", "--out", out, "--minutes", 0.001 + metrics(out)[-1]["minutes"])
    assert json.loads((out / "training.json").read_text())["steps"] > died
    assert not list(tmp_path.glob("out.run/ended*"))


def wait_for(condition: Any, process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + 240  # starting processes is slow on a busy machine
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def worker(parent: int, rank: int) -> int | None:
    """Return the id of torchrun's process of that rank, while there is one."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                environment = (folder / "environ").read_bytes().split(b"\0")
                if f"RANK={rank}".encode() in environment:
                    return int(folder.name)
        except (OSError, IndexError):
            continue
    return None


def test_local_rows_make_up_the_whole_batch() -> None:
    indices = torch.arange(7)
    for size in (1, 2, 3, 9):
        groups = [ProcessGroup(torch.device("cpu"), rank, size) for rank in range(size)]
        shares = [group.local_rows(indices) for group in groups]
        rows = sorted(i for mine, weight in shares if weight for i in mine.tolist())
        assert rows == list(range(7))
        assert all(len(mine) for mine, _ in shares), "every process takes part in every update"


def test_sharding_needs_several_processes() -> None:
    with pytest.raises(ConfigError, match="torchrun"):
        join_process_group("cpu", shard=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_trains_the_same_weights_as_the_cpu(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *WORDS, "--steps", 16, "--out")
    trained(1, *given, tmp_path / "cpu", "--device", "cpu")
    trained(1, *given, tmp_path / "cuda", "--device", "cuda")
    assert_same(tmp_path / "cpu", tmp_path / "cuda", within=1e-3)


def test_processes_agree_on_the_precision_that_the_first_chose(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *PLAIN, "--steps", 3, "--out")
    output = trained(2, *given, tmp_path / "x", "--set", "precision=auto")
    assert output.count(" ms in float32, ") == 1
    run = json.loads((tmp_path / "x.run" / "run.json").read_text())
    assert run["recipe"]["precision"] in ("float32", "bf16")


def test_processes_that_fail_alike_report_it_once(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", "--out", tmp_path / "x")
    output = trained(2, *given, "--set", "learning_rate=fast", exit_code=1)
    assert output.count("Error: ") == 1
    assert "learning_rate = 'fast'" in output
    # Only the first process fails; the other ones, which wait for it, report nothing more.
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").touch()
    output = trained(2, *given, "--steps", 1, *PLAIN, exit_code=1)
    assert output.count("Error: ") == 1
    assert "x exists already" in output


FAILING = """
import os
import zoo
from zoo import hookimpl

ZOO_API = 2

@hookimpl
def zoo_objectives():
    yield zoo.Objective("failing", "fails in some processes", "zoo_failing:make")

def make(setup, network, ranks: str = ""):
    batches = []

    def loss(batch):
        batches.append(batch.tokens)
        if len(batches) > 2 and os.environ["RANK"] in ranks:
            raise ValueError("the reason")
        return 0 * batch.output.logits.sum()

    return loss
"""


@pytest.mark.parametrize("ranks", ["0", "1", "01"])
def test_an_error_of_any_process_is_reported_once_with_its_reason(
    ranks: str, trained: Train, parallel: Path, tmp_path: Path
) -> None:
    put(tmp_path / "site", "failing", FAILING)
    objective = json.dumps({"name": "failing", "ranks": ranks})
    output = trained(2, "rnnsearch-tiny", "--data", f"{parallel}:en-de", *PLAIN, "--steps", 50,
                     "--set", f"objective={objective}", "--out", tmp_path / "x", exit_code=1,
                     folders=[tmp_path / "site"])  # fmt: skip
    (reported,) = [line for line in output.splitlines() if line.startswith("Error: ")]
    assert "ValueError: the reason" in reported


UNORDERED = """
import os
import zoo
from zoo import hookimpl

ZOO_API = 2

@hookimpl
def zoo_objectives():
    yield zoo.Objective("unordered", "has weights in another order", "zoo_unordered:make")

def make(setup, network):
    import torch

    class Unordered(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in "ab" if os.environ["RANK"] == "0" else "ba":  # as of a loop over a set
                self.add_module(name, torch.nn.Linear(1, 1))

        def forward(self, batch):
            return self.b(self.a(batch.output.logits.sum().view(1, 1))).sum()

    return Unordered()
"""


def test_parameters_in_another_order_are_refused(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    """Their gradients, and first values, would be exchanged for those of other parameters."""
    put(tmp_path / "site", "unordered", UNORDERED)
    output = trained(2, "rnnsearch-tiny", "--data", f"{parallel}:en-de", *PLAIN, "--steps", 1,
                     "--set", "objective=unordered", "--out", tmp_path / "x", exit_code=1,
                     folders=[tmp_path / "site"])  # fmt: skip
    (reported,) = [line for line in output.splitlines() if line.startswith("Error: ")]
    assert "its parameters have another order in each process" in reported


UNREADABLE = """
import os
import zoo
from zoo import hookimpl

ZOO_API = 2

def read(split, limit):
    if os.environ["RANK"] in RANKS:
        raise OSError("no such disk")
    return [(f"a {i}", f"b {i}") for i in range(60)]

@hookimpl
def zoo_datasets():
    yield zoo.Dataset("remote", "cannot be read by some processes", read)
"""


@pytest.mark.parametrize("ranks", ["1", "01"])
def test_an_error_before_training_is_reported_once_with_its_reason(
    ranks: str, trained: Train, tmp_path: Path
) -> None:
    """Also if one of the later processes alone cannot read the data."""
    put(tmp_path / "site", "remote", f"RANKS = {ranks!r}\n{UNREADABLE}")
    output = trained(2, "rnnsearch-tiny", "--data", "remote", *PLAIN, "--steps", 5,
                     "--out", tmp_path / "x", exit_code=1, folders=[tmp_path / "site"])  # fmt: skip
    (reported,) = [line for line in output.splitlines() if line.startswith("Error: ")]
    assert "OSError: no such disk" in reported


def test_two_processes_that_sample_and_distill_resume_bit_for_bit(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    data = ("--data", f"{parallel}:en-de", "--out")
    trained(1, "rnnsearch-tiny", *PLAIN, *data, tmp_path / "teacher", "--steps", 4)
    risk = {"name": "minimum_risk", "samples": 3, "alpha": 0.5, "longest": 12}
    distillation = {"name": "distillation", "teacher": str(tmp_path / "teacher")}
    settings = {**SMALL, "objective": ["cross_entropy", risk, distillation], "samples": 0}
    begins = ("rnnsearch-tiny", *words_of(settings), *data)
    trained(2, *begins, tmp_path / "whole", "--steps", 4)
    trained(2, *begins, tmp_path / "cut", "--steps", 2)
    trained(2, "--resume", "--out", tmp_path / "cut", "--steps", 4)
    assert same(tmp_path / "whole", tmp_path / "cut")


STOPPER = """
import zoo
from zoo import hookimpl

ZOO_API = 2

@hookimpl
def zoo_callbacks():
    return [Stopper()]

class Stopper(zoo.Callback):
    def report(self, report):
        if report.step >= 4:
            assert self.run.weights["output.weight"].isfinite().all()
            self.run.stop("four are enough")
"""


def test_a_callback_ends_the_run_of_two_processes(
    trained: Train, parallel: Path, tmp_path: Path
) -> None:
    """The first process has the callback; both end after the same update."""
    put(tmp_path / "site", "stopper", STOPPER)
    words = words_of({**SMALL, "save_every": 2, "samples": 0})
    given = ("rnnsearch-tiny", "--data", f"{parallel}:en-de", *words, "--out")
    trained(2, *given, tmp_path / "ended", "--steps", 50, folders=[tmp_path / "site"])
    trained(2, *given, tmp_path / "plain", "--steps", 6)
    assert same(tmp_path / "plain", tmp_path / "ended")
    assert metrics(tmp_path / "ended")[-1]["step"] == 6


def test_losses_of_a_network_s_own_are_the_same_in_two_processes(
    trained: Train, tmp_path: Path
) -> None:
    """The CTC loss is a sum over sentences; the balance depends on the rows of each process."""
    words = words_of({**PHRASE_SETTINGS, "balance": 0.0, "learning_rate": 0.001})
    (tmp_path / "p.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in phrases()))
    given = ("experts-small", "--data", tmp_path / "p.tsv", *words, "--steps", 10, "--out")
    folders = install(tmp_path / "site")
    trained(1, *given, tmp_path / "one", folders=folders)
    trained(2, *given, tmp_path / "two", folders=folders)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-5
    reports = ([r for r in metrics(tmp_path / out) if "loss" in r] for out in ("one", "two"))
    for a, b in zip(*reports, strict=True):
        assert a["losses"] == pytest.approx(b["losses"], abs=1e-5)
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
