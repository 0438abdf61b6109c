"""The weights of folders that the library transformers wrote, each read when it is looked up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from zoo.checkpoint.format import unread
from zoo.checkpoint.tensors import LazyTensors
from zoo.errors import ConversionError
from zoo.interop.reasons import Reasons
from zoo.interop.source import Source
from zoo.interop.weights import ADAPTER, WHOLE, read_tensor_file

MOST_PARTS = 1_000
"""The most files of one checkpoint."""

INDEX = ".index.json"
PART = re.compile(r"-\d{5}-of-\d{5}(\.\w+)$")
"""The end of the name of a file that an index lists."""

ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", INDEX)
"""Of files that are weights: of another file that is named, the weights of its folder are read."""


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

    If the source is a file of weights, the tensors are those of this one. One of a safetensors file
    is in memory only while it is used; a pickle is read whole.

    Raises:
        ConversionError: there is no such file, a file contains more than tensors, an index does
            not agree with its files, or an adapter is to be added; lists all reasons.
        CheckpointError: a file is damaged.
    """
    if source.has(ADAPTER):
        raise ConversionError(
            f"{source} cannot be imported",
            f"it has an adapter, whose weights are apart ({ADAPTER})",
            "Merge it into the network with peft, and remove its files",
        )
    names = [each for whole in WHOLE for each in (whole, f"{whole}{INDEX}")]
    if source.file is not None and source.file.name.endswith(ENDINGS):
        names = [PART.sub(rf"\1{INDEX}", source.file.name), source.file.name]
    for name in names:
        if source.has(name):
            return _read_parts(source, name) if name.endswith(INDEX) else _read(source, name)
    fault, following = source.fault()
    why = fault or unread(source.names) or f"it has neither {' nor '.join(WHOLE)}"
    raise ConversionError(f"{source} cannot be imported", f"it has no weights: {why}", following)


def _read_parts(source: Source, index: str) -> Mapping[str, Tensor]:
    """Return the tensors of all files that an index lists."""
    listed = source.json(index).get("weight_map")
    reasons = Reasons(f"{source} cannot be imported")
    if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
        raise ConversionError(reasons.what, f"the weight_map of {index} is not an object of names")
    names = sorted(set(listed.values()))
    reasons.check(0 < len(names) <= MOST_PARTS, f"{index} lists {len(names):,} files")
    for name in names[:MOST_PARTS]:
        try:
            source.path(name)
        except ConversionError as error:
            reasons.add(error.why)
    reasons.raise_if_any()
    makers: dict[str, Callable[[], Tensor]] = {}
    for name in names:
        part = _read(source, name)
        for tensor in sorted(part):
            reasons.check(tensor not in makers, f"{tensor[:100]} is in several files")
            reasons.check(tensor in listed, f"{tensor[:100]} is in {name} and not in {index}")
            makers[tensor] = _getter(part, tensor)
    for tensor in sorted(listed.keys() - makers.keys()):
        reasons.add(f"{tensor[:100]} is in {index} and not in {listed[tensor][:100]}")
    reasons.raise_if_any()
    return Weights(makers)


def _getter(tensors: Mapping[str, Tensor], name: str) -> Callable[[], Tensor]:
    return lambda: tensors[name]


def _read(source: Source, name: str) -> Mapping[str, Tensor]:
    if name.endswith(".safetensors"):
        return LazyTensors(source.path(name))
    return read_tensor_file(source.path(name))
