"""The weights of folders that the library transformers wrote, each read when it is looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from zoo.checkpoint.tensors import LazyTensors
from zoo.errors import ConversionError
from zoo.interop.reasons import Reasons
from zoo.interop.source import Source
from zoo.interop.weights import WHOLE, read_tensor_file

SAFETENSORS, PICKLE = WHOLE

MOST_PARTS = 1_000
"""The most files of one checkpoint."""


class Weights(Mapping[str, Tensor]):
    """Tensors by name, each made when it is looked up.

    Args:
        makers: a function for each name.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Tensor]]) -> None:
        self.makers = makers

    def __getitem__(self, name: str) -> Tensor:
        return self.makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def open_weights(source: Source) -> Mapping[str, Tensor]:
    """Return the tensors of `model.safetensors` or `pytorch_model.bin`, also in parts.

    A tensor of a safetensors file is in memory only while it is used; a pickle is read whole.

    Raises:
        ConversionError: there is no such file, parts are missing, or a tensor is in two of them.
        CheckpointError: a file is damaged.
    """
    for name in (SAFETENSORS, PICKLE):
        if source.has(name):
            return _read(source, name)
        if source.has(f"{name}.index.json"):
            return _read_parts(source, f"{name}.index.json")
    raise ConversionError(
        f"{source} cannot be imported", f"it has neither {SAFETENSORS} nor {PICKLE}"
    )


def _read_parts(source: Source, index: str) -> Mapping[str, Tensor]:
    listed = source.json(index, 100_000_000).get("weight_map")
    names = sorted(set(map(str, listed.values()))) if isinstance(listed, dict) else []
    reasons = Reasons(f"{source} cannot be imported")
    reasons.check(0 < len(names) <= MOST_PARTS, f"{index} lists {len(names):,} files")
    for name in names[:MOST_PARTS]:
        reasons.check(source.has(name), f"it has no {name[:100]}")
    reasons.raise_if_any()
    makers: dict[str, Callable[[], Tensor]] = {}
    for name in names:
        part = _read(source, name)
        for tensor in part:
            reasons.check(tensor not in makers, f"{tensor[:100]} is in two files")
            makers[tensor] = _getter(part, tensor)
    reasons.raise_if_any()
    return Weights(makers)


def _getter(tensors: Mapping[str, Tensor], name: str) -> Callable[[], Tensor]:
    return lambda: tensors[name]


def _read(source: Source, name: str) -> Mapping[str, Tensor]:
    if name.endswith(".safetensors"):
        return LazyTensors(source.path(name))
    return read_tensor_file(source.path(name))
