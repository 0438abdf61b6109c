"""What the API's handlers share: checks, the queue, and the answers of workers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from zoo.checkpoint.format import SHARED
from zoo.serving.checkpoints import Checkpoints, Served
from zoo.serving.errors import (
    CheckpointGoneError,
    RequestError,
    StoppingError,
    TimeoutExceededError,
    TooLargeError,
    UnknownCheckpointError,
)
from zoo.serving.limits import Limits
from zoo.serving.metrics import Metrics, resident_bytes
from zoo.serving.queue import Item
from zoo.serving.workers import Workers

Result = TypeVar("Result")


class Service:
    """Checkpoints, workers and limits of a running server."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        limits: Limits,
        *,
        workers: int,
        threads: int,
        precision: str = "float32",
        engine: str | None = None,
    ) -> None:
        self.checkpoints, self.limits, self.metrics = checkpoints, limits, Metrics()
        self._shape = workers, threads, precision, engine
        self._workers: Workers | None = None
        self.stopping = False

    async def start(self) -> None:
        """Start the workers."""
        count, threads, precision, engine = self._shape
        self._workers = Workers(count, threads, self.limits, precision, self.metrics, engine)
        gauges = (
            ("zoo_queue_texts", "Texts that wait.", lambda: len(self.workers.queue)),
            ("zoo_workers_ready", "Workers that take jobs.", lambda: self.ready),
            ("zoo_workers_resident_bytes", "Resident memory of all workers.", self.resident),
        )
        for name, about, value in gauges:
            self.metrics.gauge(name, about, lambda value=value: float(value()))  # type: ignore[misc]
        await self._workers.start()

    async def stop(self) -> None:
        """Stop the workers."""
        self.stopping = True
        await self.workers.stop()

    @property
    def workers(self) -> Workers:
        """The workers, once started."""
        assert self._workers is not None
        return self._workers

    @property
    def ready(self) -> int:
        """The number of workers that take jobs."""
        return sum(worker.ready for worker in self.workers.workers)

    def resident(self) -> int:
        """Return the resident memory of all workers, in bytes."""
        processes = [w.process for w in self.workers.workers if w.process is not None]
        return sum(resident_bytes(process.pid) for process in processes)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Check the number and the lengths of a request's texts.

        Raises:
            TooLargeError: there are too many, or one is too long.
        """
        limits = self.limits
        if len(texts) > limits.texts:
            raise TooLargeError(
                "too many texts",
                f"{len(texts):,} in one request, and {limits.texts:,} are the most",
                "Send them in several",
            )
        check_lengths(texts, limits.characters, "Split it, or send it to /api/translate/stream")

    async def run(
        self,
        operation: str,
        served: Served | None,
        inputs: Sequence[Any],
        *,
        lengths: Sequence[int],
        width: int = 1,
        client: object = None,
        **job: Any,
    ) -> list[bytes]:
        """Compute an operation for each input, in batches shared with other requests.

        Each result is JSON. To parse and to write it takes long for some, while no other request
        is served, in a thread neither: most are parts of an answer as they are. A request that
        calls this several times gives the same `client` each time.

        Raises:
            RequestError: the first input's error that a worker reported, a full queue, a timeout.
        """
        if self.stopping:
            raise StoppingError("the server stops")
        whole = {"operation": operation, **(served.job() if served else {}), **job}
        shared = operation in ("translate", "score", "detect")
        loop, client = asyncio.get_running_loop(), client or object()
        key = json.dumps(whole, sort_keys=True) if shared else ""
        items = [
            Item(key or object(), whole, payload, length, loop.create_future(), width, client)
            for payload, length in zip(inputs, lengths, strict=True)
        ]
        self.workers.submit(items)
        try:
            return list(await self.in_time(asyncio.gather(*(item.future for item in items))))
        finally:
            self.workers.discard(items)

    async def in_time(self, work: Awaitable[Result]) -> Result:
        """Return what `work` gives: all that a request needs, or a step of it.

        Raises:
            TimeoutExceededError: it took longer than a request may take.
        """
        most = self.limits.request_seconds
        try:
            async with asyncio.timeout(most):
                return await work
        except TimeoutError:
            raise TimeoutExceededError(
                "the request took too long", f"over {most:g} seconds", "Send fewer or shorter texts"
            ) from None

    async def translate(
        self,
        served: Served,
        texts: Sequence[str],
        options: dict[str, Any],
        *,
        languages: tuple[str, str] = ("", ""),
        token_scores: bool = False,
        client: object = None,
    ) -> list[bytes]:
        """Return the translation of each text, as `Translation` describes it, in JSON.

        Raises:
            RequestError: as `run` does.
        """
        width = options.get("beam", served.beam)
        return await self.run(
            "translate", served, texts, lengths=[len(text) for text in texts], width=width,
            options=options, languages=languages, token_scores=token_scores, client=client,
        )  # fmt: skip

    async def detect(
        self, texts: Sequence[str], client: object = None
    ) -> list[list[dict[str, Any]]]:
        """Return each text's source languages, the best first, with confidences in percent.

        Raises:
            RequestError: a text is empty, or as `run` does.
            UnknownCheckpointError: no checkpoint has a known source language.
        """
        if not all(map(str.strip, texts)):
            raise RequestError("no language to detect", "the text is empty")
        languages = _readers_and_writers(self.checkpoints)
        if not languages:
            raise UnknownCheckpointError(
                "no language can be detected", "no checkpoint names its own"
            )
        detected = await self.run(
            "detect", None, texts, lengths=[len(text) for text in texts], client=client,
            languages=languages,
        )  # fmt: skip
        return [json.loads(one) for one in detected]


def _readers_and_writers(checkpoints: Checkpoints) -> dict[str, dict[str, Any]]:
    """Return what distinguishes the source languages, as `detection.detected` describes it."""
    languages: dict[str, dict[str, Any]] = {}
    for served in checkpoints.values():
        if source := served.default[0]:
            about = languages.setdefault(source, {"folders": [], "readers": [], "writer": None})
            about["folders"].append(str(served.folder))
            about["readers"].append(str(served.folder))
    for served in checkpoints.values():
        # A shared vocabulary fits the language that it is written in as well.
        written = languages.get(served.default[1])
        if written is not None and (served.folder / SHARED).is_file():
            written["folders"].append(str(served.folder))
            with contextlib.suppress(CheckpointGoneError):  # it has lost its weights
                written["writer"] = written["writer"] or served.job()
    return languages


def check_lengths(texts: Sequence[str], most: int, advice: str = "", what: str = "text") -> None:
    """Check the lengths of texts.

    Raises:
        TooLargeError: one has more characters than `most`.
    """
    for number, text in enumerate(texts, 1):
        if len(text) > most:
            raise TooLargeError(
                f"{what} {number} is too long",
                f"{len(text):,} characters, and {most:,} are the most",
                advice,
            )


def need_text(text: str) -> None:
    """Check that a text is not empty.

    Raises:
        RequestError: it is.
    """
    if not text.strip():
        raise RequestError("nothing to show", "the text is empty")
