"""Batches that are worked on at once."""

import threading
from collections.abc import Iterator

import pytest
import torch

from zoo.translation.parallel import parallel_map


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


def test_two_batches_are_worked_on_at_once_with_half_the_threads_each() -> None:
    together = threading.Barrier(2, timeout=30)

    def work(item: int) -> tuple[int, int]:
        together.wait()  # passes only if another is here at the same time
        return item, torch.get_num_threads()

    assert list(parallel_map(work, [3, 1])) == [(3, 2), (1, 2)]


def test_threads_are_given_back() -> None:
    list(parallel_map(lambda item: item, range(9)))
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *seen] == [4, 4]


def test_one_item_has_all_threads_and_no_lane() -> None:
    def work(item: int) -> tuple[int, str]:
        return torch.get_num_threads(), threading.current_thread().name

    here = threading.current_thread().name
    assert list(parallel_map(work, [1])) == [(4, here)]


def test_an_error_is_the_first_ones_and_what_waits_is_not_begun() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError(f"no {item}")
        return item

    with pytest.raises(ValueError, match="no 1"):
        list(parallel_map(work, list(range(1000))))
    assert len(begun) < 1000
