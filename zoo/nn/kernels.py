"""Kernels in C for the CPU: optional, and compiled on this machine on request.

Without them everything is computed by torch's operators, with the same results but for rounding.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from zoo.errors import ZooError
from zoo.nn.kernel_library import compile_library, is_own, library_file
from zoo.nn.kernel_structures import COUNT, POINTER, Packed, Shape, Strides

WIDTH = 16
"""The width of an attention head must be a multiple: one or two vectors of the source."""

MAX_KEYS = 4096
"""The most keys of an attention."""

COLUMNS = 64
"""The outputs of packed weights are a multiple; what is missing are zeros."""

FEW_ROWS = 16
"""With more rows than this, a product is large enough for several threads, which torch has."""

FEW = 8
"""With more queries than this for the same keys, torch's batched product is faster."""

_SEVERAL = (*[POINTER] * 6, COUNT, COUNT, POINTER, COUNT, COUNT)
_SIGNATURES = {
    "zoo_quantize": (POINTER, COUNT, COUNT, POINTER, POINTER),
    "zoo_dequantize": (POINTER, COUNT, COUNT, *[POINTER] * 4),
    "zoo_add_norm": (*[POINTER] * 2, COUNT, COUNT, *[POINTER] * 2, ctypes.c_float, POINTER),
    "zoo_continue": (*[POINTER] * 3, COUNT, POINTER, *[COUNT] * 2, *[POINTER] * 3),
    "zoo_choose": (*[POINTER] * 4, COUNT, *[POINTER] * 10),
    "zoo_pack": (POINTER, COUNT, COUNT, POINTER), "zoo_pack_half": (POINTER, COUNT, COUNT, POINTER),
    "zoo_pack_bf16": (POINTER, COUNT, COUNT, POINTER),
    "zoo_pack_int8": (POINTER, COUNT, COUNT, POINTER, POINTER),
    "zoo_product": (POINTER, COUNT, POINTER, COUNT, POINTER),
    "zoo_store": (POINTER,) * 6, "zoo_select": (POINTER,) * 5,
    "zoo_attend": (*[POINTER] * 8, ctypes.c_float),
    "zoo_feedforward": (POINTER, POINTER, COUNT, POINTER),
    "zoo_attention": (*[POINTER] * 8, COUNT, POINTER),
    "zoo_decoder": (*[POINTER] * 6, COUNT, POINTER),
    "zoo_encoder": (POINTER,) * 5,
    "zoo_greedy": (*_SEVERAL, *[POINTER] * 3),
    "zoo_beam": (*_SEVERAL, *[POINTER] * 3, COUNT, *[POINTER] * 2),
    "zoo_cross_entropy": (
        POINTER, *[COUNT] * 3, POINTER, COUNT, ctypes.c_float, *[POINTER] * 2, ctypes.c_float,
        POINTER,
    ),
}  # fmt: skip


class Kernels:
    """The compiled functions, called with tensors."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, types in _SIGNATURES.items():
            getattr(library, name).argtypes = types
        self._quantize, self._dequantize = library.zoo_quantize, library.zoo_dequantize
        self._add_norm, self._continue = library.zoo_add_norm, library.zoo_continue
        self._pack, self._pack_half = library.zoo_pack, library.zoo_pack_half
        self._pack_bf16, self._pack_int8 = library.zoo_pack_bf16, library.zoo_pack_int8
        self._product = library.zoo_product
        self._store, self._select = library.zoo_store, library.zoo_select
        self._attend = library.zoo_attend
        self.has_tiles = bool(library.zoo_has_tiles())  # Intel's matrix unit, AMX
        # `choice.py`, `sublayers.py`, `stacks.py` and `losses.py` call these.
        self.choose, self.cross_entropy = library.zoo_choose, library.zoo_cross_entropy
        self.feedforward, self.attention = library.zoo_feedforward, library.zoo_attention
        self.decoder, self.encoder = library.zoo_decoder, library.zoo_encoder
        self.greedy, self.beam = library.zoo_greedy, library.zoo_beam

    def quantize(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows (n, k), contiguous, as int8, and the scale of each, (n, 1)."""
        count, k = rows.shape
        quantized = rows.new_empty(count, k, dtype=torch.int8)  # not torch's default dtype, device
        scales = rows.new_empty(count, 1)
        self._quantize(rows.data_ptr(), count, k, quantized.data_ptr(), scales.data_ptr())
        return quantized, scales

    def dequantize(
        self, sums: Tensor, scales: Tensor, weight_scales: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Return s_i c_ij w_j + b_j for sums c, (rows, n) int32, s (rows, 1), w and b (n,)."""
        rows, n = sums.shape
        result = scales.new_empty(rows, n)
        self._dequantize(
            sums.data_ptr(), rows, n, scales.data_ptr(), weight_scales.data_ptr(),
            None if bias is None else bias.data_ptr(), result.data_ptr(),
        )  # fmt: skip
        return result

    def pack(self, weight: Tensor) -> Packed | None:
        """Return what `product` reads of weights (n, k) in float32 or bfloat16.

        In float16 if that holds each number of float32, as of released checkpoints: the product is
        the same, and few rows wait half as long for memory. None if the processor lacks AVX2 or,
        for bfloat16, the instructions of AVX-512 for it or a row has an odd number of weights.
        """
        n, k = weight.shape
        rows = weight.contiguous()  # held: another thread could get the memory of a temporary copy
        is_wide = weight.dtype is torch.float32
        ways = [(rows, self._pack if is_wide else self._pack_bf16)]
        if is_wide and torch.equal((half := rows.half()).float(), rows):
            ways.insert(0, (half, self._pack_half))
        for numbers, pack in ways if is_wide or k % 2 == 0 else ():
            packed = numbers.new_empty(-(-n // COLUMNS) * COLUMNS * k)
            if pack(numbers.data_ptr(), n, k, packed.data_ptr()):
                return Packed(packed, None, None, n, k)
        return None

    def pack_int8(self, weight: Tensor, scales: Tensor) -> Packed | None:
        """Return what `product` reads of int8 weights (n, k), contiguous; None without AVX2."""
        n, k = weight.shape
        columns = -(-n // COLUMNS) * COLUMNS
        packed = weight.new_empty(columns * k)
        offsets = weight.new_zeros(columns, dtype=torch.int32)
        padded = scales.new_zeros(columns)
        padded[:n] = scales
        operands = weight.data_ptr(), n, k, packed.data_ptr(), offsets.data_ptr()
        is_done = k % 4 == 0 and self._pack_int8(*operands)
        return Packed(packed, offsets, padded, n, k) if is_done else None

    def product(self, rows: Tensor, weight: Packed, bias: Tensor | None) -> Tensor:
        """Return x Wᵀ + b for x (rows, k), contiguous; x is rounded to the weight's precision."""
        result = rows.new_empty(len(rows), weight.n)
        operand = ctypes.addressof(pointers := weight.with_bias(bias))
        if not self._product(rows.data_ptr(), len(rows), operand, 0, result.data_ptr()):
            raise MemoryError(f"no memory for {len(rows)} rows of {weight.k} numbers")
        del pointers
        return result

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return the norm of x + y, (…, d), both contiguous."""
        result = torch.empty_like(x)
        d = x.shape[-1]
        self._add_norm(
            x.data_ptr(), y.data_ptr(), x.numel() // d, d, norm.weight.data_ptr(),
            norm.bias.data_ptr(), norm.eps, result.data_ptr(),
        )  # fmt: skip
        return result

    def continuations(
        self,
        values: Tensor,
        score: Tensor,
        k: int,
        banned: Sequence[int],
        *,
        normalized: bool,
        none: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the k best continuations: score, parent and token, (sentences, k) each.

        What is missing has the score −inf, parent 0 and the token `none`. The other arguments are
        those of `best_continuations`, values and score float32 and contiguous.
        """
        (sentences, width), vocab = score.shape, values.shape[1]
        best = values.new_empty(sentences, k)
        parent = values.new_empty(sentences, k, dtype=torch.int64)
        token = torch.empty_like(parent)
        self._continue(
            values.data_ptr(), score.data_ptr(), (COUNT * 4)(sentences, width, vocab, k),
            normalized, (COUNT * len(banned))(*banned), len(banned), none, best.data_ptr(),
            parent.data_ptr(), token.data_ptr(),
        )  # fmt: skip
        return best, parent, token

    def store(self, new: tuple[Tensor, Tensor], to: tuple[Tensor, Tensor], position: int) -> None:
        """Write new keys and values, (sentences, heads, beam, d), at a position of their storage.

        The storage is (sentences, heads, positions, beam, d).
        """
        strides = [x.stride() for x in (*new, *to)]
        self._store(
            new[0].data_ptr(), new[1].data_ptr(),
            to[0].data_ptr() + 4 * position * strides[2][2],
            to[1].data_ptr() + 4 * position * strides[3][2], Shape(*new[0].shape),
            Strides(*strides[0][:3], *strides[1][:3], *strides[2][:2], strides[2][3],
                     *strides[3][:2], strides[3][3]),
        )  # fmt: skip

    def select(self, stored: Tensor, copy: Tensor, sentence: Tensor, origin: Tensor) -> None:
        """Copy stored keys or values of other rows.

        Args:
            stored: (…, heads, capacity, beam, d), contiguous.
            copy: where to, (sentences, heads, capacity, beam, d), contiguous.
            sentence: of each row in what is stored, (sentences × beam,), contiguous.
            origin: the hypothesis of its beam, (sentences × beam, positions), contiguous.
        """
        shape = (COUNT * 8)(*copy.shape, origin.shape[1], stored.shape[2], stored.shape[3])
        pointers = (x.data_ptr() for x in (sentence, origin))
        self._select(stored.data_ptr(), copy.data_ptr(), shape, *pointers)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Return softmax(q kᵀ / √d) v, (rows, heads, queries, d); operands as `few_queries`."""
        rows, heads, queries, d = query.shape
        result = query.new_empty(rows, queries, heads, d)
        of_mask = mask_strides(mask, rows, queries, key.shape[2])
        assert of_mask is not None
        strides = [x.stride()[:3] for x in (query, key, value)]
        self._attend(
            query.data_ptr(), key.data_ptr(), value.data_ptr(),
            None if mask is None else mask.data_ptr(), None, result.data_ptr(),
            Shape(rows, heads, queries, key.shape[2], d),
            Strides(*strides[0], *strides[1], *strides[2], *of_mask), d**-0.5,
        )  # fmt: skip
        return result.transpose(1, 2)


def compile_kernels() -> Path:
    """Compile the kernels, which this process and later ones load; return the library.

    Raises:
        ZooError: there is no compiler, it fails, or what it made cannot be loaded from where it is.
    """
    library = compile_library()
    kernels.cache_clear()
    try:
        _load()
    except (OSError, AttributeError, RuntimeError) as error:
        next = "Set ZOO_CACHE to a folder of yours from which programs may be run"
        if isinstance(error, RuntimeError):
            next = "Mount /proc"
        raise ZooError(f"{library} cannot be loaded", str(error).rstrip("!"), next) from None
    return library


@functools.cache
def kernels() -> Kernels | None:
    """Return the kernels if they have been compiled for this processor by this user."""
    try:
        return _load()
    except (OSError, AttributeError, RuntimeError):  # none, or damaged: it is optional
        return None


def _load() -> Kernels:
    """Load the library.

    Raises:
        OSError: there is none, others may write to it, or the system does not load it.
        AttributeError: a function is missing.
        RuntimeError: torch cannot convert packed weights: it needs /proc/cpuinfo for that.
    """
    library = library_file()
    for path in (library, library.parent):
        if not is_own(path):
            raise PermissionError(f"{path} is another user's, or others may write to it")
    torch.zeros(1).half()
    return Kernels(ctypes.CDLL(str(library)))


def product_kernels(rows: int) -> Kernels | None:
    """Return the kernels if one thread is enough for a product of so many rows."""
    return kernels() if rows <= FEW_ROWS or torch.get_num_threads() == 1 else None


def usable_kernels() -> Kernels | None:
    """Return the kernels if there are any, no gradients are recorded and nothing is compiled.

    Nor may there be hooks of all modules: a kernel calls none of those that it computes.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or _has_any_global_hook():
        return None
    return kernels()


def few_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
    """Return softmax(q kᵀ / √d) v, (rows, heads, n, d), for few queries; None if not supported.

    It is supported without gradients, in float32 on a CPU, once the kernels have been compiled.

    Args:
        query: (rows, heads, n, d), at most 8 queries, with d a multiple of 16.
        key, value: (rows, heads, m, d), at most 4,096 keys.
        mask: bool, True where a query must not attend to a key, (rows or 1, 1, n or 1, m); or
            (n, m), for all rows.
    """
    compiled = usable_kernels()
    if mask is not None and mask.dim() == 2:
        mask = mask[None, None]
    rows, heads, queries, d = query.shape
    length = key.shape[2]
    if (
        compiled is None
        or queries > FEW
        or d % WIDTH
        or not 0 < length <= MAX_KEYS
        or not key.shape == value.shape == (rows, heads, length, d)
        or not (is_plain(query) and is_plain(key) and is_plain(value))
        or mask_strides(mask, rows, queries, length) is None
    ):
        return None
    return compiled.attend(query, key, value, mask)


def mask_strides(mask: Tensor | None, rows: int, queries: int, keys: int) -> tuple[int, int] | None:
    """Return a mask's strides of rows and queries; None if the kernels cannot read it."""
    if mask is None:
        return 0, 0
    if mask.dim() != 4 or mask.dtype is not torch.bool or not mask.is_cpu or mask.stride(3) != 1:
        return None
    of_rows, of_heads, of_queries, of_keys = mask.shape
    if of_rows not in (1, rows) or of_heads != 1 or of_queries not in (1, queries):
        return None
    strides = mask.stride(0) if of_rows > 1 else 0, mask.stride(2) if of_queries > 1 else 0
    return strides if of_keys == keys else None


def is_plain(x: Tensor) -> bool:
    """Return whether a tensor is float32 on the CPU, with a last dimension of adjacent numbers."""
    return x.dtype is torch.float32 and x.is_cpu and x.stride(-1) == 1


def is_in_rows(x: Tensor) -> bool:
    """Return whether a tensor is float32 on the CPU, with all its numbers adjacent."""
    return is_plain(x) and x.is_contiguous()
