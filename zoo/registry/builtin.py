"""The core as a plugin: the catalogue `registry.toml`, and the built-in hubs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zoo.registry.declarations import Scheme
from zoo.registry.hookspecs import hookimpl

ZOO_API = 2

PACKAGE = Path(__file__).parents[1]


def top() -> Path:
    """Return the folder of `registry.toml` and `cards`.

    In a wheel both are inside the package; in an editable install, at the repository's top.
    """
    return PACKAGE if (PACKAGE / "registry.toml").is_file() else PACKAGE.parent


@hookimpl
def zoo_catalogues() -> Iterable[Path]:
    """Return the catalogue of the built-in models."""
    return [top() / "registry.toml"]


@hookimpl
def zoo_hubs() -> Iterable[Scheme]:
    """Return the hubs in the box."""
    yield Scheme("hf", "the Hugging Face Hub", "zoo.hub.huggingface:HuggingFace")
    yield Scheme("file", "a folder on a disk, shared or not", "zoo.hub.folder:Folder")
