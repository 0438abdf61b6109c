"""Tensors in safetensors files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from zoo.files import damaged, parse_json, read_bytes


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    file.write_bytes(safetensors.torch.save(plain))


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read safetensors into memory of their own.

    Raises:
        CheckpointError: the file is not whole.
    """
    read_header(file)
    try:
        # Not by memory map: a file cut short while it is mapped would end the process.
        return safetensors.torch.load(read_bytes(file))
    except (SafetensorError, KeyError, ValueError) as error:
        raise damaged(file, error) from None


HEADER_LIMIT = 25_000_000
"""The most bytes of a safetensors header: the Hub's own limit."""

TENSOR_LIMIT = 100_000
"""The most tensors in one file."""


WIDTHS = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2,
          "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}  # fmt: skip
"""The bytes of one number of each kind that safetensors knows."""


class TensorSpec(NamedTuple):
    """What a safetensors header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_header(file: Path) -> dict[str, TensorSpec]:
    """Return what the header of a safetensors file says, before any tensor is read.

    Raises:
        CheckpointError: the header is no JSON object of tensors, is too large, names one twice, or
            tells of other than all the bytes that follow it.
    """
    start = read_bytes(file, first=8)
    length = int.from_bytes(start, "little")
    if len(start) < 8:
        raise damaged(file, "it is cut short")
    if length > HEADER_LIMIT:
        raise damaged(file, f"its header has {length:,} bytes, and {HEADER_LIMIT:,} are the most")
    content = read_bytes(file, first=8 + length)
    try:
        header = parse_json(content[8:])
    except ValueError as error:
        raise damaged(file, error) from None
    if not isinstance(header, dict):
        raise damaged(file, "its header is not a JSON object")
    header.pop("__metadata__", None)
    if len(header) > TENSOR_LIMIT:
        raise damaged(file, f"it has {len(header):,} tensors, and {TENSOR_LIMIT:,} are the most")
    specs = {name: _spec(file, name, entry) for name, entry in header.items()}
    told = sum(WIDTHS[spec.dtype] * math.prod(spec.shape) for spec in specs.values())
    if told != file.stat().st_size - 8 - length:
        raise damaged(
            file,
            f"its header tells of {told:,} bytes, and {file.stat().st_size - 8 - length:,} follow",
        )
    return specs


def _spec(file: Path, name: str, entry: object) -> TensorSpec:
    fields = entry if isinstance(entry, dict) else {}
    shape, dtype = fields.get("shape"), fields.get("dtype")
    known = isinstance(dtype, str) and dtype in WIDTHS
    sizes: list[Any] = shape if isinstance(shape, list) and len(shape) <= 16 else [None]
    if not known or not all(type(n) is int and 0 <= n < 2**48 for n in sizes):
        raise damaged(file, f"its header says nothing clear of {name[:100]!r}")
    return TensorSpec(str(dtype), tuple(sizes))
