"""Export any network to ONNX: an encoder, one step of the decoder, and their weights, once."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.export import Dim

from zoo.checkpoint.checkpoint import Checkpoint, write_tokenizers
from zoo.checkpoint.format import TOKENIZER_FILES
from zoo.errors import ConversionError
from zoo.files import read_json, write_json
from zoo.interop.export_card import export_card
from zoo.interop.exporter import Exporter
from zoo.interop.onnx_graphs import (
    ENCODER,
    LAYOUT,
    LONG,
    STEP,
    EncoderGraph,
    Example,
    Layout,
    StepGraph,
    example,
    layout,
    within,
)
from zoo.interop.onnx_runner import OnnxNetwork, load_network
from zoo.interop.onnx_weights import WEIGHTS, quantized, write_models
from zoo.nn.contract import Seq2Seq
from zoo.nn.padded import onnx_layer
from zoo.nn.tree import Tree, tensors
from zoo.registry.imports import require
from zoo.registry.parameters import LengthLimits

if TYPE_CHECKING:
    from onnx import ModelProto

LOGGERS = ("root", "torch", "torch.onnx", "onnxscript", "onnx_ir")
"""Loggers of the exporter and of onnxruntime's quantizer."""

COLOR = re.compile("\x1b\\[[0-9;]*m")
INTERNAL = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : | Status Message: .*", re.DOTALL)
"""What onnxruntime says of itself: a number, and where in its own code a node has failed."""

NO_LIMITS = LengthLimits()

FAILED = "the network cannot be exported to ONNX"
HINT = "See “Networks that export” in docs/export.md"

CHECKED = ((1, 2, 3), (1, 7, 3), (2, 4, 3), (3, 6, 3), (3, 8, 3), (2, LONG, 20))
"""Numbers of sources, their lengths, and steps for which an exported network is compared."""

TOLERANCE = 1e-3
"""Largest difference of a logit in float32, relative to the largest logit."""


class Onnx(Exporter):
    """Writes `encoder.onnx`, `step.onnx`, `weights.bin` and `zoo.json`, for every architecture."""

    precisions: ClassVar[tuple[str, ...]] = ("float32", "int8")
    version: ClassVar[int] = 3
    files: ClassVar[tuple[str, ...]] = (ENCODER, STEP, LAYOUT, WEIGHTS, *TOKENIZER_FILES)

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return the network's own reasons; what its code prevents shows when it is written."""
        features = ["its source is feature vectors"] * checkpoint.config.features
        return [*features, *checkpoint.model.onnx_reasons()]

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the graphs.

        Raises:
            ConversionError: a package is missing, or the network cannot be traced.
        """
        write_network(checkpoint.model, folder, precision, checkpoint.config.length_limits)
        write_tokenizers(checkpoint, folder)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the opset and what the graphs read."""
        notes = (
            f"Opset: {read_json(folder / LAYOUT)['opset']}",
            "`encoder.onnx` reads `source`, (rows, source) int64, and `mask`; it returns the "
            "memory and the initial state",
            "`step.onnx` reads `token`, (rows,) int64, memory and state; it returns `logits` and "
            "the next state. `zoo.json` lists their shapes; a state without initial value is empty",
        )
        return export_card(checkpoint, folder, precision, notes, "onnx")


def write_network(
    model: Seq2Seq, folder: Path, precision: str, limits: LengthLimits = NO_LIMITS
) -> None:
    """Write a network's graphs, their weights, and the layout of their inputs.

    Args:
        model: the network.
        folder: where to.
        precision: of the weights.
        limits: the most tokens that it reads and writes.

    Raises:
        ConversionError: a package is missing, the network cannot be traced, or its graphs give
            other logits for sources of other lengths.
    """
    require("onnx", "onnxscript", "onnxruntime", extra="onnx")
    inputs, models = graphs(model, limits.source)
    small = {}
    if precision == "int8":  # before the weights are moved out of the models
        with _quiet():
            small = {name: quantized(graph) for name, graph in models.items()}
    opset = max(each.version for each in models[STEP].opset_import if not each.domain)
    write_json(folder / LAYOUT, {"format": 1, "opset": opset, **as_json(inputs)})
    write_models(models, folder)
    _compare(model, folder, limits)
    if small:
        write_models(small, folder)


def _compare(model: Seq2Seq, folder: Path, limits: LengthLimits) -> None:
    """Compare the float32 graphs in a folder with the network, for sources of several lengths.

    A tracer follows one branch of an `if` on a length, and does not always say so.

    Raises:
        ConversionError: the graphs fail, or give other logits.
    """
    network = load_network(folder)
    for rows, length, steps in CHECKED:
        length = within(limits.source, length)
        steps = within(limits.target and limits.target - 1, steps)
        try:
            equal = _equal(model, network, example(model, rows, length, 0), steps)
        except Exception as error:  # onnxruntime raises many kinds
            why = _cause(error)
        else:
            if equal:
                continue
            why = "the graph gives other logits than the network"
        raise ConversionError(FAILED, f"sources of {length} tokens: {why}", HINT)


@torch.no_grad()
def _equal(model: Seq2Seq, network: OnnxNetwork, made: Example, steps: int) -> bool:
    """Return whether so many steps of the graphs give the network's logits."""
    memory = network.encode(made.source, made.mask).memory
    state, state_of_graph, token = made.state, network.init_state(memory), made.token
    for _ in range(steps):
        logits, state, _ = model.step(token, state, made.memory)
        other, state_of_graph, _ = network.step(token, state_of_graph, memory)
        scale = logits[logits.isfinite()].abs().amax().clamp(min=1).item()
        if not torch.allclose(other, logits, rtol=0, atol=TOLERANCE * scale):
            return False
        token = logits.argmax(1)
    return True


def as_json(inputs: Layout) -> dict[str, Any]:
    """Return a layout as values for JSON."""
    return {
        kind: [
            {
                "name": leaf.name,
                "shape": list(leaf.shape),
                "dtype": str(leaf.dtype).removeprefix("torch."),
                "initial": leaf.initial,
            }
            for leaf in leaves
        ]
        for kind, leaves in inputs._asdict().items()
    }


def graphs(model: Seq2Seq, limit: int | None = None) -> tuple[Layout, dict[str, ModelProto]]:
    """Return a network's inputs, and its two graphs by their file names.

    Args:
        model: the network.
        limit: the most tokens of a source, if there is a limit.

    Raises:
        ConversionError: the network cannot be traced.
    """
    inputs = layout(model, limit)
    made = example(model, 3, within(limit, LONG), 2)  # a dimension of one would be fixed
    rows, source = Dim.DYNAMIC, Dim.DYNAMIC
    of_memory, of_state = (
        [{axis: Dim.DYNAMIC for axis, size in enumerate(leaf.shape) if isinstance(size, str)}
         for leaf in leaves]
        for leaves in inputs
    )  # fmt: skip
    memory, state = (leaf.name for leaf in inputs.memory), (leaf.name for leaf in inputs.state)
    names = [*memory], [*state]
    initial = [f"initial_{name}" for leaf, name in zip(inputs.state, names[1], strict=True)
               if leaf.initial]  # fmt: skip
    encoder = _traced(
        EncoderGraph(model),
        (made.source, made.mask),
        ({0: rows, 1: source}, {0: rows, 1: source}),
        (["source", "mask"], [*names[0], *initial]),
    )
    step = _traced(
        StepGraph(model, made.memory, made.state),
        (made.token, _copies(made.memory), _copies(made.state)),
        ({0: rows}, of_memory, of_state),
        (["token", *names[0], *names[1]], ["logits", *(f"next_{name}" for name in names[1])]),
    )
    return inputs, {ENCODER: encoder, STEP: step}


def _copies(tree: Tree) -> list[Tensor]:
    """Return copies of a tree's tensors: torch guards the base of a view, which no input is."""
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors(tree)]


def _traced(
    graph: nn.Module, inputs: tuple[Any, ...], shapes: tuple[Any, ...], names: tuple[list[str], ...]
) -> ModelProto:
    """Return a module as an ONNX model.

    Raises:
        ConversionError: it cannot be traced, because it depends on values or fixes a dimension.
    """
    torch.compiler.allow_in_graph(onnx_layer)
    try:
        with torch.no_grad(), _quiet():
            # strict: `len(tensor)` is a dynamic dimension there, and a constant otherwise.
            program = torch.export.export(graph.eval(), inputs, dynamic_shapes=shapes, strict=True)
            exported = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=names[0], output_names=names[1]
            )
    except Exception as error:  # torch raises many kinds, private ones too
        raise ConversionError(FAILED, _cause(error), HINT) from error
    assert exported is not None
    return exported.model_proto


def _cause(error: BaseException) -> str:
    """Return the first line that says why: of the innermost cause, without noise."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    lines = [line.strip() for line in INTERNAL.sub("", COLOR.sub("", str(error))).splitlines()]
    return f"{type(error).__name__}: {next(filter(None, lines), '')[:300]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ignore the exporter's warnings and messages: about torchvision, and its own code.

    What prevents an export is raised as an error.
    """
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
