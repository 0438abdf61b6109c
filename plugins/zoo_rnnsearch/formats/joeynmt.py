"""Import JoeyNMT's recurrent networks: RNNSearch with attention after the cell."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.interop import JoeyNMT, JoeyNMTImporter, Weight
from zoo_rnnsearch.cells import cell_shapes
from zoo_rnnsearch.config import RNNSearchConfig

STARTS = {"bridge": "top", "last": "last"}


class JoeyNMTRecurrent(JoeyNMTImporter):
    """Reads JoeyNMT's recurrent encoder and decoder."""

    architecture = "rnnsearch"
    config_type = RNNSearchConfig
    tensors = ("decoder.att_vector_layer.weight",)

    def config(self, joey: JoeyNMT) -> dict[str, Any]:
        """Return the configuration."""
        cell = joey.equal("rnn_type", "gru")
        joey.reasons.check(cell in ("gru", "lstm"), f"its rnn_type {cell!r} has no counterpart")
        attention = joey.get("decoder", "attention", "bahdanau")
        joey.reasons.check(
            attention in ("bahdanau", "luong"), f"its attention {attention!r} has no counterpart"
        )
        joey.reasons.check(
            joey.get("encoder", "bidirectional", True), "its encoder reads in one direction only"
        )
        joey.reasons.check(
            joey.get("decoder", "activation", "tanh") == "tanh", "its activation is not tanh"
        )
        hidden = joey.get("decoder", "hidden_size", 0)
        joey.reasons.check(
            not joey.tied or joey.source is joey.target,
            "its embeddings are tied, but the vocabularies differ",
        )
        tied = joey.get("", "tied_softmax", False) and not joey.embedding("decoder", "scale", False)
        return {
            "cell": cell,
            "layers": joey.get("encoder", "num_layers", 1),
            "decoder_layers": joey.get("decoder", "num_layers", 1),
            "directions": 2,
            "start": STARTS.get(str(joey.get("decoder", "init_hidden", "bridge")), "zero"),
            "embedding_dim": joey.embedding("encoder", "embedding_dim", 64),
            "target_embedding_dim": joey.embedding("decoder", "embedding_dim", 64),
            "encoder_dim": joey.get("encoder", "hidden_size", 1),
            "hidden_dim": hidden,
            "score": "additive" if attention == "bahdanau" else "general",
            "attention_dim": hidden if attention == "bahdanau" else None,
            "readout": "attentional",
            "readout_dim": hidden,
            "input_feeding": joey.get("decoder", "input_feeding", True),
            "share": {
                (True, True): "all",
                (True, False): "embeddings",
                (False, True): "target",
                (False, False): "none",
            }[joey.tied, bool(tied)],
            "dropout": joey.get("decoder", "dropout", 0.0),
        }

    def weights(self, joey: JoeyNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        state, made = joey.state, {}
        gates = 4 if config["cell"] == "lstm" else 3
        h, s = config["encoder_dim"], config["hidden_dim"]
        for layer in range(config["layers"]):
            below = 2 * h if layer else config["embedding_dim"]
            for end in ("", "_reverse"):
                for kind, shape in cell_shapes(gates, below, h).items():
                    name = f"rnn.{kind}_l{layer}{end}"
                    made[f"encoder.{name.removeprefix('rnn.')}"] = state.take(
                        f"encoder.{name}", *shape
                    )
        for layer in range(config["decoder_layers"]):
            below = config["target_embedding_dim"] + s * config["input_feeding"]
            for kind, shape in cell_shapes(gates, s if layer else below, s).items():
                made[f"decoder.{layer}.{kind}"] = state.take(f"decoder.rnn.{kind}_l{layer}", *shape)
        if config["start"] == "top":
            made["start.weight"] = state.take("decoder.bridge_layer.weight", s, 2 * h)
            made["start.bias"] = state.take("decoder.bridge_layer.bias", s)
        made["keys.weight"] = state.take("decoder.attention.key_layer.weight", s, 2 * h)
        if config["score"] == "additive":
            made["query.weight"] = state.take("decoder.attention.query_layer.weight", s, s)
            made["score"] = state.take("decoder.attention.energy_layer.weight", 1, s)[0]
        made["readout.weight"] = state.take("decoder.att_vector_layer.weight", s, s + 2 * h)
        made["readout.bias"] = state.take("decoder.att_vector_layer.bias", s)
        return {**made, **_embeddings(joey, config)}


def _embeddings(joey: JoeyNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
    state, size = joey.state, len(joey.target.tokens)
    made: dict[str, Weight] = {}
    name, other = "trg_embed.lut.weight", "src_embed.lut.weight"
    matrix = state.take(name, size, config["target_embedding_dim"])
    made["target_embedding.weight"] = joey.target.reorder(_scaled(joey, "decoder", matrix))
    if joey.tied:
        state.same(other, name)
    else:
        rows = state.take(other, len(joey.source.tokens), config["embedding_dim"])
        made["source_embedding.weight"] = joey.source.reorder(_scaled(joey, "encoder", rows))
    output = "decoder.output_layer.weight"
    if joey.get("", "tied_softmax", False):
        state.same(output, name)
    else:
        matrix = state.take(output, size, config["hidden_dim"])
    if config["share"] in ("none", "embeddings"):
        made["output.weight"] = joey.target.reorder(matrix)
    made["output.bias"] = torch.zeros(size, dtype=matrix.dtype)
    return made


def _scaled(joey: JoeyNMT, side: str, matrix: Tensor) -> Tensor:
    """Return an embedding, multiplied by the root of its width if JoeyNMT does so."""
    return matrix * matrix.shape[1] ** 0.5 if joey.embedding(side, "scale", False) else matrix
