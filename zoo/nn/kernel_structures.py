"""What `kernels.c` reads: pointers to weights and to the parts of a network, and their sizes."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

POINTER, COUNT = ctypes.c_void_p, ctypes.c_int64
HALF = 3
"""The `size` of weights in float16, multiplied in float32; that of others is their bytes."""

Shape, Strides = COUNT * 5, COUNT * 12


class Weight(ctypes.Structure):
    """The `Weight` of the source: pointers to what `Packed` holds, and to a bias."""

    _fields_ = (
        ("packed", POINTER), ("offsets", POINTER), ("scales", POINTER), ("bias", POINTER),
        ("n", COUNT), ("k", COUNT), ("size", COUNT),
    )  # fmt: skip


class Sublayer(ctypes.Structure):
    """The `Sublayer` of the source: two weights, a norm, and whether it comes first."""

    _fields_ = (
        ("first", Weight), ("last", Weight), ("gamma", POINTER), ("beta", POINTER),
        ("epsilon", ctypes.c_float), ("pre", ctypes.c_int32),
    )  # fmt: skip


class Scope(ctypes.Structure):
    """The `Scope` of the source: what the attentions of all layers read."""

    _fields_ = (("shape", Shape), ("strides", COUNT * 8), ("mask", POINTER), ("slots", POINTER))


class Layer(ctypes.Structure):
    """The `Layer` of the source: the sublayers of a decoder layer."""

    _fields_ = (("attention", Sublayer), ("cross", Sublayer), ("feedforward", Sublayer))


class Stack(ctypes.Structure):
    """The `Stack` of the source: an encoder or a decoder."""

    _fields_ = (
        ("embedding", POINTER), ("gamma", POINTER), ("beta", POINTER),
        ("layers", ctypes.POINTER(Layer)), ("outputs", ctypes.POINTER(Weight)),
        ("vocab", COUNT), ("layer_count", COUNT), ("output_count", COUNT),
        ("factor", ctypes.c_float), ("epsilon", ctypes.c_float),
    )  # fmt: skip


class Packed(NamedTuple):
    """A weight (n, k) as `product` reads it; in int8 with offsets and scales of its n outputs."""

    weight: Tensor
    offsets: Tensor | None
    scales: Tensor | None
    n: int
    k: int

    def with_bias(self, bias: Tensor | None) -> Weight:
        """Return the pointers; the tensors must live as long as they are used."""
        parts = (self.weight, self.offsets, self.scales, bias)
        pointers = (None if x is None else x.data_ptr() for x in parts)
        is_half = self.weight.dtype is torch.float16
        return Weight(*pointers, self.n, self.k, HALF if is_half else self.weight.element_size())
