"""Two architectures from the literature, written with nothing but the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.examples.data import correct, train
from zoo import Dim, Table
from zoo.registry.registry import Registry
from zoo.testing import LAWS, Law, case

NAMES = ("modern", "luong")


@pytest.mark.sweep
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("name", NAMES)
def test_law(name: str, law: Law, networks: Registry) -> None:
    law(case(name, networks))


@pytest.mark.parametrize(("name", "steps"), [("modern", 80), ("luong", 120)])
def test_it_learns(name: str, steps: int, tmp_path: Path) -> None:
    out = train(f"{name}-small", tmp_path, steps)
    assert correct(out) == 1
    assert correct(out, beam=3, coverage_penalty=0.2) == 1


def test_rotary_positions_depend_on_distance_alone() -> None:
    from zoo_networks.rotary import rotate

    q, k = torch.randn(2, 1, 1, 5, 8).double().unbind(0)

    def products(start: int) -> torch.Tensor:
        positions = torch.arange(start, start + 5)
        return rotate(q, positions) @ rotate(k, positions).mT

    torch.testing.assert_close(products(0), products(37))
    assert not torch.allclose(products(0), q @ k.mT)


def test_a_weight_splits_into_unequal_parts() -> None:
    table, d = Table(), Dim("d", 6)
    table.split("project.weight", {"W_q": Dim("h d_h", 8), "W_k": Dim("g d_h", 4)}, (d,))
    table.split("bias", ("b_q", "b_k"), (d,))
    assert [(row.symbol, row.formula, row.shape, row.slice) for row in table] == [
        ("W_q", "h d_h × d", (8, 6), (0, 8)),
        ("W_k", "g d_h × d", (4, 6), (8, 12)),
        ("b_q", "d", (6,), (0, 6)),
        ("b_k", "d", (6,), (6, 12)),
    ]
