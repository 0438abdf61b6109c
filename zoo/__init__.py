"""A plugin-based model zoo for sequence-to-sequence learning.

Every public name is imported on first use, so that `import zoo` is fast. What networks are built
from is in `zoo.nn`.

The rooms, from the top down; each imports only from those below it:

    cli          the command line; the only room that changes the process for good
    serving      the HTTP server, its page and its worker processes
    testing      the conformance kit that plugin authors run
    training     objective, schedule, trainer, run folder, process group
    translation  text in, text out: translator, sentences, attention pictures
    interop      importers and exporters of foreign formats
    hub          pull, push, the Hugging Face Hub
    checkpoint   the folder on disk: format, tensors, card, scores
    decoding     search over the contract
    evaluation   metrics
    data         datasets, tokenizers, batches, corpora
    nn           the contract, layers, caches
    registry     plugins, hooks, catalogues, configurations, recipes; imports no torch
    files        checked reads, atomic writes
    errors       one tree of errors
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.data.datasets import downloads_folder as downloads_folder
    from zoo.data.datasets import hash_split as hash_split
    from zoo.data.features import Features as Features
    from zoo.data.readers import read_parallel as read_parallel
    from zoo.data.readers import read_tsv as read_tsv
    from zoo.data.sources import join_sources as join_sources
    from zoo.data.text_tokenizer import TextTokenizer as TextTokenizer
    from zoo.decoding.options import Hypothesis as Hypothesis
    from zoo.decoding.options import Search as Search
    from zoo.decoding.pipeline import Pipeline as Pipeline
    from zoo.decoding.processor import LogitsProcessor as LogitsProcessor
    from zoo.decoding.processor import Rows as Rows
    from zoo.errors import DataError as DataError
    from zoo.errors import HubWarning as HubWarning
    from zoo.errors import ZooError as ZooError
    from zoo.evaluation.segment_metrics import SegmentMetric as SegmentMetric
    from zoo.evaluation.segment_metrics import levenshtein as levenshtein
    from zoo.hub.contract import Hub as Hub
    from zoo.hub.pull import pull as pull
    from zoo.interop.exporter import export as export
    from zoo.interop.publishing import push as push
    from zoo.nn.build import create_model as create_model
    from zoo.registry.address import Address as Address
    from zoo.registry.cache_folder import cache_folder as cache_folder
    from zoo.registry.config import Config as Config
    from zoo.registry.config import Depth as Depth
    from zoo.registry.config import Width as Width
    from zoo.registry.declarations import Architecture as Architecture
    from zoo.registry.declarations import Dataset as Dataset
    from zoo.registry.declarations import Download as Download
    from zoo.registry.declarations import Engine as Engine
    from zoo.registry.declarations import Format as Format
    from zoo.registry.declarations import Metric as Metric
    from zoo.registry.declarations import Pair as Pair
    from zoo.registry.declarations import Scheme as Scheme
    from zoo.registry.discovery import list_plugins as list_plugins
    from zoo.registry.entries import Augmentation as Augmentation
    from zoo.registry.entries import Initialization as Initialization
    from zoo.registry.entries import Objective as Objective
    from zoo.registry.entries import Optimizer as Optimizer
    from zoo.registry.entries import Schedule as Schedule
    from zoo.registry.events import Callback as Callback
    from zoo.registry.events import Report as Report
    from zoo.registry.events import Validation as Validation
    from zoo.registry.hookspecs import hookimpl as hookimpl
    from zoo.registry.parameters import Dim as Dim
    from zoo.registry.parameters import LengthLimits as LengthLimits
    from zoo.registry.parameters import Row as Row
    from zoo.registry.parameters import Table as Table
    from zoo.registry.recipe import Recipe as Recipe
    from zoo.registry.registry import Registry as Registry
    from zoo.registry.registry import list_checkpoints as list_checkpoints
    from zoo.registry.registry import list_datasets as list_datasets
    from zoo.registry.registry import list_models as list_models
    from zoo.registry.text_entries import Processor as Processor
    from zoo.registry.text_entries import SearchMethod as SearchMethod
    from zoo.registry.text_entries import Splitter as Splitter
    from zoo.registry.text_entries import TokenizerKind as TokenizerKind
    from zoo.training import resume as resume
    from zoo.training import train as train
    from zoo.translation.loading import load as load
    from zoo.translation.translation import Translation as Translation
    from zoo.translation.translator import Translator as Translator

__version__ = "0.2.0"

_HOMES = {
    "TokenizerKind": "registry.text_entries",
    "TextTokenizer": "data.text_tokenizer",
    "Splitter": "registry.text_entries",
    "SearchMethod": "registry.text_entries",
    "Processor": "registry.text_entries",
    "Rows": "decoding.processor",
    "Pipeline": "decoding.pipeline",
    "LogitsProcessor": "decoding.processor",
    "Address": "registry.address",
    "Architecture": "registry.declarations",
    "Callback": "registry.events",
    "Config": "registry.config",
    "DataError": "errors",
    "Dataset": "registry.declarations",
    "Depth": "registry.config",
    "Dim": "registry.parameters",
    "Engine": "registry.declarations",
    "Format": "registry.declarations",
    "Hub": "hub.contract",
    "Download": "registry.declarations",
    "Features": "data.features",
    "HubWarning": "errors",
    "Hypothesis": "decoding.options",
    "LengthLimits": "registry.parameters",
    "Metric": "registry.declarations",
    "Pair": "registry.declarations",
    "Recipe": "registry.recipe",
    "Registry": "registry.registry",
    "Report": "registry.events",
    "Row": "registry.parameters",
    "Augmentation": "registry.entries",
    "Initialization": "registry.entries",
    "Objective": "registry.entries",
    "Optimizer": "registry.entries",
    "Schedule": "registry.entries",
    "Scheme": "registry.declarations",
    "Search": "decoding.options",
    "SegmentMetric": "evaluation.segment_metrics",
    "Table": "registry.parameters",
    "Translation": "translation.translation",
    "Translator": "translation.translator",
    "Validation": "registry.events",
    "Width": "registry.config",
    "ZooError": "errors",
    "cache_folder": "registry.cache_folder",
    "create_model": "nn.build",
    "export": "interop.exporter",
    "downloads_folder": "data.datasets",
    "hash_split": "data.datasets",
    "hookimpl": "registry.hookspecs",
    "join_sources": "data.sources",
    "levenshtein": "evaluation.segment_metrics",
    "list_checkpoints": "registry.registry",
    "list_datasets": "registry.registry",
    "list_models": "registry.registry",
    "list_plugins": "registry.discovery",
    "load": "translation.loading",
    "pull": "hub.pull",
    "push": "interop.publishing",
    "read_parallel": "data.readers",
    "read_tsv": "data.readers",
    "resume": "training",
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
