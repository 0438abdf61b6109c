"""The conformance kit: every law of the contract, for any architecture.

In a plugin's own tests, one line runs all of them:

    test_law = zoo.testing.conformance("my-architecture")

`pytest --pyargs zoo.testing --zoo-architecture my-architecture` does the same without a test file.
"""

from zoo.testing.case import Case, case, case_of
from zoo.testing.conformance import conformance
from zoo.testing.exporting import exports_to_onnx
from zoo.testing.law import BrokenLawError, Law
from zoo.testing.laws import LAWS
from zoo.testing.objectives import OBJECTIVE_LAWS, objective_case, objective_conformance
from zoo.testing.search import SEARCH_LAWS, search_case, search_conformance

__all__ = [
    "LAWS",
    "OBJECTIVE_LAWS",
    "SEARCH_LAWS",
    "BrokenLawError",
    "Case",
    "Law",
    "case",
    "case_of",
    "conformance",
    "exports_to_onnx",
    "objective_case",
    "objective_conformance",
    "search_case",
    "search_conformance",
]
