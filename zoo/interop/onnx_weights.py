"""The weights of several ONNX models in one file, each stored once; int8 by onnxruntime."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

WEIGHTS = "weights.bin"

SMALL = 1024
"""Tensors of fewer bytes stay in the models."""

ALIGNMENT = 64


def write_models(models: Mapping[str, ModelProto], folder: Path) -> None:
    """Write models by their file names; equal weights, or transposed ones, are stored once."""
    with (folder / WEIGHTS).open("wb") as stream:
        stored: dict[bytes, tuple[int, int]] = {}
        for model in models.values():
            _move_weights(model, stream, stored)
    for name, model in models.items():
        (folder / name).write_bytes(model.SerializeToString())


def _move_weights(
    model: ModelProto, stream: BinaryIO, stored: dict[bytes, tuple[int, int]]
) -> None:
    """Move a model's large tensors to the stream; `stored` has those that are there."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    transposes = []
    for tensor in list(graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.nbytes < SMALL:
            continue
        key = _key(array.tobytes(), array.shape, tensor.data_type)
        # Engines want quantized weights as they are.
        if array.ndim == 2 and key not in stored and tensor.data_type == TensorProto.FLOAT:
            turned = array.T
            other = _key(turned.tobytes(), turned.shape, tensor.data_type)
            if other in stored:
                name = tensor.name
                tensor.name, tensor.dims[:] = f"{name}_transposed", turned.shape
                node = helper.make_node("Transpose", [tensor.name], [name], perm=[1, 0])
                transposes.append(node)
                key = other
        if key not in stored:
            end = stream.seek(0, os.SEEK_END)
            stream.write(b"\0" * (-end % ALIGNMENT))
            stored[key] = end + -end % ALIGNMENT, array.nbytes
            stream.write(array.tobytes())
        _refer(tensor, *stored[key])
        tensor.data_location = TensorProto.EXTERNAL
    nodes = [*transposes, *graph.node]  # before the nodes that read them
    del graph.node[:]
    graph.node.extend(nodes)


def _key(content: bytes, shape: tuple[int, ...], kind: int) -> bytes:
    return hashlib.sha256(f"{shape}{kind}".encode() + content).digest()


def _refer(tensor: TensorProto, offset: int, length: int) -> None:
    """Replace a tensor's content by a reference to the file of weights."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data"):
        tensor.ClearField(field)
    del tensor.external_data[:]
    for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def quantized(model: ModelProto) -> ModelProto:
    """Return a model whose matrix products have weights in int8, by onnxruntime's quantizer.

    Each output has a scale of its own; inputs are quantized when the model runs. A product with a
    vector stays as it is: onnxruntime has none in int8.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    matrices = {weight.name for weight in model.graph.initializer if len(weight.dims) == 2}
    others = [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] not in matrices
    ]
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "quantized.onnx"
        quantize_dynamic(
            model, file, weight_type=QuantType.QInt8, per_channel=True,
            op_types_to_quantize=["MatMul", "Gather"], nodes_to_exclude=others,
        )  # fmt: skip
        return onnx.load(str(file))
