"""The laws of the open shelves: every built-in entry keeps them, and each detects its mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from docs.build import hook_parts
from tests.laws.wrong_entries import CODE, WRONG
from tests.shelves import registry_with
from zoo import testing
from zoo.errors import UnknownNameError
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.registry import default_registry
from zoo.testing import BrokenLawError
from zoo.testing.law import LawOf
from zoo.testing.outcomes import Outcomes

REQUIRED: dict[str, dict[str, Any]] = {
    "bpe_dropout": {"probability": 0.1},
    "word_dropout": {"probability": 0.1},
    "min-length": {"length": 3},
    "repetition-penalty": {"penalty": 1.5},
    "no-repeat-ngrams": {"size": 2},
    "coverage-penalty": {"factor": 0.5},
}
"""The options that built-in entries need."""


class Kit(NamedTuple):
    """The laws of a shelf, how a case of one entry is made, and the hook that brings entries."""

    laws: Sequence[LawOf[Any]]
    case: Callable[..., Any]
    hook: str
    example: str

    def outcomes(self, named: Any, registry: Any) -> Outcomes[Any]:
        return Outcomes(self.laws, lambda: self.case(named, registry=registry))


KITS = {
    "schedules": Kit(
        testing.SCHEDULE_LAWS, testing.schedule_case, "zoo_schedules", "waves"),
    "optimizers": Kit(
        testing.OPTIMIZER_LAWS, testing.optimizer_case, "zoo_optimizers", "sgd"),
    "initializations": Kit(
        testing.INITIALIZATION_LAWS, testing.initialization_case, "zoo_initializations", "normal"),
    "augmentations": Kit(
        testing.AUGMENTATION_LAWS, testing.augmentation_case, "zoo_augmentations", "blanks"),
    "tokenizers": Kit(
        testing.TOKENIZER_LAWS, testing.tokenizer_case, "zoo_tokenizers", "syllables"),
    "processors": Kit(
        testing.PROCESSOR_LAWS, testing.processor_case, "zoo_logits_processors", "early-end"),
    "splitters": Kit(
        testing.SPLITTER_LAWS, testing.splitter_case, "zoo_splitters", "marks"),
}  # fmt: skip


def named(shelf: str, name: str) -> Any:
    """Return an entry with the options that it needs, as its kind is named."""
    options = REQUIRED.get(name, {})
    if shelf in ("processors", "splitters"):
        return ":".join(filter(None, (name, ",".join(f"{k}={v}" for k, v in options.items()))))
    return {"name": name, **options}


def test_every_open_shelf_has_laws() -> None:
    shelves = {
        name for name, shelf in default_registry().shelves.items() if isinstance(shelf, OpenShelf)
    }
    assert shelves == {*KITS, "objectives", "searches"}  # tests/training, tests/decoding


@pytest.mark.parametrize(
    ("shelf", "name"),
    [(shelf, name) for shelf in KITS for name in default_registry().shelves[shelf]],
)
def test_a_built_in_entry_keeps_every_law(shelf: str, name: str) -> None:
    for law in KITS[shelf].laws:
        law(KITS[shelf].case(named(shelf, name), registry=default_registry()))


@pytest.mark.parametrize("shelf", KITS)
def test_the_example_of_the_hook_keeps_every_law(
    shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = KITS[shelf]
    *_, code = hook_parts(kit.hook)
    registry = registry_with(monkeypatch, re.sub(r'"zoo_\w+:', '"zoo_visitor:', code))
    for law in kit.laws:
        law(kit.case(kit.example, registry=registry))


@pytest.mark.parametrize(
    ("shelf", "name"), [(shelf, name) for shelf, wrong in WRONG.items() for name in wrong]
)
def test_a_mistake_fails_its_law_and_the_others_wait_for_it(
    shelf: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = KITS[shelf]
    outcomes = kit.outcomes(name, registry_with(monkeypatch, CODE))
    failed, expected = [], WRONG[shelf][name].split()
    for law in kit.laws:
        try:
            outcomes.run(law)
        except BrokenLawError as error:
            failed.append(law.name)
            lines = str(error).splitlines()
            assert lines[0] == f"law {law.name}: {law.statement}"
            assert lines[1].startswith("observed: ")
            assert lines[-1] == f"usual causes: {law.causes}"
        except pytest.skip.Exception as skipped:
            root = re.fullmatch(r"waits for law (\w+), which does not hold", str(skipped))
            assert root
            assert root[1] in expected
    assert failed == expected


@pytest.mark.parametrize("shelf", KITS)
def test_every_law_has_a_mistake(shelf: str) -> None:
    caught = {law for laws in WRONG[shelf].values() for law in laws.split()}
    assert caught == {law.name for law in KITS[shelf].laws}


@pytest.mark.parametrize("shelf", KITS)
def test_an_unknown_entry_is_reported_once_and_breaks_no_law(shelf: str) -> None:
    outcomes = KITS[shelf].outcomes("nothing", default_registry())
    first, *rest = KITS[shelf].laws
    with pytest.raises(UnknownNameError, match=r"unknown .* 'nothing': known are"):
        outcomes.run(first)
    for law in rest:
        with pytest.raises(pytest.skip.Exception, match=f"see the failure of {first.name}"):
            outcomes.run(law)


def test_one_line_tests_every_law_of_an_entry() -> None:
    test_law = testing.schedule_conformance({"name": "constant"})
    (mark,) = test_law.pytestmark  # type: ignore[attr-defined]  # what parametrize sets
    assert mark.args[1] == testing.SCHEDULE_LAWS
    for law in testing.SCHEDULE_LAWS:
        test_law(law)
