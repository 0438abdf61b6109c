"""What an exporter is, and the export of a checkpoint to a folder."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from os import PathLike
from pathlib import Path
from typing import ClassVar, cast

from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.checkpoint.format import CARD
from zoo.errors import CheckpointError, ConversionError, UnknownNameError
from zoo.files import whole_folder
from zoo.interop.export_card import export_card
from zoo.interop.locate import locate
from zoo.interop.reasons import Reasons
from zoo.registry.arguments import checked
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry, default_registry
from zoo.registry.reporting import Reporting

RETURNS: dict[str, tuple[type, ...]] = {
    "precisions": (tuple, list),
    "files": (tuple, list),
    "version": (int,),
    "reasons": (list, tuple),
    "card": (str,),
}
"""What an exporter has and returns."""


class Exporter(ABC):
    """Writes checkpoints in one foreign format."""

    precisions: ClassVar[tuple[str, ...]] = ("float32",)
    """The types of weights that it writes, the default first."""

    files: ClassVar[tuple[str, ...]] = ()
    """Names of the files that it may write: a push removes those that this export lacks."""

    version: ClassVar[int] = 1
    """Raise it when the files change, so that cached exports are made again."""

    @abstractmethod
    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return all reasons why the format cannot express this checkpoint exactly."""

    @abstractmethod
    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the checkpoint's files into `folder`, which is empty.

        Raises:
            ZooError: the files cannot be written, or a package is missing.
        """

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the text of the folder's `README.md`; `folder` has all other files.

        The default shows the model, the precision, the languages and terms, and the files' sizes.
        """
        return export_card(checkpoint, folder, precision)


def export_checkpoint(
    checkpoint: Checkpoint, format: str, out: Path, registry: Registry, precision: str | None = None
) -> None:
    """Write a checkpoint to the folder `out` in a foreign format, completely or not at all.

    Raises:
        UnknownNameError: there is no such format.
        ConversionError: the format does not write this architecture or precision, or cannot express
            the checkpoint exactly; lists all reasons.
        CheckpointError: `out` exists, or cannot be written.
    """
    exporter = exporter_of(format, checkpoint.architecture, registry)
    precision = precision_named(precision) if precision else exporter.precisions[0]
    reasons = Reasons(f"{checkpoint.name} cannot be exported to {format}")
    check_precision(exporter, precision, reasons)
    for reason in exporter.reasons(checkpoint):
        reasons.add(str(reason))
    reasons.raise_if_any()
    if os.path.lexists(out):
        raise CheckpointError(f"{out} already exists", "", "Choose a new folder")
    try:
        with whole_folder(out) as part:
            exporter.write(checkpoint, part, precision)
            text = exporter.card(checkpoint, part, precision)
            (part / CARD).write_text(text, encoding="utf-8")
    except OSError as error:
        reason, advice = error.strerror or str(error), "Choose another place, or make room"
        raise CheckpointError(f"{out} cannot be written", reason, advice) from error


def precision_named(name: str) -> str:
    """Return what exporters call a precision: `bfloat16` for `bf16`."""
    return {"bf16": "bfloat16"}.get(name, name)


def check_precision(exporter: Exporter, precision: str, reasons: Reasons) -> None:
    """Add a reason if a format has no such type of weights."""
    known = ", ".join(map(str, exporter.precisions))
    reasons.check(
        precision in exporter.precisions, f"it has no precision {precision!r}: it has {known}"
    )


@checked
def export(
    name_or_path: str | PathLike[str],
    format: str,
    out: str | PathLike[str],
    *,
    precision: str | None = None,
    registry: Registry | None = None,
) -> Path:
    """Write a checkpoint to the folder `out` in a foreign format, and return the folder.

    Args:
        name_or_path: a released name, an address or a folder; what is not here is pulled first.
        format: `ctranslate2`, `huggingface`, `onnx`, or one that a plugin brings.
        out: the new folder; it is written completely or not at all.
        precision: of the weights; by default the format's first, which is `float32`.
        registry: where names are looked up; by default that of the installed plugins.

    Raises:
        UnknownNameError: there is no such format.
        ConversionError: the format does not write this architecture or precision, or cannot express
            the checkpoint exactly; lists all reasons.
        CheckpointError: there is no such checkpoint, it is damaged, or `out` exists.
        HubError: the checkpoint cannot be pulled.
    """
    registry = registry or default_registry()
    folder = locate(name_or_path, registry)
    export_checkpoint(read(folder, registry), format, Path(out), registry, precision)
    return Path(out)


def exporter_of(format: str, architecture: str, registry: Registry) -> Exporter:
    """Return the exporter to a format for an architecture, or the one for any architecture.

    Raises:
        UnknownNameError: there is no such format.
        ConversionError: none of its exporters writes this architecture.
    """
    declared = registry.exporters.get(f"{format}:{architecture}") or registry.exporters.get(format)
    if declared is None or declared.name != format:
        of_format = [each for each in registry.exporters.values() if each.name == format]
        if not of_format:
            names = sorted({each.name for each in registry.exporters.values()})
            raise UnknownNameError("format", format, names)
        known = ", ".join(each.architecture for each in of_format)
        raise ConversionError(
            f"{format} has no exporter for {architecture}", f"it has exporters for {known}"
        )
    key = format if registry.exporters.get(format) is declared else f"{format}:{architecture}"
    owner = registry.exporters.owner(key)
    what = f"format {format!r} of {owner}"
    kind = cast("type[Exporter]", import_object(declared.exporter, what))
    if owner.builtin:
        return kind()
    return cast(Exporter, Reporting(kind, what, Exporter, RETURNS))
