"""A plugin-based model zoo for sequence-to-sequence learning.

Every public name is imported on first use, so that `import zoo` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.architecture import Architecture as Architecture
    from zoo.config import Config as Config
    from zoo.config import Depth as Depth
    from zoo.config import Dim as Dim
    from zoo.config import LengthLimits as LengthLimits
    from zoo.config import Row as Row
    from zoo.config import Table as Table
    from zoo.config import Width as Width
    from zoo.datasets import Dataset as Dataset
    from zoo.datasets import Pair as Pair
    from zoo.decoding import Hypothesis as Hypothesis
    from zoo.errors import ZooError as ZooError
    from zoo.hookspecs import hookimpl as hookimpl
    from zoo.model import Seq2Seq as Seq2Seq
    from zoo.model import create_model as create_model
    from zoo.plugins import list_plugins as list_plugins
    from zoo.recipe import Recipe as Recipe
    from zoo.registry import Registry as Registry
    from zoo.registry import list_checkpoints as list_checkpoints
    from zoo.registry import list_models as list_models
    from zoo.training import train as train
    from zoo.translator import Translator as Translator
    from zoo.translator import load as load
    from zoo.tree import Cache as Cache
    from zoo.tree import gather as gather

__version__ = "0.1.0"

_HOMES = {
    "Architecture": "architecture",
    "Cache": "tree",
    "Config": "config",
    "Dataset": "datasets",
    "Depth": "config",
    "Dim": "config",
    "Hypothesis": "decoding",
    "LengthLimits": "config",
    "Pair": "datasets",
    "Recipe": "recipe",
    "Registry": "registry",
    "Row": "config",
    "Seq2Seq": "model",
    "Table": "config",
    "Translator": "translator",
    "Width": "config",
    "ZooError": "errors",
    "create_model": "model",
    "gather": "tree",
    "hookimpl": "hookspecs",
    "list_checkpoints": "registry",
    "list_models": "registry",
    "list_plugins": "plugins",
    "load": "translator",
    "train": "training",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zoo.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
