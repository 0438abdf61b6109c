"""Several batches at once on a processor, each in a lane of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

NUMBER = 4
"""Bytes of an item's number in the queue."""
MOST = 4096
"""Items that a queue holds at least: a pipe takes 16 KiB before anything is read, and more."""


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `work` of each item, in order; torch's threads are shared out among lanes.

    A step of a search is many small operations, too small for threads to share, and between them
    Python's own work. Two batches, each with one thread, take up to a third less time than both
    with two; in a process each, so that neither waits for the other's Python, up to half. With one
    item or one thread all is done here and now.
    """
    threads = torch.get_num_threads()
    lanes = min(threads, len(items))
    if lanes < 2:
        return map(work, items)
    if lanes == threads and len(items) <= MOST and _may_fork():
        return _in_processes(work, items, lanes)
    return _in_threads(work, items, lanes)


def _in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], lanes: int
) -> Iterator[Result]:
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(lanes, "zoo-lane", torch.set_num_threads, (threads // lanes,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a lane's own number is what new threads would begin with


def _may_fork() -> bool:
    """Tell whether a copy of this process can go on by itself.

    Where there are other threads, one may hold a lock that nobody would give back in the copy.
    """
    return (
        sys.platform == "linux"
        and threading.active_count() == 1
        and not multiprocessing.current_process().daemon
    )


def _in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], lanes: int
) -> Iterator[Result]:
    """Yield `work` of each item; copies of this process do their share, and send what they found.

    They have weights and items as this process has them, in the same memory. What one did not
    send, because it failed or was killed, is done here again; so errors are raised here, too.
    """
    threads = torch.get_num_threads()
    queue, filled = os.pipe()
    with open(filled, "wb") as file:  # closed: after the last number a reader finds the end
        file.write(b"".join(i.to_bytes(NUMBER, "little") for i in reversed(range(len(items)))))
    fork = multiprocessing.get_context("fork")
    others: list[tuple[multiprocessing.context.ForkProcess, Connection]] = []
    torch.set_num_threads(1)  # of the copies, too: torch's pool of threads is not copied
    try:
        for _ in range(lanes - 1):
            receiving, sending = fork.Pipe(duplex=False)
            other = fork.Process(target=_send, args=(work, items, queue, sending), daemon=True)
            with contextlib.suppress(OSError), warnings.catch_warnings():
                # Python 3.12 warns of threads in libraries; with one of torch's, none is used.
                warnings.simplefilter("ignore", DeprecationWarning)
                other.start()
                others.append((other, receiving))  # where there is no room, the rest do its share
            sending.close()
        found = _share(work, items, queue)
        for other, receiving in others:
            with contextlib.suppress(EOFError, OSError):
                found.update(receiving.recv())
            other.join()
    finally:
        for other, receiving in others:
            other.kill()
            other.join()
            receiving.close()
        os.close(queue)
        torch.set_num_threads(threads)
    for i, item in enumerate(items):
        yield found[i] if i in found else work(item)


def _share(work: Callable[[Item], Result], items: Sequence[Item], queue: int) -> dict[int, Result]:
    """Work on what the queue gives until it is empty; after an error it is, for all."""
    found = {}
    while number := os.read(queue, NUMBER):
        i = int.from_bytes(number, "little")
        try:
            found[i] = work(items[i])
        except Exception:
            while os.read(queue, NUMBER * MOST):
                pass
    return found


def _send(
    work: Callable[[Item], Result], items: Sequence[Item], queue: int, sending: Connection
) -> None:
    """Do a copy's share and send it; end with the process that it came from."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts means that process
    origin = os.getppid()

    def wanted(item: Item) -> Result:
        if os.getppid() != origin:
            os._exit(1)
        return work(item)

    sending.send(_share(wanted, items, queue))
