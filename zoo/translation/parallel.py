"""Several batches at once on a processor, each in a lane of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `work` of each item, in order; torch's threads are shared out among lanes.

    A step of a search is many small operations, too small for threads to share, and between them
    Python's own work. Two batches, each with one thread, take up to a third less time than both
    with two. With one item or one thread all is done here and now.
    """
    threads = torch.get_num_threads()
    lanes = min(threads, len(items))
    if lanes < 2:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(lanes, "zoo-lane", torch.set_num_threads, (threads // lanes,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a lane's own number is what new threads would begin with
