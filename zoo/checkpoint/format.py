"""The format of a checkpoint folder: which files it holds, and what `config.json` says. No torch.

`docs/checkpoint-format.md` is its specification.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CheckpointError, ZooError
from zoo.files import read_json

if TYPE_CHECKING:
    from zoo.registry.declarations import Architecture
    from zoo.registry.registry import Registry

FORMAT = 1
CONFIG, WEIGHTS, CARD, TRAINING = "config.json", "model.safetensors", "README.md", "training.json"
SHARED, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"
SCORES, EVALUATION = "scores.json", ".eval_results/zoo.yaml"
CURVE, ATTENTION = "curve.png", "attention.png"
FILES = (
    CONFIG, SHARED, SOURCE, TARGET, WEIGHTS, TRAINING, CURVE, ATTENTION, SCORES,
    EVALUATION, CARD
)  # fmt: skip
"""Every file that a checkpoint may hold. Others are neither fetched, sent nor read."""

KEYS: dict[str, type] = {
    "model": str,
    "architecture": str,
    "config": dict,
    "source_vocab": int,
    "target_vocab": int,
    "tied": dict,
    "plugin": dict,
}
VOCABULARY_LIMIT = 10_000_000


def missing(there: Collection[str]) -> list[str]:
    """Return the files that a checkpoint needs and that are not there."""
    tokenizers = [SHARED] if SHARED in there else [SOURCE, TARGET]
    return [file for file in (CONFIG, WEIGHTS, *tokenizers) if file not in there]


def describe(folder: Path) -> dict[str, Any]:
    """Return what the `config.json` of a checkpoint folder says.

    Raises:
        CheckpointError: there is no folder, it lacks files (all are told), or what `config.json`
            says is not well-formed (all of it is told) or of another version of the format.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"no checkpoint {str(folder)!r}",
            "it is neither a folder, an address nor a released checkpoint",
            "See `zoo list checkpoints`, or train one with `zoo train`",
        )
    lacks = missing([file for file in FILES if (folder / file).exists()])
    if lacks:
        raise CheckpointError(
            f"{folder} is not a whole checkpoint", f"it has no {', no '.join(lacks)}"
        )
    file = folder / CONFIG
    description = read_json(file)
    version = description.get("format")
    if version != FORMAT or type(version) is not int:
        newer = type(version) is int and version > FORMAT
        raise CheckpointError(
            f"{file} has format {version!r}",
            f"this version of the zoo reads {FORMAT}",
            "Install a newer seq2seq-zoo" if newer else "",
        )
    faults = [
        f"{key!r} must be of type {kind.__name__}"
        for key, kind in KEYS.items()
        if type(description.get(key)) is not kind
    ]
    for key in ("source_vocab", "target_vocab"):
        size = description.get(key)
        if type(size) is int and not 4 <= size <= VOCABULARY_LIMIT:
            faults.append(f"{key!r} must be from 4 to {VOCABULARY_LIMIT:,}")
    for key in ("tied", "plugin"):
        table = description.get(key)
        if type(table) is dict and not all(type(value) is str for value in table.values()):
            faults.append(f"{key!r} must hold strings")
    if faults:
        raise CheckpointError(f"{file} is not well-formed", "; ".join(faults))
    return description


def architecture_of(
    folder: Path, description: Mapping[str, Any], registry: Registry
) -> Architecture:
    """Return the architecture of a described checkpoint.

    Raises:
        PluginError: it is not installed; names the package that wrote the checkpoint.
    """
    try:
        return registry.architecture(description["architecture"])
    except ZooError as error:
        package = str(description["plugin"].get("package", "its package"))
        version = str(description["plugin"].get("version", "?"))
        raise type(error)(
            f"{folder} needs architecture {description['architecture']!r}",
            f"it was written with {package} {version}, which is not installed or did not load",
            f"Install {package} if you trust it",
        ) from None
