"""A worker process: reads jobs as lines of JSON from standard input, writes answers to its output.

An answer's values follow its line, as JSON that the server passes on as it is. A line `{"stop":
number}` ends the job of that number between two of its steps. The process ends when its input ends,
so it never outlives the server.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any, BinaryIO

from zoo.decoding.forced import most_pairs
from zoo.errors import ZooError
from zoo.registry.registry import default_registry
from zoo.serving.errors import CheckpointGoneError
from zoo.serving.metrics import resident_bytes
from zoo.serving.models import Models
from zoo.serving.operations import OPERATIONS
from zoo.serving.schema import RichRequest
from zoo.serving.steps import OnStep, StoppedError

ATTENTION_PAIRS = 4_000_000
"""The most pairs of tokens whose attention a worker computes at once.

A network of 16 heads altogether needs a gigabyte of memory for so many.
"""


OPTION = re.compile(r"`--([a-z-]+)( [^`]*)?`")
"""An option of the command line in a message, and its value."""


class Jobs:
    """The jobs that arrive. A thread reads them, so that the current one can be stopped."""

    def __init__(self, lines: BinaryIO) -> None:
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._stopped, self._ended = -1, False
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (job := self._waiting.get()) is not None:
            yield job

    def check(self, job: dict[str, Any]) -> None:
        """Raise `StoppedError` if a job is to be stopped, or the server has ended."""
        if self._ended or job["number"] <= self._stopped:
            raise StoppedError

    def _read(self, lines: BinaryIO) -> None:
        for line in lines:
            message = json.loads(line)
            if "stop" in message:
                self._stopped = message["stop"]
            else:
                self._waiting.put(message)
        self._ended = True
        self._waiting.put(None)


def answer(models: Models, job: dict[str, Any], on_step: OnStep) -> dict[str, Any]:
    """Return a job's results, one for each input: a value, or an error with its code."""
    started = time.perf_counter()
    try:
        results = [{"value": value} for value in _run(models, job, job["inputs"], on_step)]
    except Exception as error:
        alike = isinstance(error, StoppedError | CheckpointGoneError)  # each would fail so
        if alike or len(job["inputs"]) == 1:
            results = [_fault(error)] * len(job["inputs"])
        else:  # one text may be at fault; the others get their results
            results = [_alone(models, job, given, on_step) for given in job["inputs"]]
    return {
        "results": results,
        "seconds": time.perf_counter() - started,
        "loaded": list(models.loaded),
        "bytes": models.size,
        "resident": resident_bytes(os.getpid()),
    }


def _run(models: Models, job: dict[str, Any], inputs: list[Any], on_step: OnStep) -> list[Any]:
    on_step()
    return OPERATIONS[job["operation"]](models, job, inputs, on_step)


def _alone(models: Models, job: dict[str, Any], given: Any, on_step: OnStep) -> dict[str, Any]:
    try:
        return {"value": _run(models, job, [given], on_step)[0]}
    except Exception as error:
        return _fault(error)


def _fault(error: Exception) -> dict[str, Any]:
    """Return an error as plain values; a defect's traceback goes to standard error."""
    if isinstance(error, StoppedError):
        return {"error": ["the work was stopped", "", ""], "code": "stopped"}
    if isinstance(error, CheckpointGoneError):
        code = error.code
    elif isinstance(error, ZooError):
        code = "bad_request"
    else:
        traceback.print_exception(error, file=sys.stderr)
        return {"error": ["the worker failed", type(error).__name__, ""], "code": "internal"}
    return {"error": [*map(_with_keys, (error.what, error.why, error.next))], "code": code}


def _with_keys(text: str) -> str:
    """Return a message with the keys of a request in place of options of the command line."""

    def key(option: re.Match[str]) -> str:
        name, value = option[1].replace("-", "_"), option[2] or ""
        return f"`{name}{value}`" if name in RichRequest.model_fields else option[0]

    return OPTION.sub(key, text.replace("`--no-split`", "`split: false`"))


def written(made: dict[str, Any]) -> bytes:
    """Return an answer as the server reads it: in its line, each value is a number of bytes."""
    results, values = [], []
    for result in made["results"]:
        if "value" in result:
            try:
                value = json.dumps(
                    result["value"], ensure_ascii=False, allow_nan=False, separators=(",", ":")
                ).encode()
            except ValueError as error:  # such as an infinite score
                result = _fault(error)
            else:
                result = {"bytes": len(value)}
                values.append(value)
        results.append(result)
    return b"".join([json.dumps({**made, "results": results}).encode(), b"\n", *values])


def work(jobs: BinaryIO, answers: BinaryIO, models: Models) -> None:
    """Answer jobs until there are no more."""
    arriving = Jobs(jobs)
    for job in arriving:
        made = answer(models, job, functools.partial(arriving.check, job))
        try:
            answers.write(written(made))
            answers.flush()
        except BrokenPipeError:  # the server has ended: what is left, Python would report
            os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())
            return


def main() -> None:
    """Run a worker process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--engine")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not break the protocol
    gc.freeze()  # the collector does not walk through what was imported
    most_pairs.set(ATTENTION_PAIRS)
    models = Models(arguments.memory, arguments.precision, default_registry(), arguments.engine)
    answers.write(b'{"ready": true}\n')
    answers.flush()
    work(sys.stdin.buffer, answers, models)


if __name__ == "__main__":
    main()
