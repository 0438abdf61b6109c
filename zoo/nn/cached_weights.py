"""Weights cached in a layout that makes products faster, for weights that do not change."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from zoo.nn import onednn

Form = TypeVar("Form")
"""What a class caches for a weight."""


class CachedWeights(ABC, Generic[Form]):
    """Makes `linear` multiply by converted weights while it is active.

    A weight is converted when it is first used, and again if it was written to; the converted form
    lives as long as the weight. Only whole weights (`nn.Parameter`) are converted: slices, other
    tensors, and products that record gradients are computed as usual.
    """

    def __init__(self) -> None:
        self._forms: dict[int, tuple[weakref.ref[Tensor], tuple[int, int], Form]] = {}

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Use these weights inside the block, in this thread only."""
        token = ACTIVE.set(self)
        try:
            yield
        finally:
            ACTIVE.reset(token)

    def supports(self, x: Tensor, weight: Tensor) -> bool:
        """Return whether the product of these two uses the cache."""
        return (
            isinstance(weight, nn.Parameter)
            and x.dtype == weight.dtype == torch.float32
            and x.device.type == weight.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
        )

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b for x (…, inputs)."""
        key = id(weight)
        version = 0 if weight.is_inference() else weight._version, weight.data_ptr()
        entry = self._forms.get(key)
        if entry is None or entry[0]() is not weight or entry[1] != version:
            reference = weakref.ref(weight, lambda _: self._forms.pop(key, None))
            entry = self._forms[key] = reference, version, self.convert(weight.detach())
        return self.product(x, entry[2], bias)

    @abstractmethod
    def convert(self, weight: Tensor) -> Form:
        """Return what to cache for a weight, (outputs, inputs)."""

    @abstractmethod
    def product(self, x: Tensor, form: Form, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b, given what `convert` returned for W."""


class PackedWeights(CachedWeights[Tensor]):
    """Float32 weights in oneDNN's layout, which oneDNN otherwise produces at every call.

    That conversion takes most of the time when a weight meets the few rows of a decoding step.
    """

    def supports(self, x: Tensor, weight: Tensor) -> bool:
        """Return whether the product of these two uses the cache."""
        return onednn.CAN_PACK and super().supports(x, weight) and onednn.supports(x, weight)

    def convert(self, weight: Tensor) -> Tensor:
        """Return the weight in oneDNN's layout."""
        return onednn.pack(weight)

    def product(self, x: Tensor, form: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        return onednn.product(x, form, bias)


# Any: `linear` does not depend on the form that is cached.
ACTIVE: ContextVar[CachedWeights[Any] | None] = ContextVar("cached_weights", default=None)
"""The cache that `linear` uses in this thread."""
