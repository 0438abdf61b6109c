"""ONNX: every family gives the same logits and translations in onnxruntime."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from torch import Tensor, nn

from tests.interop.checkpoints import SOURCES, checkpoint
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.errors import ConversionError, DecodingError
from zoo.interop import onnx_export
from zoo.interop.exporter import export_checkpoint
from zoo.interop.onnx_weights import quantized
from zoo.nn import KeyValueCache, Seq2Seq
from zoo.nn.build import build
from zoo.registry.registry import default_registry
from zoo.testing import BrokenLawError, Case, case, exports_to_onnx
from zoo.translation.translator import Translator

FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {
        "share": "all", "encoder_layers": 1, "decoder_layers": 1, "dim": 64, "feedforward_dim": 256
    },
    "rnnsearch": {},
    "seq2seq": {},
    "convs2s": {"encoder": [(16, 3)], "decoder": [(16, 3), (12, 1)], "max_positions": 80},
}  # fmt: skip


@functools.cache
def of_family(name: str) -> Checkpoint:
    return checkpoint(name, **FAMILIES[name])


@pytest.fixture(scope="module", params=FAMILIES)
def made(request: pytest.FixtureRequest) -> Checkpoint:
    return of_family(request.param)


@pytest.fixture(autouse=True, scope="module")
def traced_once() -> Iterator[None]:
    """Trace each network once: tracing takes seconds, and every precision has the same graphs."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry  # slow to import

    traced = functools.cache(onnx_export.graphs)
    operators = functools.cache(ONNXRegistry.from_torchlib)  # read only, and the same each time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_export, "graphs", lambda *given: copy.deepcopy(traced(*given)))
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(operators))
        yield


@pytest.fixture(scope="module")
def engine(made: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator(made, engine="onnxruntime")


OPTIONS: list[dict[str, Any]] = [
    {}, {"beam": 4, "n_best": 3, "length_penalty": 0.7}, {"sample": True, "n_best": 2, "seed": 3},
    {"prefix": "ein", "repetition_penalty": 1.3},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_search_is_equal(
    made: Checkpoint, engine: Translator, options: dict[str, Any]
) -> None:
    expected = Translator(made).translate(SOURCES, details=True, **options)
    actual = engine.translate(SOURCES, details=True, **options)
    for both in zip(actual, expected, strict=True):
        # Of equal scores, rounding decides which is first.
        one, other = ({x.tokens: x.score for x in (y, *y.alternatives)} for y in both)
        assert one == pytest.approx(other, abs=1e-4)
        ranks = [[x.score for x in (y, *y.alternatives)] for y in both]
        assert ranks[0] == pytest.approx(ranks[1], abs=1e-4)


def test_attention_is_not_exported(engine: Translator) -> None:
    with pytest.raises(DecodingError, match="the exported step returns no attention"):
        engine.translate("birds", beam=2, coverage_penalty=0.2)


def test_int8_is_smaller_and_shared_weights_are_stored_once(tmp_path: Path) -> None:
    made = of_family("transformer")
    sizes = {}
    for precision in ("float32", "int8"):
        folder = tmp_path / precision
        export_checkpoint(made, "onnx", folder, default_registry(), precision)
        sizes[precision] = (folder / "weights.bin").stat().st_size
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "Opset: " in card
        assert f"| weights.bin | {sizes[precision]:,} |" in card
    large = [w for w in made.model.parameters() if w.numel() * 4 >= 1024]
    stored = sum(weight.numel() * 4 for weight in large)
    assert sizes["float32"] <= stored + 64 * len(large)
    assert sizes["int8"] < 0.5 * sizes["float32"]
    texts = Translator(made, engine="onnxruntime", precision="int8").translate(SOURCES)
    assert all(texts)


def test_int8_leaves_products_with_vectors() -> None:
    matrix, vector = np.eye(4, 3, dtype=np.float32), np.arange(3, dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "matrix"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "vector"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows"])],
        [numpy_helper.from_array(matrix, "matrix"), numpy_helper.from_array(vector, "vector")],
    )  # fmt: skip
    model = quantized(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert {w.name for w in model.graph.initializer} >= {"matrix_quantized", "vector"}
    session = InferenceSession(model.SerializeToString())
    x = np.array([[1, 0.5, -1, 2], [0, 1, 1, 0]], dtype=np.float32)
    (actual,) = session.run(None, {"x": x})
    assert actual == pytest.approx(x @ matrix @ vector, abs=0.05)


def test_a_network_gives_its_reasons(tmp_path: Path) -> None:
    made = checkpoint("rnnsearch", cell="gru-before", readout="maxout")
    with pytest.raises(ConversionError, match="cell is gru-before"):
        export_checkpoint(made, "onnx", tmp_path / "out", default_registry())
    exports_to_onnx(case("rnnsearch", cell="gru-before", readout="maxout"))


def test_reasons_may_be_any_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = checkpoint("rnnsearch")
    monkeypatch.setattr(made.model, "onnx_reasons", lambda: ("it reads two sources",))
    with pytest.raises(ConversionError, match="it reads two sources"):
        export_checkpoint(made, "onnx", tmp_path / "out", default_registry())


class Branching(nn.Module):
    """Depends on the values of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if bool(x.sum() > 1e9) else x


def test_the_law_breaks_for_a_network_that_looks_at_values() -> None:
    good = case("seq2seq", layers=1, cell="gru")

    class Wrong(cast("type[Any]", good.network)):  # type: ignore[misc]  # a class of the registry
        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            step = super().step(token, state, memory, attention)
            return step._replace(logits=Branching()(step.logits))

    network = cast("type[Seq2Seq]", Wrong)
    wrong = Case(network, good.config, good.model, good.source, good.mask, good.target)
    with pytest.raises(BrokenLawError, match="cannot be exported to ONNX"):
        exports_to_onnx(wrong)


def test_a_network_that_branches_on_the_parity_of_a_length_is_refused(tmp_path: Path) -> None:
    """torch traces one of the branches without a word."""
    good = case("seq2seq", layers=1, cell="gru")

    class Even(cast("type[Any]", good.network)):  # type: ignore[misc]  # a class of the registry
        def encode(self, source: Tensor, mask: Tensor, attention: bool = False) -> Any:
            if source.shape[1] % 2:
                source, mask = nn.functional.pad(source, (0, 1)), nn.functional.pad(mask, (0, 1))
            pairs = mask.unflatten(1, (-1, 2)).any(2)
            encoded = super().encode(source, mask, attention)
            return encoded._replace(memory=(encoded.memory, pairs))

        def init_state(self, memory: Any) -> Any:
            return super().init_state(memory[0])

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            step = super().step(token, state, memory[0], attention)
            return step._replace(logits=step.logits + memory[1].sum())

    network = cast("type[Seq2Seq]", Even)
    model = build(network, good.config, good.model.source_vocab, good.model.target_vocab).eval()
    message = r"to ONNX: sources of 2 tokens: \w+: .* running \w+ node\. Name:'\w+'\. See “Net"
    with pytest.raises(ConversionError, match=message):
        onnx_export.write_network(model, tmp_path, "float32")


def test_the_law_holds_for_a_memory_of_two_lengths_and_layers_of_gru_in_both_directions() -> None:
    """A step may read every token of the source, and of every eight tokens a vector."""
    good = case("rnnsearch", cell="gru", layers=2, start="final", encoder_dim=16)

    class Pooled(cast("type[Any]", good.network)):  # type: ignore[misc]  # a class of the registry
        def encode(self, source: Tensor, mask: Tensor, attention: bool = False) -> Any:
            encoded = super().encode(source, mask, attention)
            embedded = self.source_embedding(source)
            padded = nn.functional.pad(embedded.mT, (0, -source.shape[1] % 8))
            means = nn.functional.avg_pool1d(padded, 8).mT
            return encoded._replace(memory=(encoded.memory, means, mask[:, ::8], source, mask))

        def init_state(self, memory: Any) -> Any:
            return super().init_state(memory[0])

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            inner, means, mask_of_means, source, mask = memory
            step = super().step(token, state, inner, attention)
            read = means.masked_fill(~mask_of_means[..., None], -torch.inf).amax((1, 2))
            ids = source.clamp(max=step.logits.shape[1] - 1)
            rows = step.logits.unflatten(0, (len(mask), -1))
            copied = torch.zeros_like(rows).scatter_add(-1, ids[:, None], mask[:, None].float())
            return step._replace(logits=(rows + read[:, None, None] + copied).flatten(0, 1))

    network = cast("type[Seq2Seq]", Pooled)
    torch.manual_seed(1)
    model = build(network, good.config, good.model.source_vocab, good.model.target_vocab).eval()
    exports_to_onnx(Case(network, good.config, model, good.source, good.mask, good.target))


def test_the_law_holds_for_t5_whose_cache_begins_with_a_position() -> None:
    """A network may attend to keys that it has before the first token."""
    good = case("t5", encoder_layers=1, decoder_layers=1)

    class Started(cast("type[Any]", good.network)):  # type: ignore[misc]  # a class of the registry
        def init_state(self, memory: Any) -> KeyValueCache:
            state = KeyValueCache(len(memory.key_padding_mask)).extended()
            for layer, pair in enumerate(zip(memory.keys, memory.values, strict=True)):
                state.write(layer, *(part[:, :, :1] for part in pair))
            return state

    network = cast("type[Seq2Seq]", Started)
    exports_to_onnx(Case(network, good.config, good.model, good.source, good.mask, good.target))
