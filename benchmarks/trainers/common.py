"""What every side of `benchmarks/train.py` does alike: the batch, the update and the clock.

It runs with each project's own Python, so it imports torch alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

VOCAB = 8000
ROWS, LENGTH = 64, 20
DROPOUT = 0.1
SMOOTHING = 0.1
CLIP = 1.0
RATE = 5e-4
SPECIAL = 4
"""Tokens are drawn above these: no project takes one for padding or an end."""
SHAPES: dict[str, dict[str, int]] = {
    "transformer-256": {"layers": 3, "dim": 256, "heads": 4, "feedforward": 1024},
    "transformer-512": {"layers": 6, "dim": 512, "heads": 8, "feedforward": 2048},
    "lstm-additive": {"embedding": 256, "encoder": 256, "hidden": 512},
    "lstm-dot": {"embedding": 256, "encoder": 256, "hidden": 512},
    "convs2s-iwslt": {"dim": 256, "encoder": 4, "decoder": 3},
}
WARM_UP = 4

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From source (rows, m), target read (rows, n) and target wanted (rows, n) to a summed loss."""


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Return source, target to read and target to predict; no token is padding."""
    source = torch.randint(SPECIAL, VOCAB, (ROWS, LENGTH))
    target = torch.randint(SPECIAL, VOCAB, (ROWS, LENGTH + 1))
    return source, target[:, :-1].contiguous(), target[:, 1:].contiguous()


def measure(project: str, version: str, make: Callable[[str], tuple[nn.Module, Loss]]) -> None:
    """Train on one batch for a while; print a line of JSON on how it went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", choices=("float32", "bf16"), required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    given = parser.parse_args()
    torch.manual_seed(1)
    model, loss = make(given.shape)
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
    source, read, wanted = batch()

    def update() -> float:
        optimiser.zero_grad(set_to_none=True)
        half = torch.autocast("cpu", torch.bfloat16, enabled=given.precision == "bf16")
        with half:
            total = loss(source, read, wanted)
        mean = total.float() / wanted.numel()
        mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        return float(mean.detach())

    first = update()
    for _ in range(WARM_UP - 1):
        update()
    seconds: list[float] = []
    last = first
    while sum(seconds) < given.seconds or len(seconds) < 5:
        before = time.perf_counter()
        last = update()
        seconds.append(time.perf_counter() - before)
    # The middle of the faster half: other programs can only make an update slower.
    typical = sorted(seconds)[len(seconds) // 4]
    weights = {id(weight): weight.numel() for weight in model.parameters() if weight.requires_grad}
    row: dict[str, Any] = {
        "project": project,
        "version": version,
        "torch": torch.__version__,
        "shape": given.shape,
        "precision": given.precision,
        "parameters": sum(weights.values()),
        "tokens_per_second": round(wanted.numel() / typical),
        "fastest": round(wanted.numel() / min(seconds)),
        "updates": len(seconds),
        "first_loss": round(first, 3),
        "last_loss": round(last, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(row))
