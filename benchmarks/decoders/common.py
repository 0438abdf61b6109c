"""The common part of `benchmarks/decode.py` for all projects: sources, batches and timing.

It runs with the Python of each project and therefore imports only the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

VOCAB = 8000
PADDING, BEGIN, END, UNKNOWN = range(4)
ROWS = 64
THREADS = int(os.environ.get("DECODE_THREADS", "2"))
FORCED = 16
"""Length of every output with the end token, if the length is forced."""
FREE = 32
"""Maximum length of an output with the end token, if it is not."""
POSITIONS = 256
SHAPES: dict[str, dict[str, int]] = {
    "transformer-tiny": {"layers": 4, "dim": 128, "heads": 4, "feedforward": 256},
    "transformer-256": {"layers": 3, "dim": 256, "heads": 4, "feedforward": 1024},
    "transformer-512": {"layers": 6, "dim": 512, "heads": 8, "feedforward": 2048},
    "lstm-additive": {"embedding": 256, "encoder": 256, "hidden": 512},
    "lstm-dot": {"embedding": 256, "encoder": 256, "hidden": 512},
    "convs2s-iwslt": {"dim": 256, "encoder": 4, "decoder": 3, "output": 256},
}

CALM = 0.03
"""A run counts as undisturbed if other processes used a smaller share of the processor."""

Batch = list[list[int]]
"""Sources as token ids with the end token, or outputs without it."""


@dataclass(frozen=True)
class Job:
    """One measurement.

    Args:
        length: `forced` for outputs of exactly `FORCED` tokens, `free` for at most `FREE`.
        weights: `.npz` file of the zoo's parameters, with the Transformer's position table.
        at_once: number of batches decoded concurrently; the threads are divided among them.
        device: `cpu`, or `cuda`, for `--serve`.
    """

    shape: str
    precision: str
    beam: int
    length: str
    weights: Path
    at_once: int = 1
    device: str = "cpu"

    @property
    def sizes(self) -> dict[str, int]:
        return SHAPES[self.shape]

    def rounded(self, weight: Any) -> Any:
        """Return an array, rounded to float16 if the job's precision is that of the weights."""
        return weight.astype("float16").astype("float32") if self.precision == "float16" else weight

    @property
    def most(self) -> int:
        """Maximum length of an output, with the end token."""
        return FORCED if self.length == "forced" else FREE

    @property
    def least(self) -> int:
        """Minimum length of an output, with the end token."""
        return FORCED if self.length == "forced" else 1


Decode = Callable[[Batch], Batch]
"""From a batch of sources to the best output of each, without special tokens."""

MapBatches = Callable[[Decode, list[Batch]], Iterable[Batch]]
"""Like `map`, possibly over several batches concurrently."""


def measure(
    project: str,
    version: str,
    make: Callable[[Job], tuple[Decode, int]],
    concurrent_map: MapBatches = map,
    **extra: Any,
) -> None:
    """Decode all sources repeatedly and print a line of JSON for the fastest run.

    Args:
        make: from a job to the decoding function and the number of parameters.
        concurrent_map: map that decodes `Job.at_once` batches concurrently.
        extra: further fields of the row.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--length", choices=("forced", "free"), default="forced")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--outputs", type=Path, help="file for the outputs")
    parser.add_argument("--serve", action="store_true", help="measure what standard input asks for")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=150.0, help="start no further run after this time"
    )
    options = parser.parse_args()
    job = Job(
        options.shape,
        options.precision,
        options.beam,
        options.length,
        options.weights,
        options.at_once,
        options.device,
    )
    map_batches: MapBatches = map if job.at_once == 1 else concurrent_map
    if options.serve:
        serve(version, job, make, map_batches, options.sources)
        return
    decode, parameters = make(job)
    sources = json.loads(options.sources.read_text(encoding="utf-8"))
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    batches = [
        [sources[i] for i in order[first : first + ROWS]] for first in range(0, len(order), ROWS)
    ]
    for batch in (batches[0], batches[-1]):  # warm up
        decode(batch)
    runs: list[tuple[float, float]] = []  # seconds, and other processes' share of the processor
    outputs: Batch = []
    while _more(runs, options.repeats, options.seconds):
        others, before = other_processes_seconds(), time.perf_counter()
        outputs = [output for batch in map_batches(decode, batches) for output in batch]
        seconds = time.perf_counter() - before
        others = other_processes_seconds() - others
        runs.append((seconds, others / seconds / (os.cpu_count() or 1)))
    best, disturbed = min(runs)
    options.outputs.write_text(json.dumps(outputs), encoding="utf-8")
    row = {
        "project": project,
        "version": version,
        "shape": job.shape,
        "precision": job.precision,
        "beam": job.beam,
        "length": job.length,
        "at_once": job.at_once,
        "sentences": len(sources),
        "parameters": parameters,
        "sentences_per_second": round(len(sources) / best, 1),
        "slowest": round(len(sources) / max(runs)[0], 1),
        "repeats": len(runs),
        "other_processes": round(disturbed, 3),
        "tokens": round(sum(map(len, outputs)) / len(outputs), 2),
        "peak_mb": peak_mb(),
        **extra,
    }
    print(json.dumps(row))


def serve(
    version: str,
    job: Job,
    make: Callable[[Job], tuple[Decode, int]],
    map_batches: MapBatches,
    file: Path,
) -> None:
    """Answer requests on standard input, one JSON object a line; `in_turn.py` makes them.

    `{"beam": 5, "length": "free"}` prepares a search and decodes one sentence; `{"rows": 64,
    "sentences": 128}` decodes so many sentences of middle length, in batches of so many.
    """
    print(json.dumps({"version": version, "imported_mb": peak_mb()}), flush=True)
    sources = sorted(json.loads(file.read_text(encoding="utf-8")), key=len)
    decode: Decode | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if "beam" in request:
            decode = None
            decode, parameters = make(replace(job, **request))
            decode([sources[len(sources) // 2]])
            reply: dict[str, Any] = {"parameters": parameters}
        else:
            assert decode is not None
            first = (len(sources) - request["sentences"]) // 2
            chosen = sources[first : first + request["sentences"]]
            rows = request["rows"]
            batches = [chosen[i : i + rows] for i in range(0, len(chosen), rows)]
            wall, processor = time.perf_counter(), time.process_time()
            outputs = [output for batch in map_batches(decode, batches) for output in batch]
            reply = {
                "seconds": time.perf_counter() - wall,
                "processor": time.process_time() - processor,
                "peak_mb": peak_mb(),
                "outputs": outputs,
            }
        print(json.dumps(reply), flush=True)


def _more(runs: list[tuple[float, float]], repeats: int, most: float) -> bool:
    """Return whether another run is needed: enough undisturbed ones, or no time left, end it."""
    calm = sum(others < CALM for _, others in runs)
    spent = sum(seconds for seconds, _ in runs)
    if not runs:
        return True
    return calm < repeats and len(runs) < 3 * repeats and spent + min(runs)[0] < most


def other_processes_seconds() -> float:
    """Return the processor seconds of all other processes since boot; 0 where unknown."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    user, nice, system = map(int, stat.read_text(encoding="utf-8").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - time.process_time()


def peak_mb() -> int:
    """Return the peak memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage may include the peak of the parent process
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
        if match:
            return round(int(match[1]) / 1024)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def padded(batch: Batch, padding: int = PADDING) -> Any:
    """Return an int64 tensor (batch, length), padded on the right."""
    import torch

    longest = max(map(len, batch))
    return torch.tensor([[*tokens, *[padding] * (longest - len(tokens))] for tokens in batch])


def before_end(tokens: list[int], end: int = END) -> list[int]:
    """Return the tokens before the first end token."""
    return tokens[: tokens.index(end)] if end in tokens else tokens
