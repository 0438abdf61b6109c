"""The format of a checkpoint folder: its files and the content of `config.json`.

`docs/checkpoint-format.md` is the specification. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from zoo.checkpoint.about import About, one_line
from zoo.errors import CheckpointError, ConfigError, PluginError, PluginWarning, ZooError
from zoo.files import read_json, replace_file
from zoo.registry.parameters import VOCABULARY_LIMIT

if TYPE_CHECKING:
    from zoo.registry.declarations import Architecture
    from zoo.registry.plugins import Plugins
    from zoo.registry.registry import Registry

FORMAT = 1
CONFIG, WEIGHTS, CARD, TRAINING = "config.json", "model.safetensors", "README.md", "training.json"
SHARED, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"
TOKENIZER_FILES = (SHARED, SOURCE, TARGET)
WORDS = "source-words.txt"
SCORES, EVALUATION = "scores.json", ".eval_results/zoo.yaml"
RUN = "run.json"
"""What the folder of a training run has instead of `config.json`."""

CURVE, ATTENTION = "curve.png", "attention.png"
FILES = (
    CONFIG, *TOKENIZER_FILES, WORDS, WEIGHTS, TRAINING, CURVE, ATTENTION, SCORES,
    EVALUATION, CARD
)  # fmt: skip
"""All files of a checkpoint. Other files are not read, downloaded or uploaded."""

UNREAD = {
    "model.bin": "CTranslate2", "*.onnx": "ONNX", "*.gguf": "llama.cpp", "*.tflite": "TensorFlow",
    "tf_model*.h5": "TensorFlow", "*.msgpack": "Flax",
}  # fmt: skip
"""Names of models that no importer reads, and whose they are."""

IMPORTED = ("*.safetensors", "pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.npz")
"""Names of weights that an importer may read."""

ORIGINAL = "Name the model from which it was converted"
"""What to do with such a model."""

KEYS: dict[str, type] = {
    "model": str,
    "architecture": str,
    "config": dict,
    "source_vocab": int,
    "target_vocab": int,
    "tied": dict,
    "plugin": dict,
}
NAME_LIMIT = 200
"""The most characters of the name of a model or an architecture."""

TABLE_LIMIT = 10_000
"""The most tied weights."""


def missing(present: Collection[str]) -> list[str]:
    """Return the required files of a checkpoint that are not among those present."""
    tokenizers = [SHARED] if SHARED in present else [SOURCE, TARGET]
    return [file for file in (CONFIG, WEIGHTS, *tokenizers) if file not in present]


def unread(files: Iterable[str]) -> str:
    """Return which file is a model that no importer reads; empty if another may be read."""
    known = ""
    for file in files:
        name = PurePosixPath(file).name
        if any(fnmatch(name, pattern) for pattern in IMPORTED):
            return ""
        project = next((whose for form, whose in UNREAD.items() if fnmatch(name, form)), "")
        if project and not known:
            known = f"its {file} is a model of {project}, which has no importer"
    return known


def unread_in(folder: Path) -> str:
    """Return which file of a folder is such a model; empty for a checkpoint of the zoo."""
    names = list[str]()
    with contextlib.suppress(OSError):  # the folder may have been removed
        names = [file.name for file in folder.iterdir()]
    return "" if is_checkpoint(folder) else unread(names)


def type_of(folder: Path) -> str:
    """Return what a `config.json` of another project says of its model's type; empty if nothing."""
    try:
        said = read_json(folder / CONFIG)
    except CheckpointError:
        return ""
    kind = said.get("model_type")
    if "format" in said or not isinstance(kind, str) or not kind:
        return ""
    return f"its {CONFIG} is of a model of type {kind[:NAME_LIMIT]!r}"


def is_checkpoint(path: Path) -> bool:
    """Return whether a folder has a `config.json` of the zoo, or one that cannot be read."""
    try:
        return (path / CONFIG).exists() and "format" in read_json(path / CONFIG)
    except CheckpointError:
        return True


def check_own(folder: Path, name: str, *, writes: bool = False) -> None:
    """Make sure that a file of a folder, which is going to be shown to others, is the folder's own.

    `writes`: it is going to be replaced, so it must not be a blob of the Hub's cache either.

    Raises:
        CheckpointError: it is a link to a file that is neither in the folder nor such a blob.
    """
    file, own = folder / name, folder.resolve()
    parents = [own]
    if own.parent.name == "snapshots" and not writes:
        parents.append(own.parents[1] / "blobs")
    target = Path(os.path.realpath(file))  # also of a link to itself
    if not any(target.is_relative_to(parent) for parent in parents):
        verb, why = ("written", "not change") if writes else ("read", "not be for others")
        raise CheckpointError(
            f"{file} cannot be {verb}",
            f"it is a link to a file elsewhere, which may {why}",
            "Copy the file into the folder",
        )


def trained_on(training: Mapping[str, Any]) -> str:
    """Return the data that a training record names; empty if it names none."""
    data = training.get("data")
    return data if isinstance(data, str) else ""


def describe(folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint folder's `config.json`.

    Raises:
        CheckpointError: the folder does not exist, files are missing, or `config.json` is invalid
            or of another format version; all missing files and all invalid keys are listed at once.
    """
    if not folder.is_dir():
        what = f"no checkpoint {str(folder)!r}"
        if folder.name in FILES and folder.is_file():
            raise CheckpointError(what, "it is a file of one", f"Give the folder {folder.parent}")
        raise CheckpointError(
            what,
            "it is not a folder, an address or the name of a released checkpoint",
            "See `zoo list checkpoints`, or train one with `zoo train`",
        )
    if lacking := missing([file for file in FILES if (folder / file).exists()]):
        raise _incomplete(folder, lacking)
    wrong = [name for name in FILES if (folder / name).exists() and not (folder / name).is_file()]
    if wrong:
        kinds = {True: "a folder", False: "a pipe or a device"}
        raise CheckpointError(
            f"{folder} cannot be read",
            "; ".join(f"{name} is {kinds[(folder / name).is_dir()]}, not a file" for name in wrong),
            "Put the file in its place, or pull or train the checkpoint again",
        )
    file = folder / CONFIG
    description = read_json(file)
    version = description.get("format")
    if version != FORMAT or type(version) is not int:
        if version is None:
            raise CheckpointError(
                f"{folder} is not a checkpoint of the zoo",
                f"its {CONFIG} states no format",
                "If another project wrote it, import it first: "
                f"zoo import {shlex.quote(str(folder))} --out CHECKPOINT",
            )
        newer = type(version) is int and version > FORMAT
        raise CheckpointError(
            f"{file} has format {str(version)[:40]!r}"
            if type(version) is not int
            else f"{file} has format {version}",
            f"this version of the zoo reads format {FORMAT}",
            "Install a newer seq2seq-zoo" if newer else "",
        )
    faults = _faults_of(description)
    if faults:
        raise CheckpointError(f"{file} is invalid", "; ".join(faults))
    return description


def _incomplete(folder: Path, lacking: list[str]) -> CheckpointError:
    """Return the error of a folder that lacks files of a checkpoint: what it is instead.

    Raises:
        CheckpointError: its `config.json` cannot be read, so that this is not known.
    """
    if CONFIG not in lacking:
        read_json(folder / CONFIG)
    if other := unread_in(folder):
        return CheckpointError(f"{folder} is not a checkpoint of the zoo", other, ORIGINAL)
    if other := type_of(folder):
        hint = "`zoo list importers` shows what can be imported"
        return CheckpointError(f"{folder} is not a checkpoint of the zoo", other, hint)
    if (folder / RUN).is_file():
        out = Path(str(folder).removesuffix(".run"))
        return CheckpointError(
            f"{folder} is the folder of a training run",
            "the checkpoint is written beside it, at the end",
            f"Name {out}" if is_checkpoint(out) else f"Go on with `zoo train --resume --out {out}`",
        )
    return CheckpointError(
        f"{folder} is not a complete checkpoint", f"it has no {', no '.join(lacking)}"
    )


def _faults_of(description: Mapping[str, Any]) -> list[str]:
    """Return everything that is wrong with the values of a `config.json`."""
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
    for key in ("model", "architecture"):
        name = description.get(key)
        if type(name) is str and not 1 <= len(name) <= NAME_LIMIT:
            faults.append(f"{key!r} must have 1 to {NAME_LIMIT} characters")
        elif type(name) is str and (not name.isprintable() or set("`<>") & set(name)):
            faults.append(f"{key!r} must be a name")
    for key in ("tied", "plugin"):
        table = description.get(key)
        if type(table) is dict and len(table) > TABLE_LIMIT:
            faults.append(f"{key!r} has over {TABLE_LIMIT:,} entries")
    try:
        about_of(description)
    except CheckpointError as error:
        faults.append(str(error))
    return faults


def about_of(description: Mapping[str, Any]) -> About:
    """Return what a checkpoint says about itself, given the content of its `config.json`.

    Raises:
        CheckpointError: `about` is invalid; all faults are listed at once.
    """
    return About.parse(description.get("about", {}))


def training_text(training: Mapping[str, Any]) -> str:
    """Return a training record as JSON with a line for each report of its curve."""
    dump = functools.partial(json.dumps, ensure_ascii=False, allow_nan=False)
    entries = []
    for key, value in training.items():
        if key == "curve":
            reports = ",\n    ".join(map(dump, value))
            text = f"[\n    {reports}\n  ]"
        else:
            text = dump(value, indent=2).replace("\n", "\n  ")
        entries.append(f"  {dump(key)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def write_about(folder: Path, about: About) -> None:
    """Write what a checkpoint folder says about itself into its `config.json`.

    Raises:
        CheckpointError: the folder is not a complete checkpoint.
    """
    description = {**describe(folder), "about": about.as_json()}
    text = json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False)
    replace_file(folder / CONFIG, text + "\n")


def architecture_of(
    folder: Path, description: Mapping[str, Any], registry: Registry
) -> Architecture:
    """Return the architecture of a checkpoint, given the content of its `config.json`.

    It warns of an architecture of the same name that another package brings.

    Raises:
        PluginError: the architecture is not installed; names the package that wrote the checkpoint.
    """
    name = description["architecture"]
    try:
        architecture = registry.architecture(name)
        package, plugin = description["plugin"].get("package"), registry.plugin_of(name)
        if package not in (None, plugin.distribution):
            written = one_line(" ".join(written_with(description)), 100)
            now = f"its architecture {name!r} is now that of {plugin.distribution}"
            doubt = "if that is another network, results are wrong. See `zoo plugins`"
            message = f"{folder} was written with {written}, and {now}: {doubt}"
            warnings.warn(PluginWarning(message), stacklevel=2)
        return architecture
    except ZooError as error:
        package, version = written_with(description)
        why, advice = _absence(package, registry.plugins)
        raise type(error)(
            f"{folder} needs architecture {name!r}",
            f"it was written with {package} {version}{why}",
            advice,
        ) from None


def _absence(package: str, plugins: Plugins) -> tuple[str, str]:
    """Return why no plugin of a package is loaded, and what to do next."""
    for broken in plugins.broken:
        if broken.distribution == package:
            return f"; {broken} did not load: {broken.problem}", "See `zoo plugins`"
    for skipped in plugins.skipped:
        if skipped.distribution == package:
            reason = f"; {skipped} is installed, but --no-plugins or ZOO_PLUGINS leaves it out"
            return reason, f"Leave out --no-plugins, or add {package} to ZOO_PLUGINS"
    return ", which is not installed", f"Install {package} if you trust it"


def written_with(description: Mapping[str, Any]) -> tuple[str, str]:
    """Return the package that wrote a checkpoint, and its version."""
    plugin = description["plugin"]
    return str(plugin.get("package", "its package")), str(plugin.get("version", "?"))


@contextlib.contextmanager
def naming_versions(description: Mapping[str, Any], registry: Registry) -> Iterator[None]:
    """Add to errors with which versions of its package a checkpoint was written and is read."""
    try:
        yield
    except (CheckpointError, ConfigError, PluginError) as error:
        package, version = written_with(description)
        plugin = registry.plugin_of(description["architecture"])
        note = f"it was written with {package} {version}"
        if (plugin.distribution, plugin.version) == (package, version):
            note += ", the installed version"
        else:
            note += f", and {plugin.distribution} {plugin.version} is installed"
        why = f"{error.why}; {note}" if error.why else note
        raise type(error)(error.what, why, error.next) from error
