"""The checkpoint folder: a model with trained weights and its tokenizers, written whole or not at
all, and read without executing anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from zoo.config import Config
from zoo.errors import CheckpointError, ZooError
from zoo.model import Seq2Seq, build
from zoo.registry import Registry
from zoo.text import Tokenizer

FORMAT = 1
CONFIG, WEIGHTS, CARD, TRAINING = "config.json", "model.safetensors", "README.md", "training.json"
SHARED, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"


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


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a folder to write to; it becomes `folder` when the block ends well, and else vanishes.

    Raises:
        CheckpointError: `folder` is there and not to be replaced.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        for file in [*beside.rglob("*"), beside]:
            flush(file)
        if replace and folder.exists():
            # No file system swaps two folders for certain: a process that ends between the two
            # renames leaves the old one aside, and `mend_folder` brings it back.
            old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
        elif folder.exists():
            raise CheckpointError(f"{folder} is in the way", "it was not there at the start")
        else:
            beside.rename(folder)
        flush(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def mend_folder(folder: Path) -> list[str]:
    """Put right what processes that were killed left of writing `folder`; return what was done.

    A half-written folder is removed; an old one that was set aside comes back if no new one took
    its place. Nobody else may be writing `folder`.
    """
    done = []
    aside = f".{folder.name}."
    found = [f for f in folder.parent.glob(".*") if f.name.startswith(aside) and f.is_dir()]
    for old in sorted((f for f in found if f.suffix == ".old"), key=lambda f: f.stat().st_mtime):
        if _number_between(old.name, aside, ".old"):
            if folder.exists():
                shutil.rmtree(old)
            else:
                old.rename(folder)
                done.append(f"{folder} is back as it was before it was to be replaced")
    for part in found:
        if part.suffix == ".part" and _number_between(part.name, aside, ".part"):
            shutil.rmtree(part)
            done.append(f"a half-written {folder.name} is removed")
    return done


def _number_between(name: str, start: str, end: str) -> bool:
    return name.removeprefix(start).removesuffix(end).isdigit()


def replace_file(file: Path, content: str | bytes) -> None:
    """Write a file whole, in place of the one that is there."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(part)
        part.replace(file)
        flush(file.parent)
    finally:
        part.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Bring a file or folder to the disk itself."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(file: Path, value: object) -> None:
    """Write a value as readable JSON."""
    file.write_text(
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    file.write_bytes(safetensors.torch.save(plain))


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointError: the file is not one.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read", f"{error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read", "it is not a JSON object")
    return value


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read safetensors into memory of their own.

    Raises:
        CheckpointError: the file is not whole.
    """
    try:
        # Not by memory map: a file cut short while it is mapped would end the process.
        return safetensors.torch.load(file.read_bytes())
    except (OSError, SafetensorError, KeyError) as error:
        raise CheckpointError(
            f"{file} cannot be read", f"{error}", "It is damaged: fetch or train it again"
        ) from None


def write(
    folder: Path,
    checkpoint: Checkpoint,
    names: Registry,
    card: str,
    training: Mapping[str, Any],
    *,
    weights: Mapping[str, Tensor] | None = None,
    more: Mapping[str, bytes] | None = None,
    replace: bool = False,
) -> None:
    """Write a checkpoint folder, whole or not at all.

    `weights` stand in for the model's own; `more` are further files, by name.
    """
    plugin = names.plugin_of[checkpoint.architecture]
    model = checkpoint.model
    everything = dict(model.named_parameters(remove_duplicate=False))
    first = {id(weight): name for name, weight in model.named_parameters()}
    with whole_folder(folder, replace=replace) as part:
        write_tensors(
            part / WEIGHTS, dict(model.named_parameters()) if weights is None else weights
        )
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
                "tied": {n: first[id(w)] for n, w in everything.items() if n != first[id(w)]},
                "plugin": {"package": plugin.distribution, "version": plugin.version},
            },
        )


KEYS: dict[str, type] = {
    "model": str,
    "architecture": str,
    "config": dict,
    "source_vocab": int,
    "target_vocab": int,
    "tied": dict,
    "plugin": dict,
}


def read(folder: Path, names: Registry, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        CheckpointError: something is missing or damaged; all that is missing is told at once.
        PluginError: its architecture is not installed; names the package that wrote it.
    """
    description = _description(folder)
    declared = _architecture(folder, description, names)
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
    model = build(declared.network_type(), config, source.size, target.size, "meta")
    _load_weights(model, folder / WEIGHTS, device)
    name, architecture = folder.resolve().name, declared.name
    return Checkpoint(
        name, description["model"], architecture, config, model.eval(), source, target
    )


def _description(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise CheckpointError(
            f"no checkpoint {str(folder)!r}",
            "it is neither a folder nor a released checkpoint",
            "See `zoo list checkpoints`, or train one with `zoo train`",
        )
    tokenizers = [SHARED] if (folder / SHARED).exists() else [SOURCE, TARGET]
    needed = [CONFIG, WEIGHTS, *tokenizers]
    missing = [file for file in needed if not (folder / file).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} is not a whole checkpoint", f"it has no {', no '.join(missing)}"
        )
    description = read_json(folder / CONFIG)
    if description.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder / CONFIG} has format {description.get('format')!r}",
            f"this version of the zoo reads {FORMAT}",
            "Install a newer seq2seq-zoo",
        )
    faults = [
        f"{key!r} must be of type {kind.__name__}"
        for key, kind in KEYS.items()
        if type(description.get(key)) is not kind
    ]
    if faults:
        raise CheckpointError(f"{folder / CONFIG} is not well-formed", "; ".join(faults))
    return description


def _architecture(folder: Path, description: Mapping[str, Any], names: Registry) -> Any:
    try:
        return names.architecture(description["architecture"])
    except ZooError as error:
        package = str(description["plugin"].get("package", "its package"))
        version = str(description["plugin"].get("version", "?"))
        raise type(error)(
            f"{folder} needs architecture {description['architecture']!r}",
            f"it was written with {package} {version}, which is not installed or did not load",
            f"Install {package} if you trust it",
        ) from None


def _load_weights(model: Seq2Seq, file: Path, device: str | torch.device) -> None:
    """Put the file's weights into a network built on the meta device."""
    found = read_tensors(file)
    wanted = dict(model.named_parameters())
    faults = [f"{name} is missing" for name in wanted if name not in found]
    faults += [f"{name} is not of this network" for name in found if name not in wanted]
    faults += [
        f"{name} is {tuple(found[name].shape)}, not {tuple(weight.shape)}"
        for name, weight in wanted.items()
        if name in found and found[name].shape != weight.shape
    ]
    if faults:
        more = f" and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise CheckpointError(f"{file} does not fit its config", "; ".join(faults[:20]) + more)
    # One new parameter for each weight, put wherever the network uses it: ties stay ties.
    made = {
        id(weight): nn.Parameter(found[name].to(device, weight.dtype))
        for name, weight in wanted.items()
    }
    for name, weight in list(model.named_parameters(remove_duplicate=False)):
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, made[id(weight)])
