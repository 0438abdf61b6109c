"""Import JoeyNMT's Transformers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo.interop import JoeyNMT, JoeyNMTImporter, Weight
from zoo_transformer.config import TransformerConfig

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "tanh": "tanh", "swish": "silu"}


class JoeyNMTTransformer(JoeyNMTImporter):
    """Reads JoeyNMT's Transformer encoder and decoder."""

    architecture = "transformer"
    config_type = TransformerConfig
    tensors = ("decoder.layers.0.src_trg_att.k_layer.weight",)

    def config(self, joey: JoeyNMT) -> dict[str, Any]:
        """Return the configuration."""
        reasons, dim = joey.reasons, joey.equal("hidden_size", 512)
        activation, alpha = joey.equal("activation", "relu"), joey.equal("alpha", 1.0)
        reasons.check(
            activation in ACTIVATIONS, f"its activation {activation!r} has no counterpart"
        )
        default = "pre" if "encoder.layer_norm.weight" in joey.state else ""
        norm = joey.equal("layer_norm", default)
        reasons.check(
            norm in ("pre", "post"),
            "layer_norm is missing or unknown: encoder and decoder then normalize in other places",
        )
        reasons.check(
            alpha == 1 or (norm == "post" and alpha > 0),
            f"its alpha {alpha} needs layer_norm: post",
        )
        heads = joey.equal("num_heads", 4, of_decoder=8)
        reasons.check(
            heads > 0 and dim % max(heads, 1) == 0,
            f"its width {dim} is no multiple of {heads} heads",
        )
        reasons.check(
            not joey.tied or joey.source is joey.target,
            "its embeddings are tied, but the vocabularies differ",
        )
        softmax = joey.get("", "tied_softmax", False)
        shares = ("all", "embeddings") if joey.tied else ("target", "none")
        return {
            "encoder_layers": joey.get("encoder", "num_layers", 8),
            "decoder_layers": joey.get("decoder", "num_layers", 4),
            "dim": dim,
            "heads": heads,
            "feedforward_dim": joey.equal("ff_size", 2048),
            "dropout": joey.get("decoder", "dropout", 0.1),
            "activation": ACTIVATIONS.get(activation, "relu"),
            "norm": norm if norm in ("pre", "post") else "pre",
            # norm(α x + f(x)) = norm(x + f(x) / α) with ε / α²
            "norm_epsilon": 1e-6 / (alpha * alpha if alpha > 0 else 1),
            "scale_embeddings": bool(joey.embedding("decoder", "scale", False)),
            "output_bias": False,
            "share": shares[not softmax],
        }

    def weights(self, joey: JoeyNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        return _Reader(joey, config).weights()


class _Reader:
    """Takes JoeyNMT's tensors by the names of the zoo's network."""

    def __init__(self, joey: JoeyNMT, config: Mapping[str, Any]) -> None:
        self.joey, self.state, self.config = joey, joey.state, config
        self.dim, self.inner = config["dim"], config["feedforward_dim"]
        self.alpha = float(joey.get("encoder", "alpha", 1.0))
        self.made: dict[str, Weight] = {}

    def weights(self) -> dict[str, Weight]:
        """Return all weights."""
        self.state.ignore("encoder.pe.pe", "decoder.pe.pe")
        self._embeddings()
        for side in ("encoder", "decoder"):
            for layer in range(self.config[f"{side}_layers"]):
                self._layer(side, layer)
            if self.config["norm"] == "pre":
                self._norm(f"{side}_norm", f"{side}.layer_norm")
        return self.made

    def _embeddings(self) -> None:
        joey, state, dim = self.joey, self.state, self.dim
        size, name, other = len(joey.target.tokens), "trg_embed.lut.weight", "src_embed.lut.weight"
        matrix = state.take(name, size, dim)
        self.made["target_embedding.weight"] = joey.target.reorder(matrix)
        if joey.tied:
            state.same(other, name)
        else:
            rows = state.take(other, len(joey.source.tokens), dim)
            theirs = bool(joey.embedding("encoder", "scale", False))
            factor = dim ** ((theirs - self.config["scale_embeddings"]) / 2)
            self.made["source_embedding.weight"] = joey.source.reorder(
                rows if factor == 1 else rows * factor
            )
        output = "decoder.output_layer.weight"
        if self.config["share"] in ("target", "all"):
            state.same(output, name)
        else:
            self.made["output.weight"] = joey.target.reorder(state.take(output, size, dim))

    def _layer(self, side: str, layer: int) -> None:
        own, theirs = f"{side}.{layer}", f"{side}.layers.{layer}"
        decoder = side == "decoder"
        attention = "trg_trg_att" if decoder else "src_src_att"
        self._attention(f"{own}.attention", f"{theirs}.{attention}", fused=True)
        norm = "x_layer_norm" if decoder else "layer_norm"
        self._norm(f"{own}.attention_norm", f"{theirs}.{norm}")
        if decoder:
            self._attention(f"{own}.cross", f"{theirs}.src_trg_att", fused=False)
            self._norm(f"{own}.cross_norm", f"{theirs}.dec_layer_norm")
        take, made, path = self.state.take, self.made, f"{theirs}.feed_forward.pwff_layer"
        made[f"{own}.inner.weight"] = take(f"{path}.0.weight", self.inner, self.dim)
        made[f"{own}.inner.bias"] = take(f"{path}.0.bias", self.inner)
        made[f"{own}.outer.weight"] = self._branch(take(f"{path}.3.weight", self.dim, self.inner))
        made[f"{own}.outer.bias"] = self._branch(take(f"{path}.3.bias", self.dim))
        self._norm(f"{own}.feedforward_norm", f"{theirs}.feed_forward.layer_norm")

    def _attention(self, own: str, theirs: str, fused: bool) -> None:
        dim = self.dim
        for kind, shape in (("weight", (dim, dim)), ("bias", (dim,))):
            q, k, v = (self.state.take(f"{theirs}.{x}_layer.{kind}", *shape) for x in "qkv")
            if fused:
                self.made[f"{own}.project.{kind}"] = partial(torch.cat, [q, k, v])
            else:
                self.made[f"{own}.query.{kind}"] = q
                self.made[f"{own}.project.{kind}"] = partial(torch.cat, [k, v])
            out = self.state.take(f"{theirs}.output_layer.{kind}", *shape)
            self.made[f"{own}.out.{kind}"] = self._branch(out)

    def _branch(self, weight: Tensor) -> Tensor:
        """Return the last weight of a sublayer, whose sum JoeyNMT weights with α."""
        return weight if self.alpha == 1 else weight / self.alpha

    def _norm(self, own: str, theirs: str) -> None:
        for kind in ("weight", "bias"):
            self.made[f"{own}.{kind}"] = self.state.take(f"{theirs}.{kind}", self.dim)
