"""Kills, full disks, damaged files, two at once, and numbers that run away."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

import zoo
from tests.core.test_training import SMALL, finished, same
from zoo.errors import CheckpointError, TrainingError
from zoo.files import mend_folder, read_json, write_json
from zoo.training import Prepared, Stopped, prepare
from zoo.training.failures import explained
from zoo.training.group import Group


@pytest.fixture
def begin(parallel: Path, tmp_path: Path) -> Callable[..., Prepared]:
    """Prepare a small run into `out`."""

    def call(out: str = "out", *, steps: int = 23, **settings: Any) -> Prepared:
        given = {**SMALL, **settings}
        data = f"{parallel}:en-de"
        return prepare("rnnsearch-tiny", data, tmp_path / out, settings=given, steps=steps)

    return call


def trained_to(ready: Prepared, step: int) -> None:
    """Train up to an update, then leave as a kill would: nothing is saved on the way out."""
    with ready:
        for event in ready.trainer.events():
            if event.step >= step:
                break


def states(out: Path) -> list[int]:
    return sorted(int(f.name) for f in out.with_name(f"{out.name}.run").glob("states/[0-9]*"))


def test_each_epoch_ends_with_a_state(begin: Callable[..., Prepared], tmp_path: Path) -> None:
    ready = begin(steps=14, save_every=1000)
    length = len(ready.trainer.batches)
    trained_to(ready, 2 * length + 1)
    assert states(tmp_path / "out") == [length, 2 * length]


def test_a_state_with_a_changed_bit_is_not_used(
    begin: Callable[..., Prepared], tmp_path: Path
) -> None:
    finished(begin("plain"))
    trained_to(begin(), 16)
    newest = sorted((tmp_path / "out.run" / "states").iterdir())[-1]
    file = newest / "optimiser.safetensors"
    content = bytearray(file.read_bytes())
    content[-100] ^= 1  # well-formed as before
    file.write_bytes(content)
    again = prepare(None, None, tmp_path / "out", resume=True)
    assert "has changed since it was written" in again.notes[0]
    assert not newest.exists()
    assert newest.with_name(f"{newest.name}.damaged").is_dir(), "kept, but never tried again"
    finished(again)
    assert same(tmp_path / "plain", tmp_path / "out")


def test_a_run_has_one_process(begin: Callable[..., Prepared], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "zoo", "train", "--resume", "--out", str(out)]
    with begin():
        with pytest.raises(CheckpointError, match=r"out.run is in use: another process"):
            prepare(None, None, out, resume=True)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "is in use" in done.stderr
    finished(prepare(None, None, out, resume=True))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """From a call on, files take so many bytes more in all, and then the disk is full."""
    resource = pytest.importorskip("resource")
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing fails with an error
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_spares_the_last_state(
    begin: Callable[..., Prepared], tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    out = tmp_path / "out"
    finished(begin("plain"))
    ready = begin()
    events = ready.trainer.events()
    while next(events).step < 8:  # the end of the second epoch, before its state is saved
        pass
    assert states(out) == [4, 7]
    full_disk(4096)  # a file of weights is larger
    with ready, pytest.raises(TrainingError) as raised:
        list(events)
    full_disk(2**40)
    told = str(raised.value)
    assert told.startswith("cannot write the state of update 8: File too large; the state of")
    assert "update 7 is whole. Make room, then go on by `zoo train --resume --out" in told
    assert states(out) == [4, 7]
    assert not list((tmp_path / "out.run" / "states").glob(".*"))
    finished(prepare(None, None, out, resume=True))
    assert same(tmp_path / "plain", out)


def test_a_full_disk_at_the_end_leaves_the_run(
    begin: Callable[..., Prepared], tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    ready = begin(steps=6)
    with ready:
        list(ready.trainer.events())
        ready.draw()
        full_disk(2048)
        with pytest.raises(TrainingError, match="Make room"):
            ready.finish()
        full_disk(2**40)
    assert not (tmp_path / "out").exists()
    assert finished(prepare(None, None, tmp_path / "out", resume=True)).is_dir()


class KillError(BaseException):
    """Stands for a kill: nothing that is raised by a kill is handled."""


def killed_at_rename(number: int, patch: pytest.MonkeyPatch) -> None:
    """End the process, as it were, before the rename of that number."""
    count = iter(range(1, 100))
    rename = Path.rename

    def counted(self: Path, target: Path) -> Path:
        if next(count) == number:
            # What a kill leaves, `finally` must not clean.
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            raise KillError
        return rename(self, target)

    patch.setattr(Path, "rename", counted)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_kill_while_a_checkpoint_is_replaced_loses_nothing(
    begin: Callable[..., Prepared], tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    finished(begin(steps=6))
    wanted = {f.name: f.read_bytes() for f in out.iterdir()}
    with prepare(None, None, out, resume=True, steps=9) as ready:
        list(ready.trainer.events())
        with pytest.MonkeyPatch.context() as patch:
            killed_at_rename(number, patch)
            if number < 3:
                with pytest.raises(KillError):
                    ready.finish()
            else:
                ready.finish()
    if number == 2:
        assert not out.exists(), "the old one is aside, the new one not yet in place"
    with prepare(None, None, out, resume=True) as again:
        if number < 3:
            assert {f.name: f.read_bytes() for f in out.iterdir()} == wanted
            assert any("half-written out is removed" in note for note in again.notes)
        again.finish()
    assert json.loads((out / "training.json").read_text())["steps"] == 9
    assert not list(tmp_path.glob(".out*"))


def test_only_a_folder_s_own_leftovers_are_mended(tmp_path: Path) -> None:
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


def test_a_checkpoint_is_known_by_its_run(begin: Callable[..., Prepared], tmp_path: Path) -> None:
    """A kill right after the rename: nothing else had to be written for the run to know it."""
    finished(begin(steps=3))
    other = tmp_path / "out" / "training.json"
    write_json(other, {**read_json(other), "run": "another"})
    with pytest.raises(CheckpointError, match="this run did not write it"):
        prepare(None, None, tmp_path / "out", resume=True, steps=5)


def test_what_bits_depend_on_is_restored_or_told(
    begin: Callable[..., Prepared], tmp_path: Path
) -> None:
    trained_to(begin(), 8)
    for state in (tmp_path / "out.run" / "states").iterdir():
        values = read_json(state / "state.json")
        assert values["environment"]["torch"] == torch.__version__
        values["environment"] |= {"torch": "2.0.1", "threads": 2}
        write_json(state / "state.json", values)
    threads = torch.get_num_threads()
    assert threads == 1
    try:
        with prepare(None, None, tmp_path / "out", resume=True) as ready:
            (told,) = ready.notes
            if (os.cpu_count() or 1) >= 2:
                assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert "bits will differ" in told
    assert f"torch 2.0.1 → {torch.__version__}" in told


def test_the_first_update_that_is_not_finite_is_told(
    begin: Callable[..., Prepared], tmp_path: Path
) -> None:
    """The weights break after update 12: it is 13 that is told, with its pairs, though the loss
    is looked at only later."""
    ready = begin(steps=40, save_every=1000)
    trainer = ready.trainer
    update, found = trainer.update, {}

    def watched(batches: list[torch.Tensor], rate: float, window: Any) -> None:
        if trainer.step == 12:
            found["indices"] = [i for batch in batches for i in batch.tolist()]
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.inf)
        update(batches, rate, window)

    trainer.update = watched  # type: ignore[method-assign]
    with ready, pytest.raises(TrainingError, match=r"is nan at update 13: its \d+ pairs are"):
        list(trainer.events())
    kept = read_json(tmp_path / "out.run" / "not-finite.json")
    assert kept["indices"] == found["indices"]
    assert kept["step"] == 13
    assert states(tmp_path / "out") == [8, 12]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_memory_that_runs_out_is_told_with_a_smaller_budget(
    begin: Callable[..., Prepared], error: Exception
) -> None:
    ready = begin()

    def fail(*_: object) -> None:
        raise error

    ready.trainer.update = fail  # type: ignore[method-assign, assignment]
    told = r"out of memory at update 1: batches are of batch_tokens = 100. .*batch_tokens=50 --set"
    with ready, pytest.raises(TrainingError, match=told):
        list(ready.trainer.events())


def test_other_errors_stay_what_they_are() -> None:
    from zoo.registry.recipe import Recipe

    group = Group(torch.device("cpu"))
    with (
        pytest.raises(RuntimeError, match="shapes"),
        explained(1, Recipe(), group, Path("nowhere")),
    ):
        raise RuntimeError("shapes do not fit")


def test_a_stop_at_once_and_again(begin: Callable[..., Prepared], tmp_path: Path) -> None:
    """Stopped after every single update, the run is the same."""
    finished(begin("plain", steps=9))
    ready = begin(steps=9)
    for _ in range(8):
        with ready:
            ready.trainer.stop = True
            *_, last = ready.trainer.events()
            assert isinstance(last, Stopped)
        ready = prepare(None, None, tmp_path / "out", resume=True)
    assert ready.trainer.step == 8
    finished(ready)
    assert same(tmp_path / "plain", tmp_path / "out")


def test_a_full_disk_is_one_line(
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
    assert "Make room" in errors[0]
