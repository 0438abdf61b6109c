"""Weights cached in a layout that makes products faster, for weights that do not change."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import onednn
from zoo.nn.kernel_structures import Packed
from zoo.nn.kernels import Kernels, kernels, product_kernels

Form = TypeVar("Form")
"""What a class caches for a weight."""


class CachedWeights(ABC, Generic[Form]):
    """Makes `linear` multiply by converted weights while it is active.

    A weight is converted when it is first used, and again if it was written to; the converted form
    lives as long as the weight. Only whole weights (`nn.Parameter`) are converted: slices, other
    tensors, and products that record gradients are computed as usual. torch does not count what is
    written into `weight.data`, or to a weight that was made in inference mode: such a weight is
    converted again only if it lies elsewhere in memory then.

    Args:
        prepare: what is applied to a weight before it is converted.
    """

    def __init__(self, prepare: Callable[[Tensor], Tensor] | None = None) -> None:
        self._prepare = prepare
        self._forms: dict[int, tuple[weakref.ref[Tensor], tuple[int, int], Form, Tensor]] = {}
        self.sublayers: dict[Any, Any] = {}  # what `sublayers.py` has prepared
        self.stacks: dict[Any, Any] = {}  # and what `stack_parts.py` has

    @contextmanager
    def activate(self, fixed: bool = False) -> Iterator[None]:
        """Use these weights inside the block, in this thread only.

        Args:
            fixed: whether no weight and no hook of a module changes inside the block, so that each
                sublayer needs to be checked only once.
        """
        tokens = ACTIVE.set(self), CHECKED.set({} if fixed else None)
        try:
            yield
        finally:
            ACTIVE.reset(tokens[0])
            CHECKED.reset(tokens[1])

    def supports(self, x: Tensor, weight: Tensor) -> bool:
        """Return whether the product of these two uses the cache."""
        entry = self._forms.get(id(weight))
        return (
            x.dtype is weight.dtype is torch.float32
            and x.is_cpu
            and weight.is_cpu
            # Another class, as of quantized weights, may have no memory of its own.
            and ((entry is not None and entry[0]() is weight) or type(weight) is nn.Parameter)
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
        )

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b for x (…, inputs)."""
        outputs, inputs = weight.shape
        is_usual = x.shape[-1] == inputs and (
            bias is None or (bias.shape == (outputs,) and bias.dtype is x.dtype and bias.is_cpu)
        )
        if not is_usual:  # torch refuses or broadcasts it; the kernels would read other memory
            return F.linear(x, weight, bias)
        return self.product(x, self.form(weight), None if bias is None else bias.contiguous())

    def form(self, weight: Tensor) -> Form:
        """Return the converted weight; convert it if it is new or was written to."""
        key = id(weight)
        current = version(weight), weight.data_ptr()
        entry = self._forms.get(key)
        if entry is None or entry[0]() is not weight or entry[1] != current:
            reference = weakref.ref(weight, lambda _: self._forms.pop(key, None))
            held = weight.detach()  # new data must not get the address of the old
            prepared = self._prepare(held) if self._prepare else held
            entry = self._forms[key] = reference, current, self.convert(prepared), held
        return entry[2]

    def packed(self, weight: Tensor) -> Packed | None:
        """Return the converted weight as the kernels read it, if they can."""
        return None

    def kernels_for(self, rows: int) -> Kernels | None:
        """Return the kernels if they multiply so many rows by these weights."""
        return product_kernels(rows)

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


class TransposedWeights(CachedWeights[Tensor]):
    """Float32 weights as Wᵀ, (inputs, outputs), in rows, for MKL's product of plain matrices.

    Where MKL uses all instructions, this is the fastest of torch's products with the few rows of a
    decoding step: on an Intel processor 1.15 times oneDNN's with 64 rows of 256 numbers, twice with
    16, and 6 times with one.
    """

    def convert(self, weight: Tensor) -> Tensor:
        """Return Wᵀ, contiguous."""
        return weight.t().contiguous()

    def product(self, x: Tensor, form: Tensor, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1])
        product = rows @ form if bias is None else torch.addmm(bias, rows, form)
        return product.view(*x.shape[:-1], product.shape[1])


class KernelWeights(CachedWeights[Packed]):
    """Float32 weights for the product of the kernels, which prefetches them.

    Those that float16 holds are kept in it; the product is the same.
    Beside MKL's it takes half to 0.9 of the time with up to 16 rows, and about the same with more.
    """

    def convert(self, weight: Tensor) -> Packed:
        """Return the weight as the kernels read it."""
        compiled = kernels()
        packed = None if compiled is None else compiled.pack(weight)
        assert packed is not None
        return packed

    def packed(self, weight: Tensor) -> Packed:
        """Return the converted weight."""
        return self.form(weight)

    def supports(self, x: Tensor, weight: Tensor) -> bool:
        """Return whether the product of these two uses the cache."""
        return (
            x.numel() > 0
            and super().supports(x, weight)
            and self.kernels_for(x.numel() // x.shape[-1]) is not None
        )

    def product(self, x: Tensor, form: Packed, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b."""
        compiled = kernels()
        assert compiled is not None
        rows = x.reshape(-1, form.k).contiguous()
        return compiled.product(rows, form, bias).view(*x.shape[:-1], form.n)


def version(x: Tensor) -> int:
    """Return how often a tensor was written to; 0 where torch does not count."""
    return 0 if x.is_inference() else x._version


def float32_weights(prepare: Callable[[Tensor], Tensor] | None = None) -> CachedWeights[Any]:
    """Return the cache of float32 weights whose products are the fastest on this processor.

    prepare: as of `CachedWeights`.
    """
    compiled, weight = kernels(), torch.zeros(1, 1, dtype=torch.float32, device="cpu")
    if compiled is not None and compiled.pack(weight) is not None:
        return KernelWeights(prepare)
    return TransposedWeights(prepare) if onednn.mkl_is_fast() else PackedWeights(prepare)


# Any: `linear` does not depend on the form that is cached.
ACTIVE: ContextVar[CachedWeights[Any] | None] = ContextVar("cached_weights", default=None)
"""The cache that `linear` uses in this thread."""

CHECKED: ContextVar[dict[Any, Any] | None] = ContextVar("checked_sublayers", default=None)
"""The sublayers that were checked in this block, if nothing changes in it."""
