"""Files in the layouts of other projects, written without them."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Any]


def randomize(module: torch.nn.Module, seed: int = 0) -> None:
    """Draw all weights from a normal distribution: initial values hide wrong scales and biases."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (weight.dim() == 1) * 0.5)


def write_fairseq(
    folder: Path, state: State, settings: dict[str, Any], words: Sequence[Sequence[str]],
    zipped: bool = True,
) -> None:  # fmt: skip
    """Write a checkpoint and its dictionaries; `words` are those after the special tokens."""
    usual = {"source_lang": "de", "target_lang": "en", "task": "translation"}
    given = Namespace(**usual | settings)
    content = {"args": given, "model": state, "extra_state": {"epoch": 1}, "optimizer_history": []}
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=zipped)
    for side, tokens in zip(("de", "en"), words, strict=True):
        lines = [f"{token} {100 - i}\n" for i, token in enumerate(tokens)]
        (folder / f"dict.{side}.txt").write_text("".join(lines), encoding="utf-8")


def words(count: int, side: str) -> list[str]:
    return [f"{side}{i}" for i in range(count)]


def batch(
    sizes: Sequence[int], specials: Sequence[int], start: int, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return their ids: padded sources that end with the end token, and targets."""
    chooser = random.Random(seed)
    pad, _, end, _ = specials
    normal = [[i for i in range(size) if i not in specials] for size in sizes]
    lengths = [5, 2, 7, 1]
    source = torch.full((len(lengths), 8), pad)
    for row, length in enumerate(lengths):
        source[row, : length + 1] = torch.tensor([*chooser.choices(normal[0], k=length), end])
    target = torch.tensor([[start, *chooser.choices(normal[1], k=6)] for _ in lengths])
    return source, target


def our_ids(specials: Sequence[int], size: int) -> Tensor:
    """Return our id for each of theirs."""
    order = [*specials, *(i for i in range(size) if i not in specials)]
    table = torch.empty(size, dtype=torch.long)
    table[torch.tensor(order)] = torch.arange(size)
    return table
