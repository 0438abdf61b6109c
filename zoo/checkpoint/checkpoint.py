"""Write and read checkpoint folders: a model with trained weights and its tokenizers.

A folder is written completely or not at all. Reading one never executes anything from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.checkpoint.about import About
from zoo.checkpoint.card_text import resized
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
    WORDS,
    about_of,
    architecture_of,
    check_own,
    describe,
    naming_versions,
    training_text,
)
from zoo.checkpoint.source_words import as_text, read_words
from zoo.checkpoint.tensors import TensorSpec, is_finite, open_tensors, read_tensors, write_tensors
from zoo.data.features import FeatureReader
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, read_bytes, whole_folder, write_json
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.registry.config import Config
from zoo.registry.registry import Registry

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
"""The data types that weights may have on disk."""

ON_DISK = ("F32", "F16", "BF16")
"""Their names in safetensors."""


@dataclass
class Checkpoint:
    """A trained model with its tokenizers.

    `folder` is where it was read from, if it was; `words` are those of its training sources in
    small letters, none if they are not known.
    """

    name: str
    model_name: str
    architecture: str
    config: Config
    model: Seq2Seq
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    about: About = field(default_factory=About)
    folder: Path | None = None
    words: frozenset[str] = frozenset()


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
) -> None:
    """Write a checkpoint folder completely or not at all, with its weights in float32.

    `weights` replace those of the model; a mapping that is no `dict` may read each when it is
    looked up, and is looked up once. `more` are additional files, by name.

    Raises:
        CheckpointError: `folder` exists, or a weight is not finite.
    """
    plugin = registry.plugin_of(checkpoint.architecture)
    model = checkpoint.model
    weights = dict(model.named_parameters()) if weights is None else weights
    converted: Mapping[str, Tensor] = (
        in_dtype(weights, "float32") if isinstance(weights, dict) else _Float32(weights)
    )
    shapes = {n: p.to("meta", torch.float32) for n, p in model.named_parameters()}
    with whole_folder(folder, replace=replace) as part:
        write_tensors(part / WEIGHTS, converted, shapes)
        for name, content in (more or {}).items():
            (part / name).write_bytes(content)
        write_tokenizers(checkpoint, part)
        if checkpoint.words:
            (part / WORDS).write_bytes(as_text(checkpoint.words).encode())
        sized = resized(card, (part / WEIGHTS).stat().st_size)  # the file has a header besides
        (part / CARD).write_text(sized, encoding="utf-8")
        (part / TRAINING).write_text(training_text(training), encoding="utf-8")
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
                "about": checkpoint.about.as_json(),
            },
        )


def write_tokenizers(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint's tokenizers: one file if both sides share one, else two."""
    source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    files = {SHARED: source} if source is target else {SOURCE: source, TARGET: target}
    for name, tokenizer in files.items():
        (folder / name).write_text(tokenizer.to_json(), encoding="utf-8")


def read(folder: Path, registry: Registry, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        CheckpointError: files are missing or damaged; all missing files are listed at once.
        PluginError: its architecture is not installed; names the package that wrote it.
    """
    description = describe(folder)
    architecture = architecture_of(folder, description, registry)
    with naming_versions(description, registry):
        config_type = architecture.config_type()
        config = config_type.parse(description["config"], f"{folder / CONFIG}, config")
    shared = (folder / SHARED).is_file()
    source = load_tokenizer(folder / (SHARED if shared else SOURCE), registry)
    target = source if shared else load_tokenizer(folder / TARGET, registry)
    if config.features != isinstance(source, FeatureReader):
        raise CheckpointError(
            f"{folder} is inconsistent", "its config and its source tokenizer read different things"
        )
    if config.one_vocabulary and not shared and source.vocabulary() != target.vocabulary():
        raise CheckpointError(
            f"{folder} is inconsistent", f"its config needs one vocabulary, such as {SHARED}"
        )
    for side, tokenizer in (("source", source), ("target", target)):
        if tokenizer.size != description[f"{side}_vocab"]:
            raise CheckpointError(
                f"{folder} is inconsistent",
                f"its {side} tokenizer has {tokenizer.size:,} entries, "
                f"and {CONFIG} says {description[f'{side}_vocab']:,}",
            )
    with naming_versions(description, registry):
        model = build(network_type(architecture), config, source.size, target.size, "meta")
        load_weights(model, folder / WEIGHTS, description["tied"], device)
    return Checkpoint(
        name=folder.resolve().name,
        model_name=description["model"],
        architecture=architecture.name,
        config=config,
        model=model.eval(),
        source_tokenizer=source,
        target_tokenizer=target,
        about=about_of(description),
        folder=folder.absolute(),  # the process may change its working folder
        words=read_words(folder),
    )


def load_weights(
    model: Seq2Seq, file: Path, tied: Mapping[str, str], device: str | torch.device
) -> None:
    """Load a file's weights into a network that was built on the meta device.

    Memory is allocated only after the header has shown that every weight is there with its shape.

    Raises:
        CheckpointError: the file is damaged, or does not fit the network; all faults at once.
    """
    parameters = dict(model.named_parameters())
    with open_tensors(file) as opened:
        _raise_faults(file, _header_faults(model, opened.specs, tied))
        weights = opened.read()
    _raise_faults(
        file,
        [f"{n} has values that are not finite" for n, w in weights.items() if not is_finite(w)],
    )
    # One new parameter for each weight, set wherever the network uses it, so that ties are kept.
    loaded = {
        id(parameter): nn.Parameter(weights[name].to(device, parameter.dtype))
        for name, parameter in parameters.items()
    }
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, loaded[id(parameter)])


def _header_faults(
    model: Seq2Seq, specs: Mapping[str, TensorSpec], tied: Mapping[str, str]
) -> list[str]:
    """Return all differences between a network's weights and what a file and its config declare."""
    parameters = dict(model.named_parameters())
    expected_ties = ties(model)
    faults = [f"{name} is missing" for name in parameters if name not in specs]
    for name, spec in specs.items():
        if name in expected_ties:
            faults.append(f"{name} is stored although it is tied to {expected_ties[name]}")
        elif name not in parameters:
            faults.append(f"{name} is not a weight of this network")
        elif spec.shape != tuple(parameters[name].shape):
            faults.append(f"{name} is {spec.shape}, not {tuple(parameters[name].shape)}")
        elif spec.dtype not in ON_DISK:
            faults.append(f"{name} is of type {spec.dtype}, not {' or '.join(ON_DISK)}")
    if tied != expected_ties:
        faults.append(
            f"its config ties {dict(tied) or 'nothing'}, the network {expected_ties or 'nothing'}"
        )
    return faults


def _raise_faults(file: Path, faults: list[str]) -> None:
    """Raise if there are faults; the first 20 are listed."""
    if faults:
        more = f" and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise CheckpointError(f"{file} does not fit its config", "; ".join(faults[:20]) + more)


def ties(model: Seq2Seq) -> dict[str, str]:
    """Return the additional names of tied weights, each with the name under which it is stored."""
    weights = dict(model.named_parameters())
    stored_name = {id(weight): name for name, weight in weights.items()}
    named = model.named_parameters(remove_duplicate=False)
    return {name: stored_name[id(weight)] for name, weight in named if name not in weights}


def convert(folder: Path, out: Path, dtype: str) -> None:
    """Write a copy of a checkpoint with its weights as float32, float16 or bfloat16.

    Its card states their new size.

    Raises:
        CheckpointError: `folder` is not a complete checkpoint, `out` exists, or a weight is outside
            the range of the type.
    """
    describe(folder)
    if os.path.lexists(out):
        raise CheckpointError(f"{out} already exists", "", "Choose a new folder")
    weights = in_dtype(read_tensors(folder / WEIGHTS), dtype)
    with whole_folder(out) as part:
        write_tensors(part / WEIGHTS, weights)
        size = (part / WEIGHTS).stat().st_size
        for name in FILES:
            if (folder / name).is_file() and name != WEIGHTS:
                check_own(folder, name)
                content = read_bytes(folder / name, TEXT_LIMIT)
                if name == CARD:
                    card = resized(content.decode("utf-8", "surrogateescape"), size)
                    content = card.encode("utf-8", "surrogateescape")
                (part / name).parent.mkdir(exist_ok=True)
                (part / name).write_bytes(content)


def in_dtype(weights: Mapping[str, Tensor], dtype: str) -> dict[str, Tensor]:
    """Return weights converted to another data type.

    Raises:
        CheckpointError: a weight is not finite, or would not be after the conversion.
    """
    kind = DTYPES[dtype]
    converted = {name: weight.detach().to(kind) for name, weight in weights.items()}
    diverged = [name for name, weight in weights.items() if not is_finite(weight)]
    if diverged:
        raise CheckpointError(
            "these weights are not usable",
            f"{', '.join(diverged[:5])} has values that are not finite",
            "The training has diverged, so try a lower learning_rate; or its files are damaged",
        )
    overflowed = [name for name, weight in converted.items() if not is_finite(weight)]
    if overflowed:
        raise CheckpointError(
            f"these weights cannot be converted to {dtype}",
            f"{', '.join(overflowed[:5])} would not be finite",
            "Use bfloat16, which has the range of float32",
        )
    return converted


class _Float32(Mapping[str, Tensor]):
    """Weights, each converted to float32 when it is looked up."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights

    def __getitem__(self, name: str) -> Tensor:
        return in_dtype({name: self.weights[name]}, "float32")[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)
