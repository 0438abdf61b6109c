"""Load an engine: export the checkpoint into the cache, once, and run the exported folder."""

from __future__ import annotations

import hashlib
import json
import reprlib
import shutil
from pathlib import Path
from typing import cast

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.errors import FAILURES, DecodingError, PluginError, ZooError
from zoo.interop.exporter import export_checkpoint, exporter_of
from zoo.interop.runner import Runner, Sources
from zoo.registry.cache_folder import cache_folder, locked_entry
from zoo.registry.imports import import_object
from zoo.registry.registry import Registry
from zoo.registry.reporting import Reporting

RETURNS: dict[str, tuple[type, ...]] = {"reasons": (list, tuple), "search": (list,)}
"""What a runner returns."""


class LoadedEngine:
    """An engine that runs a checkpoint, and the checkpoint itself for what the engine cannot do.

    Args:
        name: the engine's name in messages.
        runner: the loaded engine.
        checkpoint: what it runs.
    """

    def __init__(self, name: str, runner: Runner, checkpoint: Checkpoint) -> None:
        self.name, self.runner, self.checkpoint = name, runner, checkpoint

    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis]]:
        """Return each sentence's n best hypotheses, best first.

        Raises:
            DecodingError: the engine cannot search by these options; lists all reasons.
        """
        reasons = self.runner.reasons(options)
        if reasons:
            raise DecodingError(
                f"{self.name} cannot search like this",
                "; ".join(reasons),
                "Leave out these options (for a recommended one, give its default, such as "
                "`--length-penalty 0`), or leave out --engine",
            )
        results = self.runner.search(sources, options)
        rest = [i for i, hypotheses in enumerate(results) if hypotheses is None]
        if rest:
            again = search(sources.rows(rest).encoded(self.checkpoint.model), options)
            for i, hypotheses in zip(rest, again, strict=True):
                results[i] = hypotheses
        return cast("list[list[Hypothesis]]", results)


def load_engine(
    name: str, checkpoint: Checkpoint, precision: str, threads: int, registry: Registry
) -> LoadedEngine:
    """Export a checkpoint into the cache, unless it is there, and load it in an engine.

    Args:
        name: of the engine.
        checkpoint: on the CPU.
        precision: of the exported weights.
        threads: how many batches are searched at once.
        registry: the registry with engines and exporters.

    Raises:
        UnknownNameError: there is no such engine.
        ConversionError: the checkpoint cannot be exported to the engine's format; lists all
            reasons.
        PluginError: no package exports the engine's format.
        DecodingError: the checkpoint is not on the CPU.
    """
    declared = registry.engines.find(name)
    owner = registry.engines.owner(name)
    what = f"engine {name!r} of {owner}"
    kind = cast("type[Runner]", import_object(declared.runner, what))
    device = next(checkpoint.model.parameters()).device
    if device.type != "cpu":
        raise DecodingError(
            f"{name} runs on the CPU only", f"the model is on {device}", "Use `--device cpu`"
        )
    if declared.format not in {exporter.name for exporter in registry.exporters.values()}:
        reason = f"no package exports its format {declared.format!r}"
        raise PluginError(f"{what} is broken", reason, "Report this to its author")
    folder = cached_export(checkpoint, declared.format, precision, registry)
    if owner.builtin:
        try:
            runner = kind.load(folder, checkpoint, threads)
        except ZooError:
            raise
        except FAILURES:  # of the engine's library: the export is damaged
            folder = cached_export(checkpoint, declared.format, precision, registry, anew=True)
            runner = kind.load(folder, checkpoint, threads)
        return LoadedEngine(name, runner, checkpoint)
    reporting = _Reporting(
        lambda: kind.load(folder, checkpoint, threads), what, Runner, RETURNS, made_by="load"
    )
    return LoadedEngine(name, cast(Runner, reporting), checkpoint)


class _Reporting(Reporting):
    """A plugin's runner, whose hypotheses are checked too."""

    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis] | None]:
        """Return what the runner returns, a list of hypotheses or None for each sentence."""
        call = self.__getattr__("search")
        results: list[list[Hypothesis] | None] = call(sources, options)
        if len(results) != len(sources):
            raise self.broken(
                f"search returned {len(results)} results for {len(sources)} sentences"
            )
        for result in results:
            if result is not None and not (
                isinstance(result, list) and all(isinstance(one, Hypothesis) for one in result)
            ):
                raise self.broken(
                    f"search returned {reprlib.repr(result)} for a sentence, not hypotheses"
                )
        return results


def cached_export(
    checkpoint: Checkpoint, format: str, precision: str, registry: Registry, *, anew: bool = False
) -> Path:
    """Return the folder in the cache with a checkpoint's export; written at first use, or `anew`.

    It is found by a digest of weights, configuration and tokenizers, by the exporter's version and
    by the precision.
    """
    exporter = exporter_of(format, checkpoint.architecture, registry)
    parent = cache_folder() / "exports" / format
    folder = parent / f"{digest(checkpoint)}-{precision}-{exporter.version}"
    if folder.is_dir() and not anew:  # without the lock: the cache may be another user's
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    with locked_entry(folder):
        if anew:
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.is_dir():
            export_checkpoint(checkpoint, format, folder, registry, precision)
    return folder


def digest(checkpoint: Checkpoint) -> str:
    """Return a digest of everything that an export depends on."""
    hasher = hashlib.sha256()
    config = checkpoint.config.model_dump(mode="json")
    about = checkpoint.about.as_json()
    texts = [checkpoint.architecture, json.dumps([config, about], sort_keys=True, default=str)]
    texts += [checkpoint.source_tokenizer.to_json(), checkpoint.target_tokenizer.to_json()]
    for text in texts:
        hasher.update(f"{len(text)}:{text}".encode())
    for name, weight in sorted(checkpoint.model.named_parameters()):
        hasher.update(f"{name}{tuple(weight.shape)}{weight.dtype}".encode())
        hasher.update(weight.detach().cpu().contiguous().view(-1).numpy().data)
    return hasher.hexdigest()[:32]
