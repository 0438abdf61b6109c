"""Import a foreign checkpoint: recognize its format, read it, write a checkpoint folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from torch import Tensor

from zoo.checkpoint import checkpoint as folder_format
from zoo.checkpoint.about import TEXT_LIMITS, About, one_line
from zoo.checkpoint.card import CardData, render_card, render_front_matter
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.format import CONFIG, ORIGINAL, is_checkpoint, type_of, unread
from zoo.data.tokenizer import Tokenizer
from zoo.errors import (
    CheckpointError,
    ConversionError,
    PluginError,
    PluginWarning,
    UnknownNameError,
    shown,
)
from zoo.files import read_json
from zoo.interop.export_card import with_card
from zoo.interop.importer import Imported, Importer
from zoo.interop.project import several
from zoo.interop.reasons import Reasons
from zoo.interop.source import Source
from zoo.nn.build import build, network_type
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry
from zoo.registry.reporting import Reporting

T = TypeVar("T")

ENDINGS = (".pt", ".ckpt")
"""Of files of which a folder may hold several, each a checkpoint."""

LOOKED_AT = 3
"""Of several such files, as many are looked at."""

RETURNS: dict[str, tuple[type, ...]] = {
    "files": (tuple, list),
    "options": (Mapping,),
    "version": (int,),
    "recognizes": (bool,),
    "named": (Iterable,),
    "read": (Imported,),
}
"""What an importer has and returns."""

PARTS: dict[str, type] = {
    "architecture": str,
    "model_name": str,
    "config": Mapping,
    "weights": Mapping,
    "source_tokenizer": Tokenizer,
    "target_tokenizer": Tokenizer,
    "about": About,
}
"""The types of what it has read."""


def import_checkpoint(
    path: Path,
    out: Path,
    registry: Registry,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    parent: str = "",
) -> str:
    """Convert a foreign checkpoint to a checkpoint folder, and return the name of its format.

    The folder is written completely or not at all.

    Args:
        path: a folder or a file.
        out: the new folder.
        registry: the registry with the importers.
        format: the name of an importer, or the beginning that several share, such as `fairseq`; by
            default the one that recognizes the files.
        options: of the importer.
        parent: the address of the files, if they were downloaded.

    Raises:
        UnknownNameError: there is no such format or option.
        ConversionError: no importer or more than one recognizes the files, or they cannot be
            expressed exactly; lists all reasons.
        CheckpointError: `out` exists, or a file is damaged.
    """
    if os.path.lexists(out):
        raise CheckpointError(f"{out} already exists", "", "Choose a new folder")
    source = Source(path)
    if format is None or (
        format not in registry.importers
        and any(name.startswith(f"{format}-") for name in registry.importers)
    ):
        format = recognize(_chosen(source, options or {}), registry, format)
    importer = importer_of(format, registry)
    for name in options or {}:
        if name not in importer.options:
            raise UnknownNameError(f"option of {format}", name, importer.options)
    imported = importer.read(source, options or {})
    about, metadata = with_card(imported.about, source, parent)
    if parent:
        about = replace(about, parent=one_line(parent, TEXT_LIMITS["parent"]))
    write_imported(replace(imported, about=about), metadata, source, out, registry)
    return format


def _chosen(source: Source, options: Mapping[str, str]) -> Source:
    """Return the file that the option `checkpoint` chooses, by which the format is recognized."""
    name = options.get("checkpoint")
    known = source.file is None and name in source.names
    return Source(source.folder / str(name)) if known else source


def importer_of(format: str, registry: Registry) -> Importer:
    """Return the importer of a format.

    Raises:
        UnknownNameError: there is no such format.
    """
    declared, owner = registry.importers.find(format), registry.importers.owner(format)
    what = f"format {format!r} of {owner}"
    kind = cast("type[Importer]", import_object(declared.importer, what))
    if owner.builtin:
        return kind()
    return cast(Importer, _Reporting(kind, what, Importer, RETURNS))


class _Reporting(Reporting):
    """A plugin's importer, whose result is checked part by part."""

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Return what the importer has read."""
        imported: Imported = self.__getattr__("read")(source, options)
        for name, kind in PARTS.items():
            value = getattr(imported, name)
            if not isinstance(value, kind):
                raise self.broken(f"read returned {name}={shown(value)}, not {kind.__name__}")
        return imported


def each_importer(
    registry: Registry, names: Iterable[str], use: Callable[[Importer], T]
) -> dict[str, T]:
    """Return what `use` returns for each importer; broken ones are left out, with a warning."""
    results = {}
    for name in names:
        try:
            results[name] = use(importer_of(name, registry))
        except PluginError as error:
            warnings.warn(PluginWarning(str(error)), stacklevel=2)
    return results


def formats_of(source: Source, registry: Registry, family: str | None = None) -> list[str]:
    """Return the names of the formats whose importers recognize the files."""
    tried = [n for n in registry.importers if family is None or n.startswith(f"{family}-")]
    known = each_importer(registry, tried, lambda importer: importer.recognizes(source))
    return [name for name, recognized in known.items() if recognized]


def recognize(source: Source, registry: Registry, family: str | None = None) -> str:
    """Return the name of the one format whose importer recognizes the files.

    Args:
        source: the files.
        registry: the registry with the importers.
        family: the beginning of the names of these formats, before a hyphen; by default all.

    Raises:
        ConversionError: there is none, or more than one.
    """
    names = formats_of(source, registry, family)
    if len(names) == 1:
        return names[0]
    if names:
        raise ConversionError(
            f"{source} may be of several formats", ", ".join(names), "Choose one with --format"
        )
    if source.file is None:
        if is_checkpoint(source.folder):
            read_json(source.folder / CONFIG)  # raises what is wrong with one that cannot be read
            what = f"{source} is not imported"
            raise ConversionError(what, "it is a checkpoint of the zoo already", "Use it as it is")
        _refuse_several(source, registry, family)
    if other := unread([source.file.name] if source.file else source.names):
        raise ConversionError(f"{source} cannot be imported", other, ORIGINAL)
    tried = [n for n in registry.importers if family is None or n.startswith(f"{family}-")]
    known = ", ".join(tried) or "none"
    what = f"{source} is of no known format" if family is None else f"{source} is not of {family}"
    why = type_of(source.folder) if source.file is None else ""
    fault, following = ("", "") if why else source.fault()
    if fault:
        raise ConversionError(f"{source} cannot be imported", fault, following)
    why = ", and ".join(filter(None, (why, f"the formats are {known}")))
    raise ConversionError(what, why, "See `zoo list importers`")


def _refuse_several(source: Source, registry: Registry, family: str | None) -> None:
    """Raise if the folder has several checkpoints, the first ones of a known format."""
    for ending in ENDINGS:
        names = [name for name in source.names if name.endswith(ending)]
        if len(names) > 1 and any(
            "checkpoint" in importer_of(format, registry).options
            for name in names[:LOOKED_AT]
            for format in formats_of(Source(source.folder / name), registry, family)
        ):
            raise several(source, names)


def write_imported(
    imported: Imported, metadata: Mapping[str, Any], source: Source, out: Path, registry: Registry
) -> None:
    """Check what an importer returned against the network, and write the checkpoint folder.

    `metadata` is the author's, of the new card.

    Raises:
        ConversionError: weights are missing, unknown or of other shapes; lists all of them.
        ConfigError: the configuration is invalid.
    """
    architecture = registry.architecture(imported.architecture)
    what = f"configuration of {source}"
    config = architecture.config_type().parse(dict(imported.config), what)
    tokenizers = imported.source_tokenizer, imported.target_tokenizer
    sizes = tokenizers[0].size, tokenizers[1].size
    model = build(network_type(architecture), config, *sizes, "meta")
    reasons = Reasons(f"{source} cannot be imported")
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if name not in imported.weights:
            reasons.add(f"{name} is missing")
            continue
        weight: object = imported.weights[name]
        if not isinstance(weight, Tensor):
            reasons.add(f"{name} is not a tensor")
        elif weight.shape != parameter.shape:
            reasons.add(f"{name} is {tuple(weight.shape)}, not {tuple(parameter.shape)}")
    for name in imported.weights:
        reasons.check(name in parameters, f"{name} is not a weight of {imported.architecture}")
    reasons.raise_if_any()
    parent = imported.about.parent or one_line(Path(str(source)).name, TEXT_LIMITS["parent"])
    about = replace(imported.about, origin="imported", parent=parent)
    checkpoint = Checkpoint(
        out.name, imported.model_name, imported.architecture, config, model, *tokenizers, about
    )
    card = CardData(out.name, imported.model_name, architecture, config, sizes, about)
    folder_format.write(
        out, checkpoint, registry, render_card(card, render_front_matter(metadata)), training={},
        weights=imported.weights,
    )  # fmt: skip
