"""Translators of checkpoints that are named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from os import PathLike
from typing import get_args

import torch

from zoo.checkpoint import checkpoint as folder_format
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.errors import ArgumentError
from zoo.interop.locate import locate
from zoo.nn.device import pick_device
from zoo.registry.arguments import checked
from zoo.registry.registry import Registry, default_registry
from zoo.translation.text_search import Precision
from zoo.translation.translator import Translator

DEVICE = re.compile("(auto|cpu|cuda|mps)(:[0-9]+)?")


@checked
def load(
    name_or_path: str | PathLike[str],
    *more: str | PathLike[str],
    device: str | torch.device = "auto",
    precision: Precision = "float32",
    engine: str | None = None,
    registry: Registry | None = None,
) -> Translator:
    """Load a checkpoint from its released name, its address or its folder.

    A checkpoint that is not on this machine is pulled first; every file is verified.

    Args:
        name_or_path: the checkpoint.
        *more: further members of an ensemble.
        device: `cpu`, `cuda`, `mps` (Apple), or `auto`; or torch's own.
        precision: as for `Translator`.
        engine: the engine that searches, such as `ctranslate2`; by default the zoo's decoder.
        registry: where names are looked up; by default the installed plugins' and the user's.

    Raises:
        CheckpointError: there is no such checkpoint, or files of it are missing or damaged.
        PluginError: its architecture is not installed; names the package that wrote it.
        HubError: it cannot be pulled, or does not match its digests.
        ConversionError: it is of another project, and cannot be imported; lists all reasons.
        ArgumentError: a further member is the name of a device or a precision.
        ConfigError: there is no such device.
        DecodingError, UnknownNameError, ConversionError: as `Translator` does.
    """
    registry = registry or default_registry()
    _check_members(map(str, more), registry)
    picked = pick_device("cpu" if engine is not None and device == "auto" else device)
    with torch.inference_mode(False):  # weights that can be trained, wherever this is called
        members = [_read(given, registry, picked) for given in (name_or_path, *more)]
    return Translator(*members, precision=precision, engine=engine, registry=registry)


def _check_members(more: Iterable[str], registry: Registry) -> None:
    """Refuse members that are meant as an argument, before a checkpoint is pulled."""
    for given in more:
        name = "device" if DEVICE.fullmatch(given) else "precision"
        meant = name == "device" or given in get_args(Precision)
        if meant and given not in registry.checkpoints and not os.path.exists(given):
            why = "further checkpoints of load are members of an ensemble"
            raise ArgumentError(f"no checkpoint {given!r}", why, f'Write {name}="{given}"')


def _read(given: str | PathLike[str], registry: Registry, device: torch.device) -> Checkpoint:
    folder = locate(given, registry)
    checkpoint = folder_format.read(folder, registry, device)
    if str(folder) != str(given):  # a path in a cache means nothing to a reader
        checkpoint.name = str(given)
    return checkpoint
