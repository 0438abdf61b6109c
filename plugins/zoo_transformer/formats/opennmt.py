"""Import OpenNMT-py's Transformers: pre-norm, with a norm after each stack."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo.interop import OpenNMT, OpenNMTImporter, Weight
from zoo_transformer.config import TransformerConfig
from zoo_transformer.network import SINUSOIDS

ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
"""The activations without a gate."""

POSITIONS = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "fairseq"}

REFUSED: dict[str, Any] = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "max_relative_positions": 0,
    "relative_positions_buckets": 0,
    "layer_norm": "standard",
    "parallel_residual": False,
    "num_experts": 0,
    "sliding_window": 0,
}
"""Settings that must have these values, or none."""

FEW, NEAR = 100, 2e-3
"""How many positions are compared, and how exactly: they may be rounded to float16."""

ATTENTION = ("scaled-dot", "scaled-dot-flash")
"""Two ways to compute the same self-attention."""


class OpenNMTTransformer(OpenNMTImporter):
    """Reads OpenNMT-py's Transformer encoder and decoder."""

    architecture = "transformer"
    config_type = TransformerConfig
    decoder = "transformer"
    tensors = (
        "decoder.transformer_layers.0.context_attn.linear_keys.weight",
        "decoder.transformer_layers.0.self_attn.linear_keys.weight",  # of a language model
    )

    def config(self, onmt: OpenNMT) -> dict[str, Any]:
        """Return the configuration."""
        onmt.refuse(**REFUSED)
        reasons, dim, heads = onmt.reasons, onmt.width, onmt.get("heads", 8)
        kind = onmt.get("self_attn_type", "scaled-dot")
        reasons.check(
            kind in ATTENTION, f"its setting self_attn_type = {kind!r} has no counterpart"
        )
        activation = onmt.get("pos_ffn_activation_fn", "relu")
        reasons.check(
            activation in ACTIVATIONS,
            f"its pos_ffn_activation_fn {activation!r} has no counterpart: it has a gate or is "
            "unknown",
        )
        reasons.check(
            heads > 0 and dim % max(heads, 1) == 0,
            f"its width {dim} is no multiple of {heads} heads",
        )
        reasons.check(
            onmt.embedding_dims == (dim, dim),
            f"its embeddings have not the width {dim} of its layers",
        )
        positions = onmt.get("position_encoding", False)
        formula = onmt.get("position_encoding_type", "SinusoidalInterleaved")
        reasons.check(
            formula in POSITIONS, f"its position_encoding_type {formula!r} has no counterpart"
        )
        layers = onmt.layers
        return {
            "encoder_layers": layers[0],
            "decoder_layers": layers[1],
            "dim": dim,
            "heads": heads,
            "feedforward_dim": onmt.get("transformer_ff", 2048),
            "dropout": onmt.dropout,
            "activation": ACTIVATIONS.get(activation, "relu"),
            "norm": "pre",
            "norm_epsilon": onmt.get("norm_eps", 1e-6),
            "scale_embeddings": positions,
            "positions": POSITIONS.get(formula, "interleaved") if positions else "none",
            "source_end": False,
            "attention_bias": "encoder.transformer.0.self_attn.linear_query.bias" in onmt.state,
            "share": onmt.share,
        }

    def weights(self, onmt: OpenNMT, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        return _Reader(onmt, config).weights()


class _Reader:
    """Takes OpenNMT-py's tensors by the names of the zoo's network."""

    def __init__(self, onmt: OpenNMT, config: Mapping[str, Any]) -> None:
        self.onmt, self.state, self.config = onmt, onmt.state, config
        self.dim, self.inner = config["dim"], config["feedforward_dim"]
        self.width = config["dim"] // config["heads"]
        shared = onmt.get("num_kv", 0) or int(onmt.get("multiquery", False))
        self.groups = shared if 0 < shared <= config["heads"] else config["heads"]
        onmt.reasons.check(
            config["heads"] % self.groups == 0,
            f"its {config['heads']} heads are no multiple of its {self.groups} heads of keys",
        )
        self.made: dict[str, Weight] = {}

    def weights(self) -> dict[str, Weight]:
        """Return all weights."""
        self.state.ignore("decoder.transformer_layers.*.mask")
        for side in ("encoder", "decoder"):
            self._check_positions(f"{side}.embeddings.make_embedding.pe.pe")
        self.made |= self.onmt.embeddings(self.config, (self.dim, self.dim))
        for side, stack in (("encoder", "transformer"), ("decoder", "transformer_layers")):
            for layer in range(self.config[f"{side}_layers"]):
                self._layer(f"{side}.{layer}", f"{side}.{stack}.{layer}", side == "decoder")
            self._norm(f"{side}_norm", f"{side}.layer_norm")
        return self.made

    def _check_positions(self, name: str) -> None:
        """Take the sinusoids, if they are stored: they must be those of the configuration."""
        table, kind = self.state.tensors.get(name), self.config["positions"]
        if name not in self.state or kind == "none":
            return
        self.state.ignore(name)
        fine = isinstance(table, Tensor) and table.shape[1:] == (1, self.dim) and len(table) > 0
        if fine and isinstance(table, Tensor):
            stored = table[:FEW, 0].float()
            formula = SINUSOIDS[kind](len(stored), self.dim, torch.float32, stored.device)
            fine = bool((stored - formula).abs().max() < NEAR)
        self.onmt.reasons.check(fine, f"{name} holds other sinusoids than its settings say")

    def _layer(self, own: str, theirs: str, decoder: bool) -> None:
        self._attention(f"{own}.attention", f"{theirs}.self_attn", fused=True)
        self._norm(f"{own}.attention_norm", f"{theirs}.layer_norm{'_1' * decoder}")
        if decoder:
            self._attention(f"{own}.cross", f"{theirs}.context_attn", fused=False)
            self._norm(f"{own}.cross_norm", f"{theirs}.layer_norm_2")
        for name, old, outputs, inputs in (
            ("inner", "w_1", self.inner, self.dim),
            ("outer", "w_2", self.dim, self.inner),
        ):
            path = f"{theirs}.feed_forward.{old}"
            weight = self.state.take(f"{path}.weight", outputs, inputs)
            self.made[f"{own}.{name}.weight"] = weight
            biased = f"{path}.bias" in self.state
            bias = self.state.take(f"{path}.bias", outputs) if biased else weight.new_zeros(outputs)
            self.made[f"{own}.{name}.bias"] = bias
        self._norm(f"{own}.feedforward_norm", f"{theirs}.feed_forward.layer_norm")

    def _attention(self, own: str, theirs: str, fused: bool) -> None:
        dim, made = self.dim, self.made
        shapes: dict[str, tuple[int, ...]] = {"weight": (dim,)}
        if self.config["attention_bias"]:
            shapes["bias"] = ()
        for kind, inputs in shapes.items():
            q = self.state.take(f"{theirs}.linear_query.{kind}", dim, *inputs)
            k, v = (self._keys(f"{theirs}.linear_{x}.{kind}", inputs) for x in ("keys", "values"))
            if fused:
                made[f"{own}.project.{kind}"] = partial(torch.cat, [q, k, v])
            else:
                made[f"{own}.query.{kind}"] = q
                made[f"{own}.project.{kind}"] = partial(torch.cat, [k, v])
            made[f"{own}.out.{kind}"] = self.state.take(
                f"{theirs}.final_linear.{kind}", dim, *inputs
            )

    def _keys(self, name: str, inputs: tuple[int, ...]) -> Tensor:
        """Return the map to keys or values; one that several heads share is repeated for each."""
        weight = self.state.take(name, self.groups * self.width, *inputs)
        repeats = self.config["heads"] // self.groups
        heads = weight.unflatten(0, (self.groups, self.width))
        return heads.repeat_interleave(repeats, 0).flatten(0, 1) if repeats > 1 else weight

    def _norm(self, own: str, theirs: str) -> None:
        for kind in ("weight", "bias"):
            self.made[f"{own}.{kind}"] = self.state.take(f"{theirs}.{kind}", self.dim)
