"""A plugin-based model zoo for sequence-to-sequence learning.

Every public name is imported on first use, so that `import zoo` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.address import Address as Address
    from zoo.address import Scheme as Scheme
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
    from zoo.decoding import Search as Search
    from zoo.dropout import Dropout as Dropout
    from zoo.errors import HubWarning as HubWarning
    from zoo.errors import ZooError as ZooError
    from zoo.events import Callback as Callback
    from zoo.events import Report as Report
    from zoo.events import Validation as Validation
    from zoo.hookspecs import hookimpl as hookimpl
    from zoo.hub import pull as pull
    from zoo.hub import push as push
    from zoo.hub.contract import Hub as Hub
    from zoo.measure import Metric as Metric
    from zoo.model import Seq2Seq as Seq2Seq
    from zoo.model import create_model as create_model
    from zoo.normalise import softmax as softmax
    from zoo.normalise import softmax_gradient as softmax_gradient
    from zoo.plugins import list_plugins as list_plugins
    from zoo.product import Linear as Linear
    from zoo.product import linear as linear
    from zoo.product import repeated as repeated
    from zoo.recipe import Recipe as Recipe
    from zoo.registry import Registry as Registry
    from zoo.registry import list_checkpoints as list_checkpoints
    from zoo.registry import list_models as list_models
    from zoo.training import train as train
    from zoo.translation import Translation as Translation
    from zoo.translator import Translator as Translator
    from zoo.translator import load as load
    from zoo.tree import Cache as Cache
    from zoo.tree import Past as Past
    from zoo.tree import gather as gather

__version__ = "0.1.0"

_HOMES = {
    "Address": "address",
    "Architecture": "architecture",
    "Cache": "tree",
    "Callback": "events",
    "Config": "config",
    "Dataset": "datasets",
    "Depth": "config",
    "Dim": "config",
    "Hub": "hub.contract",
    "HubWarning": "errors",
    "Dropout": "dropout",
    "Hypothesis": "decoding",
    "LengthLimits": "config",
    "Linear": "product",
    "Metric": "measure",
    "Pair": "datasets",
    "Past": "tree",
    "Recipe": "recipe",
    "Registry": "registry",
    "Report": "events",
    "Row": "config",
    "Search": "decoding",
    "Scheme": "address",
    "Seq2Seq": "model",
    "Table": "config",
    "Translation": "translation",
    "Translator": "translator",
    "Validation": "events",
    "Width": "config",
    "ZooError": "errors",
    "create_model": "model",
    "gather": "tree",
    "hookimpl": "hookspecs",
    "linear": "product",
    "list_checkpoints": "registry",
    "list_models": "registry",
    "list_plugins": "plugins",
    "load": "translator",
    "pull": "hub",
    "push": "hub",
    "repeated": "product",
    "softmax": "normalise",
    "softmax_gradient": "normalise",
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
