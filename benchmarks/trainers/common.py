"""The common part of `benchmarks/train.py` for all projects: batch, update and timing.

It runs with the Python of each project and therefore imports only torch.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

VOCAB = 8000
ROWS, LENGTH = 64, 20
DROPOUT = 0.1
SMOOTHING = 0.1
CLIP = 1.0
RATE = 5e-4
SPECIAL = 4
"""Lowest random token id: no project uses it, or a higher one, as a special token."""
SHAPES: dict[str, dict[str, int]] = {
    "transformer-256": {"layers": 3, "dim": 256, "heads": 4, "feedforward": 1024},
    "transformer-512": {"layers": 6, "dim": 512, "heads": 8, "feedforward": 2048},
    "lstm-additive": {"embedding": 256, "encoder": 256, "hidden": 512},
    "lstm-dot": {"embedding": 256, "encoder": 256, "hidden": 512},
    "convs2s-iwslt": {"dim": 256, "encoder": 4, "decoder": 3},
}
WARM_UP = 4

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From source (batch, m), decoder input (batch, n) and labels (batch, n) to a summed loss."""


def batch(rows: int = ROWS, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """Return source, decoder input and labels, without padding."""
    source = torch.randint(SPECIAL, VOCAB, (rows, LENGTH))
    target = torch.randint(SPECIAL, VOCAB, (rows, LENGTH + 1))
    source, target = source.to(device), target.to(device)
    return source, target[:, :-1].contiguous(), target[:, 1:].contiguous()


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, precision: str, loss: Callable[[], Tensor],
    tokens: int, gradients: Callable[[], Tensor] | None = None,
) -> float:  # fmt: skip
    """Run one update and return the loss per token.

    gradients: computes the gradients in the project's own way, and returns the loss per token.
    """
    if gradients is not None:
        mean = gradients()
    else:
        optimizer.zero_grad(set_to_none=True)
        kind = next(model.parameters()).device.type
        with torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16"):
            total = loss()
        mean = total.float() / tokens
        mean.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return float(mean.detach())


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)


def measure(
    project: str,
    version: str,
    make: Callable[[str], tuple[nn.Module, Loss]],
    extra: Callable[[Callable[[], Tensor], str], dict[str, float]] | None = None,
    gpu_gradients: Callable[..., Tensor] | None = None,
) -> None:
    """Make updates on one batch as standard input asks, and answer by lines of JSON.

    A line with a number asks for that many updates; the answer has the wall and processor seconds
    of each. Two more words set the batch's rows and the precision. The end of the input asks for
    `extra`: further fields, from the loss of the batch and the precision. `gpu_gradients` computes
    the gradients on a GPU, given the model, the precision and the batch, in the project's own way.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", choices=("float32", "bf16"), required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    model, loss = make(options.shape)
    model.to(options.device).train()
    if options.compile:
        model.compile(dynamic=True)
    optimizer = adam(model)
    source, inputs, labels = batch(device=options.device)
    batch_loss = functools.partial(loss, source, inputs, labels)
    weights = {id(weight): weight.numel() for weight in model.parameters() if weight.requires_grad}
    answer({
        "project": project, "version": version, "torch": torch.__version__,
        "parameters": sum(weights.values()), "tokens": labels.numel(),
    })  # fmt: skip
    for line in sys.stdin:
        count, *setting = line.split()
        if setting:
            options.precision = setting[1]
            source, inputs, labels = batch(int(setting[0]), options.device)
            batch_loss = functools.partial(loss, source, inputs, labels)
        seconds, processor, last = [], [], math.nan
        for _ in range(int(count)):
            wall, used = time.perf_counter(), time.process_time()
            own = None
            if gpu_gradients is not None and options.device != "cpu" and not options.compile:
                given = model, options.precision, source, inputs, labels
                own = functools.partial(gpu_gradients, *given)
            last = update(model, optimizer, options.precision, batch_loss, labels.numel(), own)
            if options.device != "cpu":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - wall)
            processor.append(time.process_time() - used)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if options.device != "cpu":
            peak = torch.cuda.max_memory_allocated() >> 20
        answer({
            "seconds": seconds, "processor": processor, "loss": last, "peak_mb": peak,
            "tokens": labels.numel(),
        })  # fmt: skip
    is_extra = extra is not None and options.device == "cpu"
    answer(extra(batch_loss, options.precision) if is_extra else {})


def answer(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


class Epoch(NamedTuple):
    """A corpus in the batches of one project.

    loss: from a batch to its summed loss; real: target tokens of each batch; padded: the same with
    padding.
    """

    model: nn.Module
    batches: list[Any]
    loss: Callable[[Any], Tensor]
    real: list[int]
    padded: list[int]


Sequences = list[list[int]]
"""Token ids without special tokens."""


def measure_epoch(
    project: str, version: str, make: Callable[[str, Sequences, Sequences, int], Epoch]
) -> None:
    """Train on batches of a corpus in random order and print a line of JSON.

    Batches are timed for `--seconds` of processor time; an epoch is extrapolated from the tokens.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", choices=("float32", "bf16"), required=True)
    parser.add_argument("--pairs", required=True, help="JSON: sources and targets")
    parser.add_argument("--batch-tokens", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    torch.manual_seed(1)
    with open(options.pairs, encoding="utf-8") as file:
        sources, targets = json.load(file)
    epoch = make(options.shape, sources, targets, options.batch_tokens)
    epoch.model.train()
    optimizer = adam(epoch.model)
    order = random.Random(1).sample(range(len(epoch.batches)), len(epoch.batches))
    seconds = processor = 0.0
    tokens = count = 0
    for number, index in enumerate(order):
        before, used = time.perf_counter(), time.process_time()
        batch_loss = functools.partial(epoch.loss, epoch.batches[index])
        update(epoch.model, optimizer, options.precision, batch_loss, epoch.real[index])
        if number >= WARM_UP:
            seconds += time.perf_counter() - before
            processor += time.process_time() - used
            tokens += epoch.real[index]
            count += 1
        if processor > options.seconds:
            break
    row = {
        "project": project,
        "version": version,
        "shape": options.shape,
        "precision": options.precision,
        "batches": len(epoch.batches),
        "timed": count,
        "tokens": sum(epoch.real),
        "filled": round(sum(epoch.real) / sum(epoch.padded), 4),
        "tokens_per_second": round(tokens / seconds),
        "epoch_seconds": round(sum(epoch.real) * seconds / tokens, 1),
        "epoch_processor": round(sum(epoch.real) * processor / tokens, 1),
    }
    print(json.dumps(row))
