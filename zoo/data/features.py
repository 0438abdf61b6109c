"""Sequences of feature vectors as a source, such as speech or images, and files of them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, DataError

Array = npt.NDArray[np.float32]

SUFFIXES = (".npy", ".npz", ".safetensors")
LIMIT = 1 << 30
"""The most bytes of a sequence."""


class Features(str):
    """A sequence of feature vectors, which may stand wherever a source text may stand.

    As a text it is a name with a hash of the values.

    Args:
        values: (frames, dim) numbers, such as a numpy array or a torch tensor on the CPU.
        name: what it is called in samples and messages.

    Raises:
        DataError: the values are not finite numbers of that shape.
    """

    values: Array
    name: str

    def __new__(cls, values: Any, name: str = "features") -> Features:
        """Return the sequence; the values are copied to float32."""
        array = _checked(np.asarray(values), name)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        made = super().__new__(cls, f"{name} {array.shape[0]}×{array.shape[1]} {digest}")
        made.values, made.name = array, name
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Features, (self.values, self.name)


def read_features(file: Path) -> Array:
    """Return the one array of a `.npy`, `.npz` or `.safetensors` file, (frames, dim) float32.

    Nothing in the file is executed: arrays of Python objects are refused.

    Raises:
        DataError: there is no such file, it does not hold one array, or the array is not one of
            finite numbers of that shape.
    """
    if file.suffix not in SUFFIXES:
        kinds = ", ".join(SUFFIXES)
        raise DataError(f"cannot read features from {str(file)[:200]!r}", f"a name ends in {kinds}")
    if not file.is_file():
        raise DataError(f"there is no file {file}", "it should hold feature vectors")
    if file.stat().st_size > LIMIT:
        raise DataError(f"{file} is too large", f"a sequence has at most {LIMIT:,} bytes")
    try:
        array = _READERS[file.suffix](file)
    except DataError:
        raise
    except Exception as error:  # numpy and safetensors raise many types for damaged files
        raise DataError(f"{file} cannot be read", f"{error}"[:200]) from None
    return _checked(array, str(file))


def _npy(file: Path) -> npt.NDArray[Any]:
    # A mapped file cannot claim a larger array than it holds.
    return np.load(file, mmap_mode="r", allow_pickle=False)


def _npz(file: Path) -> npt.NDArray[Any]:
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > LIMIT:
            raise DataError(f"{file} is too large", f"unpacked, it has over {LIMIT:,} bytes")
    with np.load(file, allow_pickle=False) as arrays:
        return arrays[_only(file, arrays.files)]


def _safetensors(file: Path) -> npt.NDArray[Any]:
    from safetensors import safe_open

    with safe_open(file, framework="np") as tensors:
        return tensors.get_tensor(_only(file, list(tensors.keys())))


_READERS = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}


def _only(file: Path, names: list[str]) -> str:
    """Return the only name.

    Raises:
        DataError: there is none, or another.
    """
    if len(names) != 1:
        raise DataError(f"{file} does not hold one array", f"it holds {len(names)}")
    return names[0]


def _checked(array: npt.NDArray[Any], name: str) -> Array:
    """Return an array as (frames, dim) float32.

    Raises:
        DataError: it is not one, or not finite.
    """
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
        raise DataError(
            f"{name} is no sequence of feature vectors",
            f"it is an array of shape {array.shape} and type {array.dtype}",
            "Give numbers of shape (frames, dim), at least one of each",
        )
    values: Array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(values).all():
        raise DataError(f"{name} has values that are not finite", "")
    return values


class FeatureReader(Tokenizer):
    """Stands where a tokenizer of the source stands: its texts are `Features` or files of them.

    Args:
        dim: the numbers of each vector.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @classmethod
    def of_text(cls, text: str) -> FeatureReader:
        """Return the reader of vectors like those of a text.

        Raises:
            DataError: it is not `Features` or a file of them.
        """
        return cls(_values(text).shape[1])

    @classmethod
    def of_content(cls, content: Any, file: str) -> FeatureReader:
        """Return the reader that `to_json` describes.

        Raises:
            CheckpointError: it describes none.
        """
        dim = content.get("features") if set(content) == {"features"} else None
        if type(dim) is not int or not 0 < dim <= 1_000_000:
            raise CheckpointError(f"{file} does not describe features", "it must have their number")
        return cls(dim)

    @property
    def size(self) -> int:
        """The numbers of each vector: what a network gets in place of a vocabulary's size."""
        return self.dim

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's vectors, (frames, dim) float32 arrays in place of lists of ids.

        Raises:
            DataError: a text is not `Features` or a file of them, or has vectors of another size.
        """
        arrays = [_values(text) for text in texts]
        for text, array in zip(texts, arrays, strict=True):
            if array.shape[1] != self.dim:
                raise DataError(
                    f"{str(text)[:200]} has vectors of {array.shape[1]:,} numbers",
                    f"this model reads vectors of {self.dim:,}",
                )
        return cast("list[list[int]]", arrays)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the number of each frame, from 1."""
        return [f"▁{number}" for number in range(1, len(ids) + 1)]

    def vocabulary(self) -> list[str]:
        """Return nothing: there are no tokens."""
        return []

    def merges(self) -> list[tuple[str, str]]:
        """Raise ValueError: there are no merges."""
        raise ValueError("feature vectors have no merges")

    def to_json(self) -> str:
        """Return the size of the vectors as JSON."""
        return f'{{"features": {self.dim}}}'


def _values(text: str) -> Array:
    return text.values if isinstance(text, Features) else read_features(Path(text))
