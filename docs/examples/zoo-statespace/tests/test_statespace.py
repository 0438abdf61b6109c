"""The laws of the contract, and tests of this package's scan and dataset."""

import torch
from zoo.testing import conformance

from zoo_statespace import SPLITS, zoo_datasets
from zoo_statespace.network import scan

test_law = conformance("statespace")
test_law_of_one_layer = conformance("statespace", layers=1, states=3)


def test_scan_equals_the_recurrence() -> None:
    decay, inputs = torch.rand(4).double(), torch.randn(3, 11, 4).double()
    state, states = torch.zeros(3, 4).double(), []
    for new in inputs.unbind(1):
        state = decay * state + new
        states.append(state)
    assert torch.allclose(scan(decay, inputs), torch.stack(states, 1), atol=1e-12)


def test_splits_are_disjoint_and_targets_are_reversed_sources() -> None:
    (backwards,) = zoo_datasets()
    sources = [pair.source for split in SPLITS for pair in backwards.load(split)]
    assert len(set(sources)) == len(sources) == 10_000
    for source, target in backwards.load("test", 20):
        assert target.split() == source.split()[::-1]
