"""Batches that are worked on at once, in processes or in threads."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from zoo import lanes
from zoo.lanes import side_by_side

fork = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


@pytest.fixture(params=["processes", "threads"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have all lanes be of this kind."""
    monkeypatch.setattr(lanes, "_may_fork", lambda: request.param == "processes")
    return str(request.param)


def test_two_batches_are_worked_on_at_once_with_half_the_threads_each() -> None:
    together = threading.Barrier(2, timeout=30)

    def work(item: int) -> tuple[int, int]:
        together.wait()  # passes only if another is here at the same time
        return item, torch.get_num_threads()

    assert list(side_by_side(work, [3, 1])) == [(3, 2), (1, 2)]


def test_as_many_batches_as_threads_are_a_process_each_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "_may_fork", lambda: True)
    together = fork.Barrier(4)

    def work(item: int) -> tuple[int, int, int]:
        together.wait(30)
        return item, torch.get_num_threads(), os.getpid()

    found = list(side_by_side(work, [3, 1, 4, 2]))
    assert [item for item, _, _ in found] == [3, 1, 4, 2]
    assert {count for _, count, _ in found} == {1}
    processes = {process for *_, process in found}
    assert len(processes) == 4
    assert os.getpid() in processes
    assert multiprocessing.active_children() == []


def test_processes_are_for_a_process_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def process(item: int) -> int:
        time.sleep(0.01)  # so that no lane does all
        return os.getpid()

    def beside() -> None:
        found.extend(side_by_side(process, range(8)))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert set(found) == {os.getpid()}
    monkeypatch.setattr(lanes, "MOST", 7)  # more than the queue holds
    assert set(side_by_side(process, range(8))) == {os.getpid()}


def test_threads_are_given_back(kind: str) -> None:
    list(side_by_side(lambda item: item, range(9)))
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *seen] == [4, 4]


def test_one_item_has_all_threads_and_no_lane() -> None:
    def work(item: int) -> tuple[int, int, str]:
        return torch.get_num_threads(), os.getpid(), threading.current_thread().name

    here = threading.current_thread().name
    assert list(side_by_side(work, [1])) == [(4, os.getpid(), here)]


def test_an_error_is_the_first_ones_and_what_waits_is_not_begun(kind: str) -> None:
    begun = fork.Value("i", 0)

    def work(item: int) -> int:
        with begun.get_lock():
            begun.value += 1
        if item % 100 == 1:
            raise ValueError(f"no {item}")
        return item

    with pytest.raises(ValueError, match=r"no 1$"):
        list(side_by_side(work, list(range(1000))))
    assert begun.value < 1000
    assert multiprocessing.active_children() == []


def test_what_a_killed_process_had_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_may_fork", lambda: True)
    here, killed = os.getpid(), fork.Value("i", 0)

    def work(item: int) -> int:
        if os.getpid() != here:
            killed.value += 1
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return item * item

    assert list(side_by_side(work, range(40))) == [item * item for item in range(40)]
    assert killed.value > 0


def test_results_of_any_size_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_may_fork", lambda: True)
    before = len(os.listdir("/proc/self/fd"))
    found = list(side_by_side(lambda item: str(item) * 300_000, range(9)))
    assert found == [str(item) * 300_000 for item in range(9)]
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_interrupts_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_may_fork", lambda: True)
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() == here:
            raise KeyboardInterrupt
        time.sleep(60)
        return item

    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        list(side_by_side(work, range(8)))
        raise AssertionError("it was not interrupted")
    assert time.monotonic() - began < 30
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == 4
