"""Batches that are translated in parallel."""

import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest
import torch

from zoo.translation import parallel
from zoo.translation.parallel import FEWEST_ROWS, parallel_map, shared_out


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


def in_new_thread() -> int:
    """Return the number of torch's threads in a thread that starts now."""
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts[0]


def mkl_threads() -> int:
    lines = torch.__config__.parallel_info().splitlines()
    (line,) = [line for line in lines if "mkl_get_max_threads()" in line]
    return int(line.split(":")[1])


def test_two_batches_run_at_the_same_time_with_half_the_threads_each() -> None:
    together = threading.Barrier(2, timeout=30)

    def work(item: int) -> tuple[int, int]:
        together.wait()  # passes only if another thread arrives
        return item, torch.get_num_threads()

    assert list(parallel_map(work, [3, 1])) == [(3, 2), (1, 2)]


def test_threads_have_the_context_of_the_caller() -> None:
    """Otherwise the server's limit of attention would not hold for several batches."""
    limit: ContextVar[int] = ContextVar("limit", default=0)
    limit.set(7)
    assert list(parallel_map(lambda item: limit.get(), [1, 2, 3])) == [7, 7, 7]


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch is built without MKL")
def test_mkl_has_the_same_threads() -> None:
    together = threading.Barrier(2, timeout=30)

    def work(item: int) -> int:
        together.wait()
        return mkl_threads()

    assert list(parallel_map(work, [1, 2])) == [2, 2]
    assert mkl_threads() == 4


def test_the_workers_thread_counts_do_not_reach_other_threads() -> None:
    """During the work and afterwards, in the caller and in new threads."""
    started, seen = threading.Barrier(3, timeout=30), threading.Barrier(3, timeout=30)

    def work(item: int) -> list[int]:
        started.wait()
        count = [torch.get_num_threads(), in_new_thread()]
        seen.wait()
        return [*count, torch.get_num_threads()]

    during: list[int] = []

    def observe() -> None:
        started.wait()  # both workers have set their counts
        during.extend([torch.get_num_threads(), in_new_thread()])
        seen.wait()

    observer = threading.Thread(target=observe)
    observer.start()
    assert list(parallel_map(work, [1, 2])) == [[2, 4, 2], [2, 4, 2]]
    observer.join()
    assert during == [4, 4]
    assert [torch.get_num_threads(), in_new_thread()] == [4, 4]


def test_a_stream_that_is_not_read_to_its_end_changes_no_count() -> None:
    results = parallel_map(lambda item: item, range(9))
    assert next(results) == 0
    assert [torch.get_num_threads(), in_new_thread()] == [4, 4]
    del results
    assert [torch.get_num_threads(), in_new_thread()] == [4, 4]


def test_one_item_has_all_threads_and_no_worker() -> None:
    def work(item: int) -> tuple[int, str]:
        return torch.get_num_threads(), threading.current_thread().name

    here = threading.current_thread().name
    assert list(parallel_map(work, [1])) == [(4, here)]


def test_nothing_runs_in_parallel_without_a_thread_count_per_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example where torch's OpenMP cannot be reached."""
    monkeypatch.setattr(parallel, "_library", lambda file: None)
    parallel._own_thread_count.cache_clear()
    try:
        here = threading.current_thread().name
        names = parallel_map(lambda item: threading.current_thread().name, range(3))
        assert list(names) == [here] * 3
    finally:
        parallel._own_thread_count.cache_clear()


def test_the_first_error_is_raised_and_waiting_items_are_not_started() -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        if item == 1:
            raise ValueError(f"no {item}")
        time.sleep(0.01)  # on a busy machine, the error is seen late
        return item

    with pytest.raises(ValueError, match="no 1"):
        list(parallel_map(work, list(range(1000))))
    assert len(started) < 1000


@pytest.mark.parametrize(
    "sizes", [[200], [100, 100, 100], [100] * 5, [10, 300], [100] * 4, [], [63]]
)
@pytest.mark.parametrize("width", [1, 5])
def test_the_last_batches_are_cut_for_all_threads(
    sizes: list[int], width: int, threads: int
) -> None:
    def length(item: int) -> int:
        return 1 + item % 7

    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    batches = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    shared = shared_out(batches, width, length)
    assert [item for batch in shared for item in batch] == list(range(sum(sizes)))
    left = len(sizes) % threads
    rows = sum(sizes[len(sizes) - left :]) * width
    expected = max(left, min(threads, rows // (FEWEST_ROWS * threads)))
    assert len(shared) == len(sizes) - left + expected
    if expected > left:
        assert shared[:-expected] == batches[: len(sizes) - left]
        lengths = [sum(map(length, batch)) for batch in shared[-expected:]]
        assert max(lengths) - min(lengths) <= 2 * 7
    else:
        assert shared == batches


def test_batches_of_one_thread_are_not_cut() -> None:
    torch.set_num_threads(1)
    assert shared_out([[1] * 500], 1, abs) == [[1] * 500]
