"""The law of exports, which is not among `LAWS`: it needs onnx, and takes seconds."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import torch

from zoo.errors import ConversionError
from zoo.interop.onnx_export import write_network
from zoo.interop.onnx_runner import load_network
from zoo.nn.contract import Seq2Seq
from zoo.testing.case import Case
from zoo.testing.law import BrokenLawError, law, require_close

TOLERANCE = 1e-4
"""Largest difference of a logit in float32."""


@law(
    causes="an `if` on a tensor's values; `int(…)`, `.item()` or a Python loop over the length of "
    "the source; state that is not in the tree; name what ONNX cannot express in `onnx_reasons`"
)
@torch.no_grad()
def exports_to_onnx(case: Case) -> None:
    """The network exports to ONNX, where it gives the same logits, or gives reasons why not."""
    if importlib.util.find_spec("onnxscript") is None:
        import pytest

        pytest.skip("needs onnx: pip install 'seq2seq-zoo[onnx]'")
    model = case.rebuild().float().eval()
    if model.onnx_reasons() or case.config.features:
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            write_network(model, folder, "float32", case.config.length_limits)
        except ConversionError as error:
            raise BrokenLawError(f"{error.what}: {error.why}") from None
        _require_equal(model, folder, case)


def _require_equal(model: Seq2Seq, folder: Path, case: Case) -> None:
    """Compare all steps of a batch, and of one sentence, with those of the network."""
    network = load_network(folder)
    for rows in (len(case.source), 1):
        width = int(case.mask[:rows].sum(1).amax())
        source, mask = case.source[:rows, :width], case.mask[:rows, :width]
        memory, exported = model.encode(source, mask).memory, network.encode(source, mask).memory
        state, state_of_graph = model.init_state(memory), network.init_state(exported)
        for position in range(case.target.shape[1]):
            token = case.target[:rows, position]
            step = model.step(token, state, memory)
            other = network.step(token, state_of_graph, exported)
            what = f"step {position} of the ONNX graph, with {rows} rows, differs from the network"
            require_close(other.logits, step.logits, what, TOLERANCE)
            state, state_of_graph = step.state, other.state
