"""Batches of parts; on the CPU concurrent, each in a thread with a share of torch's threads."""

from __future__ import annotations

import bisect
import contextvars
import ctypes
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from zoo.translation.parts import Part

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_TOKENS = 4096
"""Most source tokens in a batch, padding included, each counted once per hypothesis of the beam."""

GPU_BATCH_TOKENS = 16 * BATCH_TOKENS
"""The same on a GPU, where a step of few rows takes as long as one of many."""

FEWEST_ROWS = 8
"""Rows of a piece for each of torch's threads: steps of fewer rows take as long, because each reads
all weights, and because Python runs one thread at a time."""


def source_length(part: Part) -> int:
    """Return the number of source tokens of the first checkpoint."""
    return len(part.tokens[0])


def batches(
    parts: Iterable[Part], width: int, most: int, length: Callable[[Part], int] = source_length
) -> Iterator[list[Part]]:
    """Yield parts in batches of at most `most` tokens, for `width` hypotheses a part.

    They are in order of their `length`, by default the number of source tokens.
    """
    batch: list[Part] = []
    for part in sorted(parts, key=length):
        if batch and (len(batch) + 1) * (length(part) + 1) * width > most:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def in_turn(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield `function` of each item; a StopIteration of it is an error, and no end as in `map`."""
    for item in items:
        yield function(item)


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `function` of each item, in order; worker threads divide torch's threads among them.

    A search step consists of many operations that are too small to divide among threads, and of
    Python code between them. Two concurrent batches with one thread each take up to a third less
    time than two consecutive batches with two threads each. A single item is processed in the
    calling thread with all of torch's threads; so are all items if the thread count cannot be set
    for each thread separately.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    set_count = _own_thread_count() if workers > 1 else None
    if set_count is None:
        yield from in_turn(function, items)
        return
    pool = ThreadPoolExecutor(workers, "zoo-worker", set_count, (threads // workers,))
    try:
        # A thread has the values of the caller's context variables only where it is given them.
        contexts = [contextvars.copy_context() for _ in items]
        yield from pool.map(lambda item, context: context.run(function, item), items, contexts)
    finally:
        pool.shutdown(cancel_futures=True)


def shared_out(
    batches: list[list[Item]], width: int, length: Callable[[Item], int]
) -> list[list[Item]]:
    """Return the batches, the last ones cut so that torch's threads share them evenly.

    A batch that is alone, or the last of an odd number, would take twice the time of its halves at
    once. Nothing is cut where `parallel_map` processes one batch after the other.

    Args:
        batches: what `parallel_map` is to process.
        width: rows of an item. A piece has about `FEWEST_ROWS` for each of torch's threads, or
            more.
        length: of an item; pieces are of about equal length.
    """
    threads = torch.get_num_threads()
    left = len(batches) % threads
    if not left or _own_thread_count() is None:
        return batches
    items = [item for batch in batches[-left:] for item in batch]
    count = min(threads, len(items) * width // (FEWEST_ROWS * threads))
    if count <= left:
        return batches
    before = [0, *itertools.accumulate(map(length, items))]
    cuts = [bisect.bisect_left(before, before[-1] * i / count) for i in range(count + 1)]
    pieces = [items[start:end] for start, end in itertools.pairwise(cuts)]
    return batches[:-left] + [piece for piece in pieces if piece]


@functools.cache
def _own_thread_count() -> Callable[[int], None] | None:
    """Return a function that sets torch's number of threads for the calling thread only.

    `torch.set_num_threads` would also change the initial count of new threads in other parts of
    the program. OpenMP and MKL each have a count per thread. Returns None if torch's OpenMP library
    is not accessible.
    """
    if not torch.backends.openmp.is_available():
        return None
    linked = _library(torch._C.__file__)
    set_mkl = getattr(linked, "MKL_Set_Num_Threads_Local", None)
    # A preloaded OpenMP comes before the one that torch is linked with.
    for library in (_library(None), linked):
        set_openmp = getattr(library, "omp_set_num_threads", None)
        if set_openmp is not None:
            set_count = functools.partial(_set_count, set_openmp, set_mkl)
            if _is_effective(set_count):
                return set_count
    return None


def _library(file: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(file)
    except (OSError, TypeError):  # Windows has no library of all loaded symbols
        return None


def _set_count(
    set_openmp: Callable[[int], None], set_mkl: Callable[[int], int] | None, count: int
) -> None:
    torch.get_num_threads()  # a thread takes over the default at first use, not after this
    set_openmp(count)
    if set_mkl is not None:
        set_mkl(count)


def _is_effective(set_count: Callable[[int], None]) -> bool:
    """Check on a thread that ends here that torch uses the count that was set."""
    count = torch.get_num_threads() + 1
    with ThreadPoolExecutor(1, "zoo-probe", set_count, (count,)) as pool:
        return pool.submit(torch.get_num_threads).result() == count
