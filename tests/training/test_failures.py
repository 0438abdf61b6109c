"""Kills, full disks, damaged files, concurrent processes, and values that are not finite."""

import errno
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

import zoo
from tests.core.test_training import SMALL, finished, same
from tests.forked import python
from zoo.errors import CheckpointError, TrainingError
from zoo.files import mend_folder, read_json, write_json
from zoo.nn.contract import BEGIN, END
from zoo.registry.events import Stopped
from zoo.training import saving
from zoo.training.failures import explain_failures
from zoo.training.process_group import ProcessGroup
from zoo.training.request import TrainingRequest
from zoo.training.run_folder import RunFolder
from zoo.training.session import Session, begin, resume


@pytest.fixture
def small_run(parallel: Path, tmp_path: Path) -> Callable[..., Session]:
    """Begin a small run in `out`."""

    def call(out: str = "out", *, steps: int = 23, **settings: Any) -> Session:
        given = {**SMALL, **settings}
        data = f"{parallel}:en-de"
        return begin(
            TrainingRequest("rnnsearch-tiny", data, tmp_path / out, settings=given, steps=steps)
        )

    return call


def trained_to(session: Session, step: int) -> None:
    """Train up to an update, then stop as if killed: nothing more is saved."""
    with session:
        for event in session.trainer.events():
            if event.step >= step:
                break


def states(out: Path) -> list[int]:
    return sorted(int(f.name) for f in out.with_name(f"{out.name}.run").glob("states/[0-9]*"))


def test_an_epoch_ends_with_a_state_after_20_updates(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    session = small_run(steps=45, save_every=1000)
    assert len(session.trainer.batches) == 4
    trained_to(session, 43)
    assert states(tmp_path / "out") == [20, 40], "not after each of the short epochs"


def test_a_state_with_a_flipped_bit_is_not_used(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    finished(small_run("plain"))
    trained_to(small_run(), 16)
    newest = sorted((tmp_path / "out.run" / "states").iterdir())[-1]
    file = newest / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-100] ^= 1  # the file is still well-formed
    file.write_bytes(content)
    again = resume(tmp_path / "out")
    assert "has changed since it was written" in again.notes[0]
    assert not newest.exists()
    assert newest.with_name(f"{newest.name}.damaged").is_dir(), "kept, but never read again"
    finished(again)
    assert same(tmp_path / "plain", tmp_path / "out")


@pytest.mark.parametrize("generators", [[{"cpu": "????"}], [{"cpu": "AAAA"}], [{"cpu": 1}], 5])
def test_a_state_with_damaged_generators_is_not_used(
    generators: object, small_run: Callable[..., Session], tmp_path: Path
) -> None:
    trained_to(small_run(), 16)
    newest = sorted((tmp_path / "out.run" / "states").iterdir())[-1]
    write_json(newest / "state.json", read_json(newest / "state.json") | {"generators": generators})
    with resume(tmp_path / "out") as session:
        assert "a newer state is damaged and not used: a state" in session.notes[0]
        assert session.trainer.state.step < int(newest.name)


@pytest.mark.parametrize("line", [b"\xff", b"{}", b'{"step": true}', b'{"step": 1, "loss": "a"}',
                                  b"[" * 5000])  # fmt: skip
def test_damaged_metrics_are_told_in_one_line(
    line: bytes, small_run: Callable[..., Session], tmp_path: Path
) -> None:
    trained_to(small_run(), 4)
    file = tmp_path / "out.run" / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines, line + b"\n"]))
    message = f"line {len(lines) + 1} is not a record of an update"
    with pytest.raises(CheckpointError, match=message):
        resume(tmp_path / "out")


ODD_STATES: dict[str, dict[str, Any]] = {
    "a huge best": {"best": 10**400},
    "a negative position": {"position": -3},
    "a file elsewhere": {"sums": {"../model.safetensors": 1}},
    "the optimizer as a list": {"optimizer": []},
    "other weights": {"optimizer": {"groups": [{"params": []}]}},
    "a text as rate": {"optimizer": {"groups": [{"lr": "fast"}]}},
    "objectives as a list": {"parts": [1]},
}


def test_odd_states_are_not_used(small_run: Callable[..., Session], tmp_path: Path) -> None:
    session = small_run()
    trained_to(session, 16)
    folder = session.trainer.folder
    file = sorted((tmp_path / "out.run" / "states").iterdir())[-1] / "state.json"
    whole = read_json(file)
    for values in ODD_STATES.values():
        write_json(file, whole | values)
        with pytest.raises(CheckpointError):
            saving._restore(*saving._read(file.parent), session.trainer.averaged)
    write_json(file, whole)
    saving._restore(*saving._read(file.parent), session.trainer.averaged)
    (tmp_path / "out.run" / "states" / "²").mkdir()
    (tmp_path / "out.run" / "states" / ".x.1.part").mkdir()
    (tmp_path / "out.run" / "weights").mkdir(exist_ok=True)
    (tmp_path / "out.run" / "weights" / "best.safetensors").touch()
    assert folder.repair() == ["a half-written x is removed"]
    assert folder.kept_weights(16) == []
    assert len(folder.saved_states()) == 2


def test_a_run_is_locked_by_one_process(small_run: Callable[..., Session], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*python(), "-m", "zoo", "train", "--resume", "--out", str(out)]
    with small_run():
        with pytest.raises(CheckpointError, match=r"out.run is in use: another process"):
            resume(out)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "is in use" in done.stderr
    finished(resume(out))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """A function that limits the size of all files to the given number of bytes."""
    resource = pytest.importorskip("resource")
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing fails with an error
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_run_that_cannot_be_written_is_not_resumed(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    trained_to(small_run(), 8)
    lock = tmp_path / "out.run" / "lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.raises(CheckpointError, match=r"out.run cannot be written: .* Make it writable"):
        resume(tmp_path / "out")


def test_a_full_disk_keeps_the_last_state(
    small_run: Callable[..., Session], tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    out = tmp_path / "out"
    finished(small_run("plain"))
    session = small_run()
    events = session.trainer.events()
    while next(events).step < 14:  # before its state is saved
        pass
    assert states(out) == [7]
    full_disk(4096)  # a file of weights is larger
    with session, pytest.raises(TrainingError) as raised:
        list(events)
    full_disk(2**40)
    message = str(raised.value)
    assert message.startswith("cannot write the state of update 14: File too large; the state of")
    assert "update 7 is whole. Raise the limit of a file's size (`ulimit -f`), then run" in message
    assert states(out) == [7]
    assert not list((tmp_path / "out.run" / "states").glob(".*"))
    finished(resume(out))
    assert same(tmp_path / "plain", out)


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "Free some space"), (errno.EDQUOT, "Free some space"), (errno.EIO, "Mend")],
)
def test_what_helps_depends_on_why_a_file_cannot_be_written(
    number: int, advice: str, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "out")
    message = f"{advice}.*, then run `zoo train --resume --out"
    with pytest.raises(TrainingError, match=message), folder.writing("metrics"):
        raise OSError(number, "no luck")


def test_a_full_disk_at_the_end_keeps_the_run(
    small_run: Callable[..., Session], tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    session = small_run(steps=6)
    with session:
        list(session.trainer.events())
        session.write_curve()
        full_disk(2048)
        with pytest.raises(TrainingError, match="Raise the limit"):
            session.finish()
        full_disk(2**40)
    assert not (tmp_path / "out").exists()
    assert finished(resume(tmp_path / "out")).is_dir()


class KillError(BaseException):
    """Simulates a kill, after which no handler runs."""


def killed_at_rename(number: int, patch: pytest.MonkeyPatch) -> None:
    """Raise KillError before the rename of that number."""
    count = iter(range(1, 100))
    rename = Path.rename

    def counted(self: Path, target: Path) -> Path:
        if next(count) == number:
            # A killed process would not clean up in `finally`.
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            raise KillError
        return rename(self, target)

    patch.setattr(Path, "rename", counted)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_kill_without_exchanged_names_loses_nothing(
    small_run: Callable[..., Session], tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    finished(small_run(steps=6))
    expected = {f.name: f.read_bytes() for f in out.iterdir()}
    with resume(out, steps=9) as session:
        list(session.trainer.events())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("zoo.files.exchange_names", lambda *_: False)
            killed_at_rename(number, patch)
            if number < 3:
                with pytest.raises(KillError):
                    session.finish()
            else:
                session.finish()
    if number == 2:
        assert not out.exists(), "the old checkpoint is renamed, and the new one not yet"
    with resume(out) as again:
        if number < 3:
            assert {f.name: f.read_bytes() for f in out.iterdir()} == expected
            assert any("half-written out is removed" in note for note in again.notes)
        again.finish()
    assert json.loads((out / "training.json").read_text())["steps"] == 9
    assert not list(tmp_path.glob(".out*"))


def test_only_leftovers_of_the_same_folder_are_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for name in (".out.12.part", ".out.13.old", ".out.run.12.part", ".other.1.part", ".out.x.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    done = mend_folder(folder)
    assert (folder / "file").read_text() == ".out.13.old"
    assert len(done) == 2
    left = {f.name for f in tmp_path.iterdir()}
    assert left == {"out", ".out.run.12.part", ".other.1.part", ".out.x.part"}
    shutil.copytree(folder, tmp_path / ".out.14.old")
    assert mend_folder(folder) == []
    assert not (tmp_path / ".out.14.old").exists()


def test_a_checkpoint_of_another_run_is_recognized(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    """The checkpoint records its run, so that a kill right after the rename is harmless."""
    finished(small_run(steps=3))
    other = tmp_path / "out" / "training.json"
    write_json(other, {**read_json(other), "run": "another"})
    with pytest.raises(CheckpointError, match="this run did not write it"):
        resume(tmp_path / "out", steps=5)


def test_threads_are_restored_and_other_changes_are_reported(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    trained_to(small_run(steps=12), 8)
    for state in (tmp_path / "out.run" / "states").iterdir():
        values = read_json(state / "state.json")
        assert values["environment"]["torch"] == torch.__version__
        values["environment"] |= {"torch": "2.0.1", "threads": 2}
        write_json(state / "state.json", values)
    threads = torch.get_num_threads()
    assert threads == 1
    with resume(tmp_path / "out") as session:
        (note,) = session.notes
        if (os.cpu_count() or 1) >= 2:
            assert torch.get_num_threads() == threads
            assert {torch.get_num_threads() for _ in session.trainer.events()} == {2}
            assert "threads" not in note
    assert torch.get_num_threads() == threads
    assert "differ in the last bits" in note
    assert f"torch 2.0.1 → {torch.__version__}" in note


def broken_after(session: Session, step: int, value: float = math.inf) -> str:
    """Train a run whose weights get a value after an update; return the error."""
    trainer = session.trainer
    update = trainer.update

    def break_weights(batches: list[torch.Tensor], rate: float, window: Any) -> None:
        update(batches, rate, window)
        if trainer.state.step == step - 1:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(value)

    trainer.update = break_weights  # type: ignore[method-assign]
    with session, pytest.raises(TrainingError) as caught:
        list(trainer.events())
    return str(caught.value)


def test_a_validation_loss_that_is_not_finite_is_reported_before_samples_are_translated(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    """Also before one state is saved: the error mentions none, and no pairs."""
    settings = {"validate_every": 3, "save_every": 1000, "samples": 3, "schedule": "one_cycle"}
    assert broken_after(small_run(**settings), 3) == (
        "the validation loss is nan at update 3. "
        "Try a lower --set learning_rate than 0.001 or a smaller --set clip than 1"
    )
    assert not (tmp_path / "out.run" / "not-finite.json").exists()


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (
            {"schedule": "constant", "warmup": 7, "clip": 0.5},
            "learning_rate than 0.001, a longer --set warmup than 7, or a smaller --set clip than",
        ),
        (
            {"schedule": "noam", "factor": 2.0, "clip": "none"},
            "factor than 2, a longer --set warmup than 400, or --set clip=1",
        ),
        ({"schedule": "one_cycle"}, "learning_rate than 0.001 or a smaller --set clip than 1"),
    ],
)
def test_the_advice_names_settings_that_the_run_has(
    settings: dict[str, Any], advice: str, small_run: Callable[..., Session], tmp_path: Path
) -> None:
    message = broken_after(small_run(**{"save_every": 2, "validate_every": 9, **settings}), 5)
    assert re.match(r"the loss is nan at update 6: its \d+ pairs are in ", message)
    assert f"; the last saved state is unchanged. Try a lower --set {advice}" in message


def test_a_first_loss_that_is_not_finite_is_no_fault_of_the_learning_rate(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    session = small_run(steps=3)
    with torch.no_grad():
        next(session.trainer.model.parameters()).fill_(math.nan)
    with session, pytest.raises(TrainingError) as caught:
        list(session.trainer.events())
    message = str(caught.value)
    assert message.startswith(
        "the loss is nan at update 1: no weight has changed yet, so the network or its loss is "
        "broken; its "
    )
    assert "learning_rate" not in message
    assert read_json(tmp_path / "out.run" / "not-finite.json")["step"] == 1


def test_the_first_update_that_is_not_finite_is_reported(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    """The weights become infinite after update 22: update 23 is reported with its pairs, although
    the loss is checked later."""
    session = small_run(steps=40, save_every=1000)
    trainer = session.trainer
    update, recorded = trainer.update, {}

    def break_weights(batches: list[torch.Tensor], rate: float, window: Any) -> None:
        if trainer.state.step == 22:
            recorded["indices"] = [i for batch in batches for i in batch.tolist()]
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.inf)
        update(batches, rate, window)

    trainer.update = break_weights  # type: ignore[method-assign]
    with session, pytest.raises(TrainingError, match=r"is nan at update 23: its \d+ pairs are in "):
        list(trainer.events())
    kept = read_json(tmp_path / "out.run" / "not-finite.json")
    assert kept["indices"] == recorded["indices"]
    assert kept["step"] == 23
    dataset = trainer.data.dataset
    assert "validation" in dataset.splits  # an index is not the number of a line
    texts = {tuple(pair) for pair in dataset.load("train")}
    assert {tuple(pair) for pair in kept["pairs"]} <= texts
    of_one = trainer.data.corpus.batch(torch.tensor(kept["indices"][:1]))
    source, target = kept["pairs"][0]
    encoded = [trainer.data.source_tokenizer.encode([source])[0] + [END],
               [BEGIN, *trainer.data.target_tokenizer.encode([target])[0], END]]  # fmt: skip
    assert [of_one.source[0].tolist(), of_one.target[0].tolist()] == encoded
    assert states(tmp_path / "out") == [20]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_suggests_smaller_batches(
    small_run: Callable[..., Session], error: Exception
) -> None:
    session = small_run()

    def fail(*_: object) -> None:
        raise error

    session.trainer.update = fail  # type: ignore[method-assign, assignment]
    message = r"out of memory at update 1: the recipe has batch_tokens = 100\. .*=50 --set"
    with session, pytest.raises(TrainingError, match=message):
        list(session.trainer.events())


def test_other_errors_are_not_changed() -> None:
    from zoo.registry.recipe import Recipe

    group = ProcessGroup(torch.device("cpu"))
    with (
        pytest.raises(RuntimeError, match="shapes"),
        explain_failures(1, Recipe(), group, Path("nowhere")),
    ):
        raise RuntimeError("shapes do not fit")


def test_a_run_can_be_stopped_after_every_update(
    small_run: Callable[..., Session], tmp_path: Path
) -> None:
    """The weights are those of an uninterrupted run."""
    finished(small_run("plain", steps=9))
    session = small_run(steps=9)
    for _ in range(8):
        with session:
            session.trainer.stop = True
            *_, last = session.trainer.events()
            assert isinstance(last, Stopped)
        session = resume(tmp_path / "out")
    assert session.trainer.state.step == 8
    finished(session)
    assert same(tmp_path / "plain", tmp_path / "out")


def test_a_full_disk_is_reported_in_one_line(
    run: Callable[..., Result], parallel: Path, tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "o", settings=SMALL, steps=3)
    full_disk(4096)
    result = run("train", "--resume", "--out", tmp_path / "o", "--steps", 9)
    full_disk(2**40)
    assert result.exit_code == 1
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert "cannot write" in errors[0]
    assert "Raise the limit" in errors[0]
