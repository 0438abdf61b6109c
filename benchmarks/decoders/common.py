"""What every side of `benchmarks/decode.py` does alike: the sources, the batches and the clock.

It runs with each project's own Python, so it imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCAB = 8000
PADDING, BEGIN, END, UNKNOWN = range(4)
ROWS = 64
THREADS = 2
FORCED = 16
"""Tokens of every output, the end token counted, where the length is forced."""
FREE = 32
"""The most tokens of an output, the end token counted, where it is not."""
POSITIONS = 256
SHAPES: dict[str, dict[str, int]] = {
    "transformer-256": {"layers": 3, "dim": 256, "heads": 4, "feedforward": 1024},
    "transformer-512": {"layers": 6, "dim": 512, "heads": 8, "feedforward": 2048},
    "lstm-additive": {"embedding": 256, "encoder": 256, "hidden": 512},
    "lstm-dot": {"embedding": 256, "encoder": 256, "hidden": 512},
    "convs2s-iwslt": {"dim": 256, "encoder": 4, "decoder": 3, "output": 256},
}

CALM = 0.03
"""A run counts as undisturbed if other programs had less of the processor."""

Batch = list[list[int]]
"""Sources of token ids, each ending with the end token; or outputs without it."""


@dataclass(frozen=True)
class Job:
    """What to measure.

    length: `forced`, every output to `FORCED` tokens, or `free`, to `FREE` at most; weights: an
    `.npz` of this project's parameters for the shape, and of the Transformer's position table;
    at_once: batches that are decoded at the same time, sharing the threads out.
    """

    shape: str
    precision: str
    beam: int
    length: str
    weights: Path
    at_once: int = 1

    @property
    def sizes(self) -> dict[str, int]:
        return SHAPES[self.shape]

    @property
    def most(self) -> int:
        """The most tokens of an output, the end token counted."""
        return FORCED if self.length == "forced" else FREE

    @property
    def least(self) -> int:
        """The fewest tokens of an output, the end token counted."""
        return FORCED if self.length == "forced" else 1


Decode = Callable[[Batch], Batch]
"""From a batch of sources to the best output of each, special tokens left out."""

Each = Callable[[Decode, list[Batch]], Iterable[Batch]]
"""What `map` does, maybe several batches at once."""


def measure(
    project: str,
    version: str,
    make: Callable[[Job], tuple[Decode, int]],
    at_once: Each = map,
    **said: Any,
) -> None:
    """Decode all sources again and again; print a line of JSON on the fastest time.

    Args:
        make: from a job to what decodes a batch, and the model's number of parameters.
        at_once: how `Job.at_once` batches are decoded at the same time.
        said: what else the row tells.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--length", choices=("forced", "free"), required=True)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--outputs", type=Path, required=True, help="file to write outputs to")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=150.0, help="repeat no more after these")
    given = parser.parse_args()
    job = Job(given.shape, given.precision, given.beam, given.length, given.weights, given.at_once)
    decode, parameters = make(job)
    each: Each = map if job.at_once == 1 else at_once
    sources = json.loads(given.sources.read_text(encoding="utf-8"))
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    batches = [
        [sources[i] for i in order[first : first + ROWS]] for first in range(0, len(order), ROWS)
    ]
    for batch in (batches[0], batches[-1]):  # first calls set things up
        decode(batch)
    runs: list[tuple[float, float]] = []  # seconds, and others' share of the processor meanwhile
    outputs: Batch = []
    while _more(runs, given.repeats, given.seconds):
        others, before = others_seconds(), time.perf_counter()
        outputs = [output for found in each(decode, batches) for output in found]
        taken = time.perf_counter() - before
        runs.append((taken, (others_seconds() - others) / taken / (os.cpu_count() or 1)))
    best, disturbed = min(runs)
    given.outputs.write_text(json.dumps(outputs), encoding="utf-8")
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
        "others": round(disturbed, 3),
        "tokens": round(sum(map(len, outputs)) / len(outputs), 2),
        "peak_mb": peak_mb(),
        **said,
    }
    print(json.dumps(row))


def _more(runs: list[tuple[float, float]], repeats: int, most: float) -> bool:
    """Tell whether to decode all once more: until calm often enough, or for too long."""
    calm = sum(others < CALM for _, others in runs)
    spent = sum(seconds for seconds, _ in runs)
    if not runs:
        return True
    return calm < repeats and len(runs) < 3 * repeats and spent + min(runs)[0] < most


def others_seconds() -> float:
    """Return processor seconds so far of all programs but this one; 0 where nothing tells."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    user, nice, system = map(int, stat.read_text(encoding="utf-8").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - time.process_time()


def peak_mb() -> int:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage tells counts the program that started this one too
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
        if found:
            return round(int(found[1]) / 1024)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def padded(batch: Batch, padding: int = PADDING) -> Any:
    """Return (rows, longest) int64 for torch, padded on the right."""
    import torch

    longest = max(map(len, batch))
    return torch.tensor([[*tokens, *[padding] * (longest - len(tokens))] for tokens in batch])


def cut(tokens: list[int], end: int = END) -> list[int]:
    """Return what stands before the first end token."""
    return tokens[: tokens.index(end)] if end in tokens else tokens
