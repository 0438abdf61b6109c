"""Read the tensors of foreign checkpoints: safetensors, torch's files and NumPy's archives.

Nothing is unpickled but tensors, and nothing is allocated for what a file only claims to hold.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch
from torch import Tensor

from zoo.checkpoint.tensors import open_tensors
from zoo.errors import CheckpointError, ConversionError
from zoo.files import damaged
from zoo.interop.pickles import RATIO, read_pickle
from zoo.interop.settings import brief

WHOLE = ("model.safetensors", "pytorch_model.bin")
"""The files that hold all tensors of a Hugging Face folder, the preferred one first."""

ADAPTER = "adapter_config.json"
"""The settings of an adapter, which the library adds to the weights."""

WEIGHT_FILES = (
    *WHOLE, *(f"{name}.index.json" for name in WHOLE), "*.safetensors", "*.bin", ADAPTER
)  # fmt: skip
"""Glob patterns of the files that `open_weights` looks at."""

ARRAY_LIMIT = 8_000_000_000
"""The largest array of an archive, in bytes."""

NUMBERS = frozenset(
    np.dtype(name)
    for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
)
"""The types of arrays that torch has too, apart from their byte order."""


def read_tensor_file(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, or else of one that `torch.save` wrote.

    Raises:
        ConversionError: torch's file contains anything but a dictionary of tensors.
        CheckpointError: the file is damaged.
    """
    if file.suffix == ".safetensors":
        with open_tensors(file) as opened:
            return opened.read()
    content = read_pickle(file, {})
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    ):
        raise ConversionError(f"{file} cannot be imported", "it is not a dictionary of tensors")
    return dict(content)


def read_npz(stream: Path | BinaryIO, where: str = "") -> dict[str, Tensor]:
    """Return the arrays of a NumPy archive (`.npz`) as tensors; no object is unpickled.

    Args:
        stream: the file, or an open one that can seek.
        where: what errors call it; by default the path.

    Raises:
        CheckpointError: it is not such an archive, or an array is damaged or not of numbers.
    """
    file = Path(where or str(stream))
    try:
        with zipfile.ZipFile(stream) as archive:
            size = sum(member.file_size for member in archive.infolist())
            packed = sum(member.compress_size for member in archive.infolist())
            length = _length(stream)
            if size > RATIO * min(packed, length) + 1_000_000:
                raise damaged(file, f"{length:,} bytes claim to hold {size:,}")
            return {
                name.removesuffix(".npy"): _read_array(archive, name, file)
                for name in _unique(archive.namelist(), file)
            }
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # zipfile and its decompressors raise whatever the bytes lead to
        raise damaged(file, str(error)[:200] or type(error).__name__) from None


def _length(stream: Path | BinaryIO) -> int:
    if isinstance(stream, Path):
        return stream.stat().st_size
    at = stream.seek(0, 1)
    end = stream.seek(0, 2)
    stream.seek(at)
    return end


def _unique(names: list[str], file: Path) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise damaged(file, f"{', '.join(twice[:5])} is there several times")
    return names


def _read_array(archive: zipfile.ZipFile, name: str, file: Path) -> Tensor:
    """Read one array after its header was compared with the bytes that are there."""
    size = archive.getinfo(name).file_size
    if size > ARRAY_LIMIT:
        raise damaged(file, f"{name} has {size:,} bytes; the limit is {ARRAY_LIMIT:,}")
    with archive.open(name) as member:
        try:
            version = np.lib.format.read_magic(member)
            first = version == (1, 0)
            header = np.lib.format.read_array_header_1_0 if first else (
                np.lib.format.read_array_header_2_0
            )  # fmt: skip
            shape, columns_first, dtype = header(member)
        except Exception as error:  # numpy evaluates the header as literals of Python
            reason = str(error)[:200] or type(error).__name__
            raise damaged(file, f"{name[:100]}: {reason}") from None
        if dtype.newbyteorder("=") not in NUMBERS:
            raise damaged(file, f"{name[:100]} is of type {str(dtype)[:100]}, not of numbers")
        content = member.read()
    sizes = all(type(length) is int and 0 <= length < 2**48 for length in shape[:17])
    if not sizes or len(shape) > 16 or math.prod(shape) * dtype.itemsize != len(content):
        what = f"{brief(shape)} of {dtype}"
        raise damaged(file, f"{name[:100]} is not {what}: it has {len(content):,} bytes")
    array = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))  # a copy, writable
    order: Literal["C", "F"] = "F" if columns_first else "C"
    return torch.from_numpy(np.ascontiguousarray(array.reshape(shape, order=order)))
