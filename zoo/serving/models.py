"""The models that one worker process holds, the least recently used evicted first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import WEIGHTS
from zoo.registry.registry import Registry
from zoo.serving.errors import CheckpointGoneError
from zoo.translation.loading import load
from zoo.translation.text_search import Precision
from zoo.translation.translator import Translator

COPIES = 2
"""Copies of its weights that a model needs at most: its own, and those packed for decoding.

An engine holds one more.
"""


@dataclass
class Loaded:
    """A loaded checkpoint; `size` is what it counts for, in bytes."""

    version: str
    translator: Translator
    size: int


class Models:
    """Loads checkpoints on first use within a limit of bytes."""

    def __init__(
        self, limit: int, precision: Precision, registry: Registry, engine: str | None = None
    ) -> None:
        self.limit, self.precision, self.registry, self.engine = limit, precision, registry, engine
        self.loaded: OrderedDict[str, Loaded] = OrderedDict()

    def get(self, job: dict[str, Any]) -> Translator:
        """Return a job's checkpoint, loaded now if it is not here or its folder was replaced.

        Raises:
            CheckpointGoneError: it cannot be loaded, or is larger than the limit.
        """
        name, version = str(job["checkpoint"]), str(job["version"])
        here = self.loaded.get(name)
        if here is not None and here.version == version:
            self.loaded.move_to_end(name)
            return here.translator
        self.loaded.pop(name, None)
        folder = Path(job["folder"])
        try:
            copies = COPIES if self.engine is None else COPIES + 1
            size = copies * (folder / WEIGHTS).stat().st_size
            self._make_room(name, size)
            translator = load(
                folder,
                device="cpu",
                precision=self.precision,
                engine=self.engine,
                registry=self.registry,
            )
        except CheckpointGoneError:
            raise
        except Exception as error:
            # Whatever is wrong with a folder on disk must not end the worker.
            raise CheckpointGoneError(
                f"checkpoint {name!r} cannot be loaded", str(error)
            ) from error
        translator.checkpoint.name = name
        self.loaded[name] = Loaded(version, translator, size)
        return translator

    @property
    def size(self) -> int:
        """The bytes that the loaded models count for."""
        return sum(one.size for one in self.loaded.values())

    def _make_room(self, name: str, size: int) -> None:
        if size > self.limit:
            raise CheckpointGoneError(
                f"checkpoint {name!r} is too large for this server",
                f"it needs {size / 1e6:,.0f} MB, and a worker holds {self.limit / 1e6:,.0f} MB",
                "Start the server with more --memory or fewer --workers",
            )
        while self.loaded and self.size + size > self.limit:
            self.loaded.popitem(last=False)
