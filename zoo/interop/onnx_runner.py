"""The engine onnxruntime: the zoo's own search over an exported encoder and step."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.files import read_json
from zoo.interop.onnx_graphs import ENCODER, LAYOUT, STEP
from zoo.interop.runner import Runner, Sources
from zoo.nn.contract import Encoded, Step
from zoo.nn.tree import gather
from zoo.registry.imports import require

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

State = tuple[Tensor, ...]
"""The tensors of a state, rows on dimension 0."""


class Memory(NamedTuple):
    """The tensors of memory and of the initial state, rows on dimension 0."""

    parts: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]


class OnnxNetwork:
    """A network that is two ONNX graphs: what a search calls of a `Seq2Seq`.

    Args:
        encoder, step: the loaded graphs.
        layout: their inputs, as `zoo.json` lists them.
    """

    def __init__(
        self, encoder: InferenceSession, step: InferenceSession, layout: Mapping[str, Any]
    ) -> None:
        self.encoder, self.decoder = encoder, step
        self.memory: list[dict[str, Any]] = layout["memory"]
        self.state: list[dict[str, Any]] = layout["state"]
        # A graph that does not read an input has none of that name.
        self.inputs = {each.name for each in step.get_inputs()}
        self._wide = threading.local()

    def encode(self, source: Tensor, source_mask: Tensor) -> Encoded[Memory]:
        """Encode sources, (sentences, m), into memory."""
        feed = {"source": source.numpy(), "mask": source_mask.numpy()}
        names = {each.name for each in self.encoder.get_inputs()}
        feed = {name: value for name, value in feed.items() if name in names}
        results = tuple(torch.from_numpy(each) for each in self.encoder.run(None, feed))
        count = len(self.memory)
        given = iter(results[count:])
        initial = tuple(
            next(given) if leaf["initial"] else _empty(leaf, len(source)) for leaf in self.state
        )
        return Encoded(Memory(results[:count], initial))

    def init_state(self, memory: Memory) -> State:
        """Return the state before the first token."""
        return memory.initial

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row, (rows,), and predict the next."""
        parts = self._repeated(memory, len(token))
        feed = {"token": token.numpy()}
        for leaves, values in ((self.memory, parts), (self.state, state)):
            pairs = zip(leaves, values, strict=True)
            feed |= {leaf["name"]: value.numpy() for leaf, value in pairs}
        feed = {name: value for name, value in feed.items() if name in self.inputs}
        logits, *after = (torch.from_numpy(each) for each in self.decoder.run(None, feed))
        return Step(logits, tuple(after))

    def _repeated(self, memory: Memory, rows: int) -> tuple[Tensor, ...]:
        """Return the memory of each row; it is kept until another memory or width is asked for."""
        sentences = len(memory.parts[0])
        if rows == sentences:
            return memory.parts
        kept = getattr(self._wide, "value", None)
        if kept is None or kept[0] is not memory or kept[1] != rows:
            index = torch.arange(sentences, device="cpu").repeat_interleave(rows // sentences)
            kept = self._wide.value = (memory, rows, gather(memory.parts, index))
        wide: tuple[Tensor, ...] = kept[2]
        return wide


def load_network(folder: Path) -> OnnxNetwork:
    """Load an exported folder in onnxruntime, on the CPU; a call uses one thread.

    Raises:
        ConversionError: onnxruntime is not installed.
        CheckpointError: the folder's layout cannot be read.
    """
    require("onnxruntime", extra="onnx")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # its errors are raised too
    encoder, step = (
        onnxruntime.InferenceSession(
            str(folder / name), options, providers=["CPUExecutionProvider"]
        )
        for name in (ENCODER, STEP)
    )
    return OnnxNetwork(encoder, step, read_json(folder / LAYOUT))


def _empty(leaf: Mapping[str, Any], rows: int) -> Tensor:
    """Return a state's tensor without positions."""
    shape: Sequence[int] = [
        rows if axis == 0 else size if isinstance(size, int) else 0
        for axis, size in enumerate(leaf["shape"])
    ]
    return torch.empty(shape, dtype=getattr(torch, leaf["dtype"]), device="cpu")


class OnnxRuntime(Runner):
    """Runs a folder of the format `onnx`."""

    def __init__(self, network: OnnxNetwork) -> None:
        self.network = network

    @classmethod
    def load(cls, folder: Path, checkpoint: Checkpoint, threads: int) -> Self:
        """Load the graphs; each batch is computed by one thread."""
        return cls(load_network(folder))

    def reasons(self, options: Search) -> list[str]:
        """Return what needs attention: the graphs do not return it."""
        if options.coverage_penalty:
            return ["`--coverage-penalty`: the exported step returns no attention"]
        return []

    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis] | None]:
        """Search as the zoo does."""
        return [*search(sources.encoded(self.network), options)]
