"""The laws of datasets: generated ones keep them, and each detects its mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from docs.build import hook_parts
from tests.shelves import registry_with
from zoo import testing
from zoo.registry.registry import default_registry
from zoo.testing import BrokenLawError
from zoo.testing.outcomes import Outcomes

CODE = """
import random
from itertools import islice
from zoo import Dataset, Pair

drawn = iter([Pair("a", "b")] * 6)

def pairs(split, words=("a", "b", "c", "d")):
    return [Pair(f"{split} {word}", word) for word in words]

def right(split, limit):
    yield from pairs(split)[:limit]

def blank(split, limit):
    yield from pairs(split, ("a", " "))

def empty(split, limit):
    yield from pairs(split) if split == "train" else ()

def lines(split, limit):
    yield "a line"

def shuffled(split, limit):
    yield from (Pair(split, str(random.random())) for _ in range(4))

def used_up(split, limit):
    yield from islice(drawn, 4)

def limited(split, limit):
    yield from random.sample(pairs(split, map(str, range(90))), limit) if limit else pairs(split)

def one_for_all(split, limit):
    yield from pairs("train")

@hookimpl
def zoo_datasets():
    reads = (right, blank, empty, lines, shuffled, used_up, limited, one_for_all)
    for read in reads:
        yield Dataset(read.__name__, "one", read)
"""
WRONG = {
    "right": ("", ""),
    "blank": ("splits_have_pairs", "pair 2 of split train has a blank side"),
    "empty": ("splits_have_pairs", "split validation has no pairs"),
    "lines": ("splits_have_pairs", "dataset 'lines' of visitor (zoo-visitor 1.0) is broken"),
    "shuffled": ("splits_are_the_same_each_time", "pair 1 of split train is Pair("),
    "used_up": ("splits_have_pairs", "split test has no pairs"),
    "limited": ("splits_are_the_same_each_time", "of split train with limit=3 is Pair("),
    "one_for_all": ("splits_share_few_pairs", "4 of 4 pairs of validation are in train"),
}
"""For each dataset, the law that it breaks first, and a part of the message."""


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_fails_its_law(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, CODE)
    outcomes = Outcomes(testing.DATASET_LAWS, lambda: testing.dataset_case(name, registry))
    failed = []
    for law in testing.DATASET_LAWS:
        try:
            outcomes.run(law)
        except BrokenLawError as error:
            failed.append((law.name, error.observed))
        except pytest.skip.Exception:
            assert failed
    expected, message = WRONG[name]
    assert (failed[0][0] if failed else "") == expected
    assert not failed or message in failed[0][1]


INSTALLED = """
from zoo import Dataset, Pair, hookimpl

ZOO_API = 2
WORDS = [f"word {number}" for number in range(300)]
SPLITS = ("train", "validation", "test")

def hashed(split, limit):
    yield from (Pair(word, word) for word in WORDS if SPLITS[hash(word) % 3] == split)

def unordered(split, limit):
    yield from (Pair(split, word) for word in set(WORDS))

def ordered(split, limit):
    yield from (Pair(split, word) for word in WORDS)

@hookimpl
def zoo_datasets():
    return [Dataset(read.__name__, "one", read) for read in (hashed, unordered, ordered)]
"""


@pytest.mark.parametrize(("name", "right"), [("hashed", False), ("unordered", False),
                                             ("ordered", True)])  # fmt: skip
def test_splits_are_those_of_another_process(
    name: str, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python hashes a text to another number in each process: a resumed run had other splits."""
    info = tmp_path / "zoo_visitor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-visitor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nvisitor = zoo_visitor\n")
    (tmp_path / "zoo_visitor.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(tmp_path)
    registry = registry_with(monkeypatch, INSTALLED)
    case = replace(testing.dataset_case(name, registry), installed=True)
    law = testing.DATASET_LAWS[1]
    if right:
        law(case)
    else:
        with pytest.raises(BrokenLawError, match="split train has other pairs, or another order"):
            law(case)


def test_every_law_has_a_mistake() -> None:
    assert {law for law, _ in WRONG.values() if law} == {law.name for law in testing.DATASET_LAWS}


@pytest.mark.parametrize("name", ["numbers-en-fr", "shift", "dates-en-iso"])
def test_generated_data_keeps_every_law(name: str) -> None:
    for law in testing.DATASET_LAWS:
        law(testing.dataset_case(name, default_registry()))


def test_the_example_of_the_hook_keeps_every_law(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, code = hook_parts("zoo_datasets")
    registry = registry_with(monkeypatch, code)
    for law in testing.DATASET_LAWS:
        law(testing.dataset_case("spelling", registry))


def test_one_line_tests_every_law_of_a_dataset() -> None:
    test_law = testing.dataset_conformance("shift")
    (mark,) = test_law.pytestmark  # type: ignore[attr-defined]  # what parametrize sets
    assert mark.args[1] == testing.DATASET_LAWS
