"""The named tensors of a foreign checkpoint, with every fault collected."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor

from zoo.checkpoint.tensors import is_finite
from zoo.interop.reasons import Reasons


def check_weight(
    value: object, name: str, shape: tuple[int, ...], reasons: Reasons, *, single: bool = False
) -> TypeGuard[Tensor]:
    """Check that a value is a tensor of a shape, of finite floating-point numbers.

    Args:
        value: what is stored under `name`, or None.
        reasons: where a fault goes.
        single: whether float64 that float32 would round is a fault.

    Returns:
        Whether it is one.
    """
    if value is None:
        fault = "is missing"
    elif not isinstance(value, Tensor):
        fault = "is not a tensor"
    elif value.shape != shape:
        fault = f"is {tuple(value.shape)}, not {shape}"
    elif not value.is_floating_point():
        fault = f"is of type {str(value.dtype).removeprefix('torch.')}"
    elif not is_finite(value):
        fault = "holds values that are not finite"
    elif single and value.dtype == torch.float64 and not torch.equal(value.float().double(), value):
        fault = "is of type float64 and not exact in float32"
    else:
        return True
    reasons.add(f"{name} {fault}")
    return False


class StateDict:
    """Takes tensors by name and shape, and records what is missing, wrong or left over.

    Args:
        tensors: the tensors by name; anything else among the values is a fault.
        reasons: where faults go.
    """

    single: ClassVar[bool] = False
    """Whether float64 that float32 would round is a fault."""

    def __init__(self, tensors: Mapping[str, Any], reasons: Reasons) -> None:
        self.tensors, self.reasons = tensors, reasons
        self.taken: set[str] = set()
        self.stored = sum(t.numel() for t in tensors.values() if isinstance(t, Tensor))

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a tensor as float32, or as float64 if it is stored so.

        A fault is recorded if it is missing, has another shape, or is not finite; zeros of the
        shape are returned, so that all other faults are found as well.

        Raises:
            ConversionError: there is a fault, and the shape has more numbers than all tensors
                together: what a caller makes of such zeros could fill the memory.
        """
        self.taken.add(name)
        tensor = self.tensors.get(name)
        if check_weight(tensor, name, shape, self.reasons, single=self.single):
            tensor = tensor.detach()
            return tensor if tensor.dtype == torch.float64 else tensor.float()
        if math.prod(shape) > self.stored:
            self.reasons.raise_if_any()
        return torch.zeros(()).expand(shape)

    def size(self, name: str, dimension: int) -> int:
        """Return a dimension of a tensor, or 0 if there is no such tensor or dimension."""
        tensor = self.tensors.get(name)
        if not isinstance(tensor, Tensor) or tensor.dim() <= dimension:
            return 0
        return tensor.shape[dimension]

    def same(self, name: str, other: str) -> None:
        """Take `name`, which must equal `other` if it is stored at all: the two are tied."""
        if name in self.tensors:
            self.taken.add(name)
            one, two = self.tensors[name], self.tensors.get(other)
            equal = isinstance(one, Tensor) and isinstance(two, Tensor) and torch.equal(one, two)
            self.reasons.check(equal, f"{name} and {other} should be tied but differ")

    def ignore(self, *patterns: str) -> None:
        """Take all tensors that match the patterns: they have no effect."""
        for pattern in patterns:
            self.taken |= set(fnmatch.filter(self.tensors, pattern))

    def finish(self) -> None:
        """Record every tensor that was not taken."""
        for name in self.tensors:
            if name not in self.taken:
                self.reasons.add(f"{name} is not a tensor of this network")
