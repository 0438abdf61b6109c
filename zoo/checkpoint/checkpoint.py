"""The checkpoint folder: a model with trained weights and its tokenizers, written whole or not at
all, and read without executing anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.checkpoint.format import (
    CARD,
    CONFIG,
    FILES,
    FORMAT,
    SHARED,
    SOURCE,
    TARGET,
    TRAINING,
    WEIGHTS,
    architecture_of,
    describe,
)
from zoo.checkpoint.tensors import read_header, read_tensors, write_tensors
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, read_bytes, whole_folder, write_json
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.registry.config import Config
from zoo.registry.registry import Registry

DTYPES = ("F32", "F16", "BF16")
"""The types that weights may have on disk, as safetensors names them."""


@dataclass
class Checkpoint:
    """A trained model with what it needs to take and give plain text."""

    name: str
    model_name: str
    architecture: str
    config: Config
    model: Seq2Seq
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer


def write(
    folder: Path,
    checkpoint: Checkpoint,
    registry: Registry,
    card: str,
    training: Mapping[str, Any],
    *,
    weights: Mapping[str, Tensor] | None = None,
    more: Mapping[str, bytes] | None = None,
    replace: bool = False,
    dtype: str = "float32",
) -> None:
    """Write a checkpoint folder, whole or not at all; `dtype` is the weights' type on disk.

    `weights` stand in for the model's own; `more` are further files, by name.

    Raises:
        CheckpointError: `folder` is in the way, or a weight is beyond what `dtype` can hold.
    """
    plugin = registry.plugin_of(checkpoint.architecture)
    model = checkpoint.model
    own = dict(model.named_parameters()) if weights is None else weights
    kept = in_dtype(own, dtype)
    with whole_folder(folder, replace=replace) as part:
        write_tensors(part / WEIGHTS, kept)
        for name, content in (more or {}).items():
            (part / name).write_bytes(content)
        if checkpoint.source_tokenizer is checkpoint.target_tokenizer:
            (part / SHARED).write_text(checkpoint.source_tokenizer.to_json(), encoding="utf-8")
        else:
            (part / SOURCE).write_text(checkpoint.source_tokenizer.to_json(), encoding="utf-8")
            (part / TARGET).write_text(checkpoint.target_tokenizer.to_json(), encoding="utf-8")
        (part / CARD).write_text(card, encoding="utf-8")
        write_json(part / TRAINING, training)
        write_json(
            part / CONFIG,
            {
                "format": FORMAT,
                "model": checkpoint.model_name,
                "architecture": checkpoint.architecture,
                "config": checkpoint.config.model_dump(mode="json"),
                "source_vocab": model.source_vocab,
                "target_vocab": model.target_vocab,
                "tied": ties(model),
                "plugin": {"package": plugin.distribution, "version": plugin.version},
            },
        )


def read(folder: Path, registry: Registry, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        CheckpointError: something is missing or damaged; all that is missing is told at once.
        PluginError: its architecture is not installed; names the package that wrote it.
    """
    description = describe(folder)
    declared = architecture_of(folder, description, registry)
    config = declared.config_type().parse(description["config"], f"{folder / CONFIG}, config")
    shared = (folder / SHARED).is_file()
    if config.one_vocabulary and not shared:
        raise CheckpointError(f"{folder} does not fit together", f"its config needs {SHARED}")
    source = Tokenizer.load(folder / (SHARED if shared else SOURCE))
    target = source if shared else Tokenizer.load(folder / TARGET)
    for side, tokenizer in (("source", source), ("target", target)):
        if tokenizer.size != description[f"{side}_vocab"]:
            raise CheckpointError(
                f"{folder} does not fit together",
                f"its {side} tokenizer has {tokenizer.size:,} entries, "
                f"its weights {description[f'{side}_vocab']:,}",
            )
    model = build(network_type(declared), config, source.size, target.size, "meta")
    _load_weights(model, folder / WEIGHTS, description["tied"], device)
    name, architecture = folder.resolve().name, declared.name
    return Checkpoint(
        name, description["model"], architecture, config, model.eval(), source, target
    )


def _load_weights(
    model: Seq2Seq, file: Path, tied: Mapping[str, str], device: str | torch.device
) -> None:
    """Put the file's weights into a network built on the meta device.

    Nothing is read before the file's header says that every weight is there and of its shape.
    """
    wanted = dict(model.named_parameters())
    shared = ties(model)
    found = read_header(file)
    faults = [f"{name} is missing" for name in wanted if name not in found]
    for name, spec in found.items():
        if name in shared:
            faults.append(f"{name} is stored, though it is one with {shared[name]}")
        elif name not in wanted:
            faults.append(f"{name} is not of this network")
        elif spec.shape != tuple(wanted[name].shape):
            faults.append(f"{name} is {spec.shape}, not {tuple(wanted[name].shape)}")
        elif spec.dtype not in DTYPES:
            faults.append(f"{name} is of type {spec.dtype}, not {' or '.join(DTYPES)}")
    if tied != shared:
        faults.append(
            f"its config ties {dict(tied) or 'nothing'}, the network {shared or 'nothing'}"
        )
    if not faults:
        weights = read_tensors(file)
        faults = [
            f"{name} holds values that are not finite"
            for name, weight in weights.items()
            if not weight.isfinite().all()
        ]
    if faults:
        more = f" and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise CheckpointError(f"{file} does not fit its config", "; ".join(faults[:20]) + more)
    # One new parameter for each weight, put wherever the network uses it: ties stay ties.
    made = {
        id(weight): nn.Parameter(weights[name].to(device, weight.dtype))
        for name, weight in wanted.items()
    }
    for name, weight in list(model.named_parameters(remove_duplicate=False)):
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, made[id(weight)])


def ties(model: Seq2Seq) -> dict[str, str]:
    """Return the further names of weights that have several, each with the name it is stored by."""
    weights = dict(model.named_parameters())
    first = {id(weight): name for name, weight in weights.items()}
    every = model.named_parameters(remove_duplicate=False)
    return {name: first[id(weight)] for name, weight in every if name not in weights}


def convert(folder: Path, out: Path, dtype: str) -> None:
    """Write a checkpoint again with its weights as float32, float16 or bfloat16.

    Raises:
        CheckpointError: `folder` is no whole checkpoint, `out` is there already, or a weight is
            beyond what the type can hold.
    """
    describe(folder)
    if os.path.lexists(out):
        raise CheckpointError(f"{out} is there already", "", "Name a new folder")
    weights = in_dtype(read_tensors(folder / WEIGHTS), dtype)
    with whole_folder(out) as part:
        for name in FILES:
            if (folder / name).is_file() and name != WEIGHTS:
                (part / name).parent.mkdir(exist_ok=True)
                (part / name).write_bytes(read_bytes(folder / name, TEXT_LIMIT))
        write_tensors(part / WEIGHTS, weights)


def in_dtype(weights: Mapping[str, Tensor], dtype: str) -> dict[str, Tensor]:
    """Return weights as numbers of another type.

    Raises:
        CheckpointError: one of them is not finite, or would not be.
    """
    kind = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]
    made = {name: weight.detach().to(kind) for name, weight in weights.items()}
    lost = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if lost:
        raise CheckpointError(
            "these weights are no use",
            f"{', '.join(lost[:5])} holds values that are not finite",
            "The training has diverged: try a lower learning_rate",
        )
    beyond = [name for name, weight in made.items() if not weight.isfinite().all()]
    if beyond:
        raise CheckpointError(
            f"these weights cannot be {dtype}",
            f"{', '.join(beyond[:5])} would not be finite",
            "Say bfloat16, which reaches as far as float32",
        )
    return made
