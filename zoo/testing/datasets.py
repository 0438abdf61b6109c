"""The laws of datasets, for the tests of a plugin that brings one.

test_law = zoo.testing.dataset_conformance("spelling")
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from zoo.data.datasets import find_dataset
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test

MOST, FEW = 20_000, 3
"""How many pairs of a split are read, and how many for a limit."""
SHARED = 0.1
"""The largest part of the pairs of a split that the split for training may have too."""


PROGRAM = """
import hashlib, sys
from itertools import islice
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry

dataset = find_dataset(default_registry(), sys.argv[1])
for split in dataset.splits:
    pairs = [*islice(dataset.stream(split), int(sys.argv[2]))]
    print(hashlib.sha256(repr(pairs).encode()).hexdigest())
"""
"""A program that prints the digest of each split of an installed dataset; it imports no torch."""


@dataclass(frozen=True)
class DatasetCase:
    """A dataset, found by its name; `installed` if another process finds it too."""

    dataset: Dataset
    installed: bool = False

    def read(self, split: str, limit: int | None = None) -> list[Pair]:
        """Return the first pairs of a split."""
        return list(islice(self.dataset.stream(split, limit), MOST))


def dataset_case(name: str, registry: Registry | None = None) -> DatasetCase:
    """Return the case of a dataset, by its name."""
    return DatasetCase(find_dataset(registry or default_registry(), name), registry is None)


@law_of(
    causes="lines in place of pairs; None, or a number, in place of a text; a filter that leaves "
    "nothing; an exception at the end of the data; a function without the argument `limit`"
)
def splits_have_pairs(case: DatasetCase) -> None:
    """Every split has pairs, and both sides of each are texts that are not blank."""
    for split in case.dataset.splits:
        pairs = case.read(split)
        if not pairs:
            raise BrokenLawError(f"split {split} has no pairs")
        for number, pair in enumerate(pairs, 1):
            if not pair.source.strip() or not pair.target.strip():
                raise BrokenLawError(f"pair {number} of split {split} has a blank side: {pair!r}")


@law_of(
    causes="Python's random without a seed of its own; the order of a set, or hash() of a text, "
    "which differ between processes; an iterator that is made once and used up",
    requires="splits_have_pairs",
)
def splits_are_the_same_each_time(case: DatasetCase) -> None:
    """A split has the same pairs in the same order each time, also with a limit."""
    for split in case.dataset.splits:
        for limit in (None, FEW):
            pairs, again = case.read(split, limit), case.read(split, limit)
            of = f"split {split}" if limit is None else f"split {split} with limit={limit}"
            if len(pairs) != len(again):
                raise BrokenLawError(f"{of} has {len(pairs):,} pairs, and then {len(again):,}")
            for number, (one, other) in enumerate(zip(pairs, again, strict=True), 1):
                if one != other:
                    raise BrokenLawError(f"pair {number} of {of} is {one!r}, and then {other!r}")
    if case.installed:
        _require_same_elsewhere(case)


def _require_same_elsewhere(case: DatasetCase) -> None:
    """Compare the splits with those that a new process reads, where Python hashes texts anew."""
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", PROGRAM, case.dataset.name, str(MOST)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    others = done.stdout.split()
    if done.returncode or len(others) != len(case.dataset.splits):
        return  # the data may be for this process alone
    for split, other in zip(case.dataset.splits, others, strict=True):
        if hashlib.sha256(repr(case.read(split)).encode()).hexdigest() != other:
            raise BrokenLawError(
                f"split {split} has other pairs, or another order, in a new process"
            )


@law_of(
    causes="an argument `split` that is not used; ranges or seeds of splits that overlap; a "
    "sentence that is in the data many times: see zoo.hash_split",
    requires="splits_have_pairs",
)
def splits_share_few_pairs(case: DatasetCase) -> None:
    """At most a tenth of the pairs of another split are among those of the first one."""
    first, *others = case.dataset.splits
    known = {(pair.source, pair.target) for pair in case.read(first)}
    for split in others:
        pairs = case.read(split)
        shared = sum((pair.source, pair.target) in known for pair in pairs)
        if shared > SHARED * len(pairs):
            raise BrokenLawError(f"{shared:,} of {len(pairs):,} pairs of {split} are in {first}")


DATASET_LAWS = [splits_have_pairs, splits_are_the_same_each_time, splits_share_few_pairs]
"""All laws of datasets, the most basic first."""


def dataset_conformance(
    name: str, registry: Registry | None = None
) -> Callable[[LawOf[DatasetCase]], None]:
    """Return a test of every law of datasets, for one by its name."""
    return conformance_test(DATASET_LAWS, lambda: dataset_case(name, registry))
