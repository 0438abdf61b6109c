"""The product with a weight matrix is torch's own, whatever it is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.product import linear


class Called(TorchDispatchMode):
    """Notes the names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("part", [slice(None), slice(5, None), slice(0, 8)])
def test_linear_is_torchs(part: slice) -> None:
    torch.manual_seed(1)
    whole, bias = torch.randn(7, 20), torch.randn(7)
    weight = whole[:, part]
    x = torch.randn(3, 2, weight.shape[1])
    with torch.no_grad():
        found: Tensor = linear(x, weight, bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, bias))


def test_part_of_a_matrix_is_left_to_torch() -> None:
    """oneDNN's product with a strided weight is a hundred times slower."""
    weight, x = torch.randn(7, 20), torch.randn(3, 15)
    with torch.no_grad(), Called() as called:
        linear(x, weight[:, 5:])
    assert not any("mkldnn" in name for name in called.names)
