"""The worker processes, and the loop that gives them batches."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from zoo.serving.errors import (
    FROM_WORKER,
    InternalError,
    RequestError,
    StoppingError,
    TimeoutExceededError,
    WorkerError,
)
from zoo.serving.limits import Limits
from zoo.serving.metrics import Metrics
from zoo.serving.queue import Item, Queue

logger = logging.getLogger(__name__)

ANSWER_BYTES = 1 << 28
"""The longest line, and the most bytes of values, that a worker may write."""

RESTART_SECONDS = (0.1, 1.0, 5.0, 15.0)
"""Waits before a worker that dies again and again is started again."""


class Worker:
    """One worker process.

    busy: the batch that it computes; started: when it began, in the loop's time; job: the number of
    the last batch; stopped: whether it was asked to give it up.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: asyncio.subprocess.Process | None = None
        self.ready = False
        self.busy: list[Item] = []
        self.started = 0.0
        self.job = 0
        self.stopped = False
        self.loaded: list[str] = []
        self.bytes = 0
        self.deaths = 0
        self.replaced = False
        self._timer: asyncio.Timeout | None = None

    async def start(self, arguments: Sequence[str], threads: int) -> None:
        """Start the process and wait until it takes jobs.

        Raises:
            ConnectionError: it ended before it was ready.
        """
        # The server's modules, whatever files are in the current folder.
        path = os.pathsep.join(sys.path)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": path}
        environment.setdefault("GOMP_SPINCOUNT", "1000")
        # oneDNN keeps compiled code for each shape; batches have many, and 1,024 of them, its
        # default, take as much memory as a model.
        environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        self.loaded, self.bytes = [], 0
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "zoo.serving.worker", *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=ANSWER_BYTES,
            start_new_session=True,  # Ctrl-C in a terminal is for the server, which drains first
        )  # fmt: skip
        await self._line()
        self.ready = True

    async def compute(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to a job; its values are JSON, which need not be parsed.

        Raises:
            ConnectionError: the process died.
            TimeoutError: it took longer than `seconds`, or than it may take to stop.
        """
        assert self.process is not None
        assert self.process.stdin is not None
        self.job, self.stopped = self.job + 1, False
        try:
            async with asyncio.timeout(seconds) as self._timer:
                self._write({**job, "number": self.job})
                await self.process.stdin.drain()
                return await self._answer()
        finally:
            self._timer = None

    def stop_job(self, seconds: float) -> None:
        """Ask the process to give up its job; `compute` waits at most `seconds` for that."""
        if self._timer is None or self.stopped:
            return
        self.stopped = True
        self._write({"stop": self.job})
        end, now = self._timer.when(), asyncio.get_running_loop().time()
        self._timer.reschedule(now + seconds if end is None else min(end, now + seconds))

    async def stop(self) -> None:
        """End the process."""
        process, self.ready = self.process, False
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 2.0)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _line(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            line = await self.process.stdout.readline()
        except ValueError as error:  # longer than the limit
            raise ConnectionError(str(error)) from None
        if not line.endswith(b"\n"):
            raise ConnectionError("the worker process died")
        value: dict[str, Any] = json.loads(line)
        return value

    async def _answer(self) -> dict[str, Any]:
        made = await self._line()
        values = [result for result in made["results"] if "bytes" in result]
        if sum(result["bytes"] for result in values) > ANSWER_BYTES:
            raise ConnectionError("the answer of the worker process is too long")
        assert self.process is not None
        assert self.process.stdout is not None
        for result in values:
            try:
                result["value"] = await self.process.stdout.readexactly(result["bytes"])
            except asyncio.IncompleteReadError:
                raise ConnectionError("the worker process died") from None
        return made


class Workers:
    """A fixed number of worker processes that take batches from one queue."""

    def __init__(
        self,
        count: int,
        threads: int,
        limits: Limits,
        precision: str,
        metrics: Metrics,
        engine: str | None = None,
    ) -> None:
        self.limits, self.metrics, self.threads = limits, metrics, threads
        self.queue = Queue(limits, asyncio.get_running_loop().time)
        self.workers = [Worker(number) for number in range(count)]
        self.arguments = [f"--memory={limits.memory_bytes // count}", f"--precision={precision}"]
        self.arguments += [] if engine is None else [f"--engine={engine}"]
        self.stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start all processes; each that is ready takes jobs at once."""
        for worker in self.workers:
            self._spawn(self._keep_running(worker))

    async def stop(self) -> None:
        """Stop all processes; what still waits is answered with an error."""
        self.stopping = True
        for item in [*self.queue.items, *(i for w in self.workers for i in w.busy)]:
            if not item.future.done():
                item.future.set_exception(StoppingError("the server stops"))
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self.workers))

    def submit(self, items: Sequence[Item]) -> None:
        """Queue the items of one request.

        Raises:
            QueueFullError: they do not fit.
        """
        self.queue.add(items)
        self._dispatch()

    def discard(self, items: Sequence[Item]) -> None:
        """Forget items whose client has left; a batch for which no client waits is given up."""
        for item in items:
            self.queue.discard(item)
            item.future.cancel()
        for worker in self.workers:
            if worker.busy and all(item.future.done() for item in worker.busy):
                worker.stop_job(self.limits.stop_seconds)

    # --- inside ---------------------------------------------------------------------------------

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_running(self, worker: Worker) -> None:
        """Start a worker, and start it again whenever it dies."""
        while not self.stopping:
            try:
                await worker.start(self.arguments, self.threads)
            except (ConnectionError, OSError) as error:
                logger.error("worker %d did not start: %s", worker.number, error)
            else:
                self._dispatch()
                assert worker.process is not None
                await worker.process.wait()
                if worker.replaced:
                    worker.replaced = False
                    continue
                logger.error("worker %d died", worker.number)
            worker.ready = False
            self.metrics.worker_deaths.inc()
            wait = RESTART_SECONDS[min(worker.deaths, len(RESTART_SECONDS) - 1)]
            worker.deaths += 1
            await asyncio.sleep(wait)

    def _dispatch(self) -> None:
        """Give batches to idle workers for as long as there are both."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while not self.stopping:
            idle = [worker for worker in self.workers if worker.ready and not worker.busy]
            if not len(self.queue):
                return
            if not idle:
                self._end_turn()
                return
            long_running = sum(any(map(self.queue.is_long, w.busy)) for w in self.workers)
            batch, wait = self.queue.take(len(idle), len(self.workers), long_running)
            if not batch:
                if wait is not None:
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(wait, self._dispatch)
                return
            name = batch[0].job.get("checkpoint")
            # A worker that has the model, or the one that holds least.
            worker = min(idle, key=lambda w: (name not in w.loaded, w.bytes, w.number))
            worker.busy, worker.started = batch, asyncio.get_running_loop().time()
            self._spawn(self._compute(worker, batch))

    def _end_turn(self) -> None:
        """Give up a long text that computes while short ones have no other worker to wait for.

        With several workers, long texts leave one free. A single one would not serve anybody else
        for as long as a request may take, by a text that one client sends.
        """
        running = [worker for worker in self.workers if worker.ready]
        if not running or not all(any(map(self.queue.is_long, w.busy)) for w in running):
            return
        clients = {id(item.client) for worker in running for item in worker.busy}
        if all(self.queue.is_long(i) or id(i.client) in clients for i in self.queue.items):
            return
        worker = min(running, key=lambda w: w.started)
        loop, most = asyncio.get_running_loop(), self.limits.long_seconds
        if (left := worker.started + most - loop.time()) > 0:
            self._timer = loop.call_later(left, self._dispatch)
            return
        for item in worker.busy:
            if self.queue.is_long(item) and not item.future.done():
                error = TimeoutExceededError(
                    "the text takes too long",
                    f"over {most:g} seconds, and others wait",
                    "Send shorter sentences, or start the server with more --workers",
                )
                item.future.set_exception(error)
        worker.stop_job(self.limits.stop_seconds)

    async def _compute(self, worker: Worker, batch: list[Item]) -> None:
        self.metrics.batch(len(batch), asyncio.get_running_loop().time() - batch[0].arrived)
        job = {**batch[0].job, "inputs": [item.payload for item in batch]}
        try:
            if all(item.future.done() for item in batch):  # all clients left just now
                return
            # Longer than a request: then no client waits, and the batch is stopped, not its worker.
            most = self.limits.request_seconds + self.limits.stop_seconds
            made = await worker.compute(job, most)
        except (ConnectionError, TimeoutError) as error:
            worker.ready = False
            # One that does not stop in time, such as an engine, has no fault.
            worker.replaced = isinstance(error, TimeoutError) and worker.stopped
            worker.kill()
            self._retry(batch, isinstance(error, TimeoutError) and not worker.stopped)
        else:
            worker.deaths = 0
            worker.loaded, worker.bytes = made["loaded"], made["bytes"]
            self.metrics.worker(worker.number, made)
            for item, result in zip(batch, made["results"], strict=True):
                _answer(item, result)
            self.queue.put_back([item for item in batch if not item.future.done()])
            if made["resident"] > self.limits.worker_bytes:
                worker.ready, worker.replaced = False, True  # it gets no other batch
                self._spawn(worker.stop())
        finally:
            worker.busy = []
            self._dispatch()

    def _retry(self, batch: list[Item], slow: bool) -> None:
        """Queue a dead worker's items once more, each alone; one that fails again is answered."""
        again = []
        for item in batch:
            item.attempts += 1
            if item.future.done():
                continue
            if item.attempts > 1 or slow:
                why = "it took too long" if slow else "twice, over this text"
                item.future.set_exception(WorkerError("the worker process died", why))
            else:
                item.key = (item.key, id(item))  # a text that kills workers must not share a batch
                again.append(item)
        self.queue.put_back(again)


def _answer(item: Item, result: dict[str, Any]) -> None:
    """Set an item's result; one that was stopped with the rest of its batch has none."""
    if item.future.done() or result.get("code") == "stopped":
        return
    if "error" in result:
        kind: type[RequestError] = FROM_WORKER.get(result["code"], InternalError)
        item.future.set_exception(kind(*result["error"]))
    else:
        item.future.set_result(result["value"])
