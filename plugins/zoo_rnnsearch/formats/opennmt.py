"""Import OpenNMT-py's recurrent networks: RNNSearch with attention after the cell."""

from collections.abc import Mapping
from typing import Any

import torch

from zoo.interop import OpenNMT, OpenNMTImporter, Weight
from zoo_rnnsearch.cells import cell_shapes
from zoo_rnnsearch.config import RNNSearchConfig

CELLS = {"LSTM": "lstm", "GRU": "gru"}
SCORES = {"general": "general", "dot": "luong-dot", "mlp": "additive"}

REFUSED: dict[str, Any] = {
    "decoder_type": "rnn",
    "global_attention_function": "softmax",
    "coverage_attn": False,
    "context_gate": None,
    "position_encoding": False,
}
"""Settings that must have these values, or none."""


class OpenNMTRecurrent(OpenNMTImporter):
    """Reads OpenNMT-py's recurrent encoder and decoder."""

    architecture = "rnnsearch"
    config_type = RNNSearchConfig
    decoder = "rnn"
    tensors = (
        "decoder.attn.linear_out.weight", "decoder.rnn.layers.0.weight_ih",
        "decoder.rnn.weight_ih_l0",
        "decoder.linear.weight",  # of convolutions, which are refused by name
    )  # fmt: skip

    def config(self, onmt: OpenNMT) -> dict[str, Any]:
        """Return the configuration."""
        onmt.refuse(**REFUSED)
        reasons, width, layers = onmt.reasons, onmt.width, onmt.layers
        encoder, cell = onmt.get("encoder_type", "rnn"), onmt.get("rnn_type", "LSTM")
        attention, bridge = onmt.get("global_attention", "general"), onmt.get("bridge", False)
        directions = 2 if encoder == "brnn" or onmt.get("brnn", False) else 1
        reasons.check(
            encoder in ("rnn", "brnn"), f"its encoder_type {encoder!r} has no counterpart"
        )
        reasons.check(cell in CELLS, f"its rnn_type {cell!r} has no counterpart")
        reasons.check(attention in SCORES, f"its global_attention {attention!r} has no counterpart")
        reasons.check(
            layers[0] == layers[1],
            f"its encoder has {layers[0]} layers and its decoder {layers[1]}",
        )
        reasons.check(width % directions == 0, f"its width {width} is odd, for two directions")
        reasons.check(
            not (bridge and onmt.vocabularies.old and layers[0] > 1),
            "its bridge is of several layers and a version before 3, where it mixes the sentences "
            "of a batch",
        )
        return {
            "cell": CELLS.get(cell, "lstm"),
            "layers": layers[0],
            "directions": directions,
            "start": "joint" if bridge else "final",
            "embedding_dim": onmt.embedding_dims[0],
            "target_embedding_dim": onmt.embedding_dims[1],
            "encoder_dim": width // directions,
            "hidden_dim": width,
            "score": SCORES.get(attention, "general"),
            "attention_dim": width if attention == "mlp" else None,
            "attention_bias": attention == "mlp",
            "readout": "attentional",
            "readout_dim": width,
            "activation": "identity" if attention == "mlp" else "tanh",
            "input_feeding": bool(onmt.get("input_feed", 1)),
            "source_end": False,
            "share": onmt.share,
            "dropout": onmt.dropout,
        }

    def weights(self, onmt: OpenNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        state = onmt.state
        made: dict[str, Weight] = {}
        gates = 4 if config["cell"] == "lstm" else 3
        h, s = config["encoder_dim"], config["hidden_dim"]
        for layer in range(config["layers"]):
            below = s if layer else config["embedding_dim"]
            for end in ["", "_reverse"][: config["directions"]]:
                for kind, shape in cell_shapes(gates, below, h).items():
                    name = f"{kind}_l{layer}{end}"
                    made[f"encoder.{name}"] = state.take(f"encoder.rnn.{name}", *shape)
            below = s if layer else config["target_embedding_dim"] + s * config["input_feeding"]
            for kind, shape in cell_shapes(gates, below, s).items():
                fed = f"decoder.rnn.layers.{layer}.{kind}"  # a cell of its own for each layer
                name = fed if config["input_feeding"] else f"decoder.rnn.{kind}_l{layer}"
                made[f"decoder.{layer}.{kind}"] = state.take(name, *shape)
        if config["start"] == "joint":
            made |= _bridge(onmt, config)
        return {
            **made,
            **_attention(onmt, s),
            **onmt.embeddings(config, (config["target_embedding_dim"], s)),
        }


def _bridge(onmt: OpenNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
    """Return the maps of the final states; with two directions, they are two equal blocks.

    OpenNMT-py maps the first half of all states and the second half by one matrix, in the order of
    layers, and of directions in each layer.
    """
    made, total = {}, config["layers"] * config["encoder_dim"]
    names = ["start", "start_cell"] if config["cell"] == "lstm" else ["start"]
    for number, name in enumerate(names):
        weight = onmt.state.take(f"encoder.bridge.{number}.weight", total, total)
        bias = onmt.state.take(f"encoder.bridge.{number}.bias", total)
        made[f"{name}.weight"] = torch.block_diag(*[weight] * config["directions"])
        made[f"{name}.bias"] = torch.cat([bias] * config["directions"])
    return made


def _attention(onmt: OpenNMT, s: int) -> dict[str, Weight]:
    state, path = onmt.state, "decoder.attn"
    made: dict[str, Weight] = {}
    kind = onmt.get("global_attention", "general")
    if kind == "general":
        made["keys.weight"] = state.take(f"{path}.linear_in.weight", s, s).t().contiguous()
    elif kind == "mlp":
        made["keys.weight"] = state.take(f"{path}.linear_context.weight", s, s)
        made["keys.bias"] = state.take(f"{path}.linear_query.bias", s)
        made["query.weight"] = state.take(f"{path}.linear_query.weight", s, s)
        made["score"] = state.take(f"{path}.v.weight", 1, s)[0]
    context, top = state.take(f"{path}.linear_out.weight", s, 2 * s).split(s, 1)
    made["readout.weight"] = torch.cat([top, context], 1)
    if kind == "mlp":
        made["readout.bias"] = state.take(f"{path}.linear_out.bias", s)
    else:
        made["readout.bias"] = top.new_zeros(s)
    return made
