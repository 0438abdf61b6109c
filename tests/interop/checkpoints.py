"""Tiny checkpoints with random weights, for tests of exports."""

from __future__ import annotations

from pathlib import Path

import torch

from zoo.checkpoint import checkpoint as folder_format
from zoo.checkpoint.about import About
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.tokenizer import Tokenizer
from zoo.nn.build import build, network_type
from zoo.registry.registry import default_registry

SOURCES = [
    "a dog runs in the snow .",
    "two cats sleep",
    "the girl sings , and the old man reads a book about birds .",
    "birds",
]
TARGETS = ["ein Hund rennt .", "zwei Katzen schlafen", "das Mädchen singt .", "Vögel"]


def checkpoint(
    architecture: str, *, shared: bool = True, seed: int = 1, **values: object
) -> Checkpoint:
    """Return a checkpoint of the architecture's example config with some values replaced."""
    declared = default_registry().architecture(architecture)
    example = declared.config_type().example().model_dump(mode="json")
    config = declared.config_type().parse({**example, **values}, "example")
    source = Tokenizer.train([*SOURCES, *TARGETS], "bpe", 90)
    target = source if shared else Tokenizer.train(TARGETS, "bpe", 70)
    torch.manual_seed(seed)
    model = build(network_type(declared), config, source.size, target.size).eval()
    with torch.no_grad():  # biases and norms are otherwise zeros and ones, which hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    about = About(("en",), ("de",), data="toy", terms="CC0-1.0")
    return Checkpoint("toy", "toy", architecture, config, model, source, target, about)


def write(made: Checkpoint, folder: Path) -> Path:
    """Write a checkpoint folder."""
    folder_format.write(folder, made, default_registry(), "", {})
    return folder
