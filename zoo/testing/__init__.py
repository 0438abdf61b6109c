"""The conformance kit: every law of the contract for any architecture, and those of the shelves.

In a plugin's own tests, one line runs all of them:

    test_law = zoo.testing.conformance("my-architecture")

`pytest --pyargs zoo.testing --zoo-architecture my-architecture` does the same without a test file.

What a recipe or a search names has laws too: `schedule_conformance`, `tokenizer_conformance`, …
"""

from zoo.testing.augmentations import AUGMENTATION_LAWS, augmentation_case, augmentation_conformance
from zoo.testing.case import Case, case, case_of
from zoo.testing.conformance import conformance
from zoo.testing.datasets import DATASET_LAWS, dataset_case, dataset_conformance
from zoo.testing.exporting import exports_to_onnx
from zoo.testing.initializations import (
    INITIALIZATION_LAWS,
    initialization_case,
    initialization_conformance,
)
from zoo.testing.law import BrokenLawError, Law
from zoo.testing.laws import LAWS
from zoo.testing.objectives import OBJECTIVE_LAWS, objective_case, objective_conformance
from zoo.testing.optimizers import OPTIMIZER_LAWS, optimizer_case, optimizer_conformance
from zoo.testing.processors import PROCESSOR_LAWS, processor_case, processor_conformance
from zoo.testing.schedules import SCHEDULE_LAWS, schedule_case, schedule_conformance
from zoo.testing.search import SEARCH_LAWS, search_case, search_conformance
from zoo.testing.splitters import SPLITTER_LAWS, splitter_case, splitter_conformance
from zoo.testing.tokenizers import TOKENIZER_LAWS, tokenizer_case, tokenizer_conformance

__all__ = [
    "AUGMENTATION_LAWS",
    "DATASET_LAWS",
    "INITIALIZATION_LAWS",
    "LAWS",
    "OBJECTIVE_LAWS",
    "OPTIMIZER_LAWS",
    "PROCESSOR_LAWS",
    "SCHEDULE_LAWS",
    "SEARCH_LAWS",
    "SPLITTER_LAWS",
    "TOKENIZER_LAWS",
    "BrokenLawError",
    "Case",
    "Law",
    "augmentation_case",
    "augmentation_conformance",
    "case",
    "case_of",
    "conformance",
    "dataset_case",
    "dataset_conformance",
    "exports_to_onnx",
    "initialization_case",
    "initialization_conformance",
    "objective_case",
    "objective_conformance",
    "optimizer_case",
    "optimizer_conformance",
    "processor_case",
    "processor_conformance",
    "schedule_case",
    "schedule_conformance",
    "search_case",
    "search_conformance",
    "splitter_case",
    "splitter_conformance",
    "tokenizer_case",
    "tokenizer_conformance",
]
