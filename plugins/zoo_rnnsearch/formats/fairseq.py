"""Import fairseq's `lstm`: RNNSearch with the score general, attention after the cell and feeding.

The decoder begins with the end token, so the begin token of the target gets its embedding. The
output layer keeps the row of fairseq's own begin token, and is stored apart from the embedding.
"""

from collections.abc import Mapping
from typing import Any

import torch

from zoo.interop import Fairseq, FairseqImporter, Weight
from zoo_rnnsearch.cells import cell_shapes
from zoo_rnnsearch.config import RNNSearchConfig


class FairseqLSTM(FairseqImporter):
    """Reads fairseq's `lstm`."""

    architecture = "rnnsearch"
    config_type = RNNSearchConfig
    tensors = ("encoder.lstm.weight_ih_l0",)

    def config(self, fairseq: Fairseq) -> dict[str, Any]:
        """Return the configuration."""
        reasons = fairseq.reasons
        criterion = fairseq.get("criterion", "")
        adaptive = "decoder.adaptive_softmax.head.weight" in fairseq.state
        reasons.check(
            not adaptive and criterion != "adaptive_loss", "its adaptive softmax has no counterpart"
        )
        reasons.check(
            fairseq.get("decoder_attention", True),
            "it has no attention: decoder_attention is false",
        )
        layers = fairseq.get("encoder_layers", 1)
        reasons.check(
            layers == fairseq.get("decoder_layers", 1), "its encoder and decoder differ in layers"
        )
        directions = 2 if fairseq.get("encoder_bidirectional", False) else 1
        encoder = fairseq.get("encoder_hidden_size", fairseq.get("encoder_embed_dim", 512))
        hidden = fairseq.get("decoder_hidden_size", fairseq.get("decoder_embed_dim", 512))
        out = fairseq.get("decoder_out_embed_dim", 512)
        return {
            "cell": "lstm",
            "layers": layers,
            "directions": directions,
            "start": "final" if directions * encoder == hidden else "projected",
            "embedding_dim": fairseq.get("encoder_embed_dim", 512),
            "target_embedding_dim": fairseq.get("decoder_embed_dim", 512),
            "encoder_dim": encoder,
            "hidden_dim": hidden,
            "score": "general",
            "readout": "attentional",
            "readout_dim": hidden,
            "input_feeding": True,
            "projection_dim": None if out == hidden else out,
            "share": fairseq.share,
            "dropout": fairseq.get("dropout", 0.1),
        }

    def weights(self, fairseq: Fairseq, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        state, made = fairseq.state, {}
        values, s = config["directions"] * config["encoder_dim"], config["hidden_dim"]
        for layer in range(config["layers"]):
            below = values if layer else config["embedding_dim"]
            for end in ["", "_reverse"][: config["directions"]]:
                for kind, shape in cell_shapes(4, below, config["encoder_dim"]).items():
                    name = f"{kind}_l{layer}{end}"
                    made[f"encoder.{name}"] = state.take(f"encoder.lstm.{name}", *shape)
            below = s if layer else config["target_embedding_dim"] + s
            for kind, shape in cell_shapes(4, below, s).items():
                made[f"decoder.{layer}.{kind}"] = state.take(
                    f"decoder.layers.{layer}.{kind}", *shape
                )
        if config["start"] == "projected":
            for own, theirs in (("start", "hidden"), ("start_cell", "cell")):
                name = f"decoder.encoder_{theirs}_proj"
                made[f"{own}.weight"] = state.take(f"{name}.weight", s, values)
                made[f"{own}.bias"] = state.take(f"{name}.bias", s)
        query = state.take("decoder.attention.input_proj.weight", values, s)
        made["keys.weight"] = query.t().contiguous()
        readout = state.take("decoder.attention.output_proj.weight", s, values + s)
        context, hidden = readout.split([values, s], 1)
        made["readout.weight"] = torch.cat([hidden, context], 1)
        made["readout.bias"] = readout.new_zeros(s)
        if config["projection_dim"]:
            p = config["projection_dim"]
            made["projection.weight"] = state.take("decoder.additional_fc.weight", p, s)
            made["projection.bias"] = state.take("decoder.additional_fc.bias", p)
        return {**made, **_embeddings(fairseq, config)}


def _embeddings(fairseq: Fairseq, config: Mapping[str, Any]) -> dict[str, Weight]:
    state, source, target = fairseq.state, fairseq.source, fairseq.target
    size = len(target.tokens)
    made: dict[str, Weight] = {}
    name = "decoder.embed_tokens.weight"
    matrix = state.take(name, size, config["target_embedding_dim"])
    made["target_embedding.weight"] = target.reorder(matrix, begin=2)
    if config["share"] == "embeddings":
        state.same("encoder.embed_tokens.weight", name)
    else:
        rows = len(source.tokens), config["embedding_dim"]
        made["source_embedding.weight"] = source.reorder(
            state.take("encoder.embed_tokens.weight", *rows)
        )
    bias: Weight = matrix.new_zeros(size)
    tied = fairseq.get("share_decoder_input_output_embed", False)
    if not (tied or config["share"] == "embeddings"):
        top = config["projection_dim"] or config["hidden_dim"]
        matrix = state.take("decoder.fc_out.weight", size, top)
        bias = target.reorder(state.take("decoder.fc_out.bias", size))
    made["output.weight"], made["output.bias"] = target.reorder(matrix), bias
    return made
