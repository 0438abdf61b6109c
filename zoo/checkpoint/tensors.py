"""Read and write tensors in safetensors files.

The header of a file is parsed once, with all of its checks, before memory for any tensor is
allocated. Each tensor is then read into separate memory. Files are not memory-mapped: a mapped
file that is truncated by another process would kill this one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from zoo.errors import CheckpointError
from zoo.files import damaged, open_regular, parse_json

HEADER_LIMIT = 25_000_000
"""The largest size of a safetensors header in bytes: the same limit as the Hub's."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a pointer of Git LFS begins, which stands for a file in a clone without its content."""

LFS_WHY = "it is a pointer of Git LFS, without the content"
LFS_NEXT = "Run `git lfs pull` in its folder"

TENSOR_LIMIT = 100_000
"""The largest number of tensors in one file."""

SIZE_LIMIT = 2**48
"""The sizes, the number of values and the offsets of a tensor are below it."""

PART = 2**20
"""How many values are checked at a time."""

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8,
    "I16": torch.int16, "U16": torch.uint16,
    "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "U32": torch.uint32,
    "F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U64": torch.uint64,
}  # fmt: skip
"""The data types that are read, by their names in safetensors; torch cannot compare eight bits."""

NOT_READ = ("F4", "F6", "F8", "C64")
"""How other types of safetensors begin: of quantized weights, and complex numbers."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TensorSpec(NamedTuple):
    """The header's entry for one tensor; `begin` is its first byte after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int

    @property
    def size(self) -> int:
        """The tensor's size in bytes."""
        return DTYPES[self.dtype].itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class TensorFile:
    """An open safetensors file whose header is parsed and checked."""

    file: Path
    specs: Mapping[str, TensorSpec]
    _stream: BinaryIO
    _start: int

    def read(self) -> dict[str, Tensor]:
        """Return all tensors, each in separate memory.

        Raises:
            CheckpointError: the file became shorter since it was opened, or there is not enough
                memory.
        """
        tensors = {}
        for name, spec in sorted(self.specs.items(), key=lambda item: item[1].begin):
            try:
                content = torch.empty(spec.size, dtype=torch.uint8, device="cpu")
            except RuntimeError:
                why = f"there are no {spec.size:,} bytes of memory for {name[:100]!r}"
                raise CheckpointError(f"{self.file} cannot be read", why) from None
            self._stream.seek(self._start + spec.begin)
            self._read_into(content.numpy().data)
            tensors[name] = content.view(DTYPES[spec.dtype]).view(spec.shape)
        return {name: tensors[name] for name in self.specs}

    def _read_into(self, memory: memoryview) -> None:
        done = 0
        while done < len(memory):  # one call reads two gigabytes at most
            count = self._stream.readinto(memory[done:])  # type: ignore[attr-defined]  # raw files
            if not count:
                raise damaged(self.file, "it became shorter while it was read")
            done += count


@contextlib.contextmanager
def open_tensors(file: Path) -> Iterator[TensorFile]:
    """Open a safetensors file and parse its header; no tensor is read yet.

    Raises:
        CheckpointError: the header is not a JSON object of tensors, is too large, has a duplicate
            name, or its tensors do not cover the bytes after it exactly once.
    """
    with open_regular(file) as stream:
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8:
            raise damaged(file, "it is truncated")
        if LFS_POINTER.startswith(start):
            raise CheckpointError(f"{file} cannot be read", LFS_WHY, LFS_NEXT)
        if length > HEADER_LIMIT:
            raise damaged(file, f"its header has {length:,} bytes; the limit is {HEADER_LIMIT:,}")
        specs = _parse_header(file, stream.read(length))
        _check_coverage(file, specs, os.fstat(stream.fileno()).st_size - 8 - length)
        yield TensorFile(file, specs, stream, 8 + length)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    Raises:
        CheckpointError: as `open_tensors`.
    """
    with open_tensors(file) as opened:
        return opened.read()


class LazyTensors(Mapping[str, Tensor]):
    """The tensors of a safetensors file, each read anew whenever it is looked up.

    Raises:
        CheckpointError: as `open_tensors`.
    """

    def __init__(self, file: Path) -> None:
        with open_tensors(file) as opened:
            self.file, self.specs, self._start = file, opened.specs, opened._start

    def __getitem__(self, name: str) -> Tensor:
        """Read a tensor.

        Raises:
            CheckpointError: the file became shorter since its header was read.
        """
        specs = {name: self.specs[name]}
        with open_regular(self.file) as stream:
            return TensorFile(self.file, specs, stream, self._start).read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)


def write_tensors(
    file: Path,
    tensors: Mapping[str, Tensor],
    like: Mapping[str, Tensor] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors as safetensors, one after the other.

    Args:
        file: the new file.
        tensors: each is looked up once, if `like` is given.
        like: tensors of the same shapes and types, such as on the device `meta`.
        metadata: texts for the header, such as the `format` that transformers 4.45 requires.
    """
    like = tensors if like is None else like
    order = list(NAMES)
    names = sorted(tensors, key=lambda name: (-order.index(like[name].dtype), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        size = like[name].numel() * like[name].dtype.itemsize
        header[name] = {
            "dtype": NAMES[like[name].dtype],
            "shape": list(like[name].shape),
            "data_offsets": [end, end + size],
        }
        end += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            content = tensors[name].detach().cpu().contiguous().resolve_neg()
            if (content.dtype, content.shape) != (like[name].dtype, like[name].shape):
                raise ValueError(f"{name} is not of the type and shape that its header states")
            stream.write(content.flatten().view(torch.uint8).numpy().data)
            del content  # before the next one is made


def is_finite(tensor: Tensor) -> bool:
    """Return whether all values are finite, looking at a part at a time to use little memory."""
    return all(bool(torch.isfinite(part).all()) for part in tensor.reshape(-1).split(PART))


def _parse_header(file: Path, content: bytes) -> dict[str, TensorSpec]:
    try:
        header = parse_json(content)
    except ValueError as error:
        raise damaged(file, error) from None
    if not isinstance(header, dict):
        raise damaged(file, "its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(v) is str for v in metadata.values()):
        raise damaged(file, "the __metadata__ of its header is not an object of strings")
    if len(header) > TENSOR_LIMIT:
        raise damaged(file, f"it has {len(header):,} tensors; the limit is {TENSOR_LIMIT:,}")
    return {name: _parse_spec(file, name, entry) for name, entry in header.items()}


def _parse_spec(file: Path, name: str, entry: object) -> TensorSpec:
    fields = entry if isinstance(entry, dict) else {}
    dtype = fields.get("dtype")
    shape, offsets = _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    known = isinstance(dtype, str) and dtype in DTYPES
    if isinstance(dtype, str) and not known:
        why = f"{name[:100]!r} is of type {dtype[:20]!r}, which is not read"
        if dtype.startswith(NOT_READ):
            raise CheckpointError(f"{file} cannot be read", why, "Use weights of 16 or 32 bits")
        raise damaged(file, why)
    if not known or shape is None or offsets is None or len(offsets) != 2:
        raise damaged(file, f"its header has no valid entry for {name[:100]!r}")
    if math.prod(filter(None, shape)) >= SIZE_LIMIT:  # also of an empty tensor: torch counts so
        raise damaged(file, f"the sizes of {name[:100]!r} are too large")
    spec = TensorSpec(str(dtype), shape, offsets[0])
    if offsets[1] - offsets[0] != spec.size:
        raise damaged(
            file, f"the offsets of {name[:100]!r} do not match its shape ({spec.size:,} bytes)"
        )
    return spec


def _sizes(value: object) -> tuple[int, ...] | None:
    """Return a list of sizes or offsets as a tuple; None if it is not one."""
    if not isinstance(value, list) or len(value) > 16:
        return None
    return tuple(value) if all(type(n) is int and 0 <= n < SIZE_LIMIT for n in value) else None


def _check_coverage(file: Path, specs: Mapping[str, TensorSpec], available: int) -> None:
    """Make sure that tensors follow each other without gap or overlap up to the end of the file."""
    described = sum(spec.size for spec in specs.values())
    if described != available:
        raise damaged(
            file, f"its header describes {described:,} bytes, and {available:,} bytes follow it"
        )
    end = 0
    for name, spec in sorted(specs.items(), key=lambda item: (item[1].begin, item[1].size)):
        if spec.begin != end:
            raise damaged(file, f"{name[:100]!r} overlaps another tensor, or a gap precedes it")
        end += spec.size
