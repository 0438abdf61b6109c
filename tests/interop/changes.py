"""Changes of a folder in the layout of transformers, for tests of what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

Change = Callable[[Path], object]


def content(name: str, given: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(given)


def json_file(name: str, **values: Any) -> Change:
    """Set values of a file, which need not be there."""

    def change(folder: Path) -> None:
        file = folder / name
        given = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(given | values))

    return change


def json_content(name: str, change: Callable[[dict[str, Any]], object]) -> Change:
    def rewrite(folder: Path) -> None:
        given = json.loads((folder / name).read_text())
        change(given)
        (folder / name).write_text(json.dumps(given))

    return rewrite


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Change:
    def rewrite(folder: Path) -> None:
        given = safetensors.torch.load_file(folder / "model.safetensors")
        change(given)
        safetensors.torch.save_file(given, folder / "model.safetensors")

    return rewrite


class Touch:
    """An object whose unpickling creates a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)
