"""Import fairseq's `transformer`.

The decoder begins with the end token, so the begin token of the target gets its embedding. The
output layer keeps the row of fairseq's own begin token, and is stored apart from the embedding.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo.interop import Fairseq, FairseqImporter, StateDict, Weight
from zoo_transformer.config import TransformerConfig

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "tanh": "tanh", "swish": "silu",
               "gelu_fast": "gelu_tanh", "gelu_accurate": "gelu_tanh"}  # fmt: skip

REFUSED: dict[str, Any] = {
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "cross_self_attention": False,
    "no_cross_attention": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "base_layers": 0,
    "character_embeddings": False,
    "encoder_xformers_att_config": None,
    "decoder_xformers_att_config": None,
}
"""Settings that must have these values, or none."""

OLD_NORMS = {
    "encoder": {"0": "self_attn_layer_norm", "1": "final_layer_norm"},
    "decoder": {"0": "self_attn_layer_norm", "1": "encoder_attn_layer_norm",
                "2": "final_layer_norm"},
}  # fmt: skip
"""How layers named their norms before fairseq 0.7."""


class FairseqTransformer(FairseqImporter):
    """Reads fairseq's `transformer`."""

    architecture = "transformer"
    config_type = TransformerConfig
    tensors = (
        "decoder.layers.0.self_attn.k_proj.weight",
        "decoder.layers.0.self_attn.in_proj_weight",
    )

    def config(self, fairseq: Fairseq) -> dict[str, Any]:
        """Return the configuration."""
        fairseq.refuse(**REFUSED)
        dim, norm_before = (
            _equal(fairseq, "embed_dim", 512),
            _equal(fairseq, "normalize_before", False),
        )
        heads, inner = _equal(fairseq, "attention_heads", 8), _equal(fairseq, "ffn_embed_dim", 2048)
        learned = _equal(fairseq, "learned_pos", False)
        for name in ("decoder_input_dim", "decoder_output_dim"):
            width = fairseq.get(name, dim)
            fairseq.reasons.check(width == dim, f"its {name} {width} is not its width {dim}")
        activation = str(fairseq.get("activation_fn", "relu"))
        fairseq.reasons.check(
            activation in ACTIVATIONS, f"its activation_fn {activation!r} has no counterpart"
        )
        fairseq.reasons.check(
            not (heads < 1 or dim % max(heads, 1)),
            f"its width {dim} is no multiple of {heads} heads",
        )
        state, prefix = fairseq.state, "layer_norm.weight"
        final = [
            f"{side}.{prefix}" in state and not _old(fairseq, side)
            for side in ("encoder", "decoder")
        ]
        fairseq.reasons.check(final[0] == final[1], "only one of its two stacks ends with a norm")
        positions = "learned" if learned else "fairseq"
        if fairseq.get("no_token_positional_embeddings", False):
            positions = "none"
        values: dict[str, Any] = {
            "encoder_layers": fairseq.get("encoder_layers", 6),
            "decoder_layers": fairseq.get("decoder_layers", 6),
            "dim": dim,
            "heads": heads,
            "feedforward_dim": inner,
            "dropout": fairseq.get("dropout", 0.1),
            "activation": ACTIVATIONS.get(activation, "relu"),
            "norm": "pre" if norm_before else "post",
            "final_norm": final[0],
            "embedding_norm": fairseq.get("layernorm_embedding", False),
            "scale_embeddings": not fairseq.get("no_scale_embedding", False),
            "positions": positions,
            "position_offset": 0 if positions == "none" else 2,
            "output_bias": False,
            "share": fairseq.share,
        }
        if positions == "learned":
            for side in ("source", "target"):
                values[f"max_{side}_positions"] = fairseq.get(f"max_{side}_positions", 1024)
        return values

    def weights(self, fairseq: Fairseq, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        return _Reader(fairseq, config).weights()


def _equal(fairseq: Fairseq, name: str, default: Any) -> Any:
    """Return a setting that encoder and decoder must share."""
    one, two = (fairseq.get(f"{side}_{name}", default) for side in ("encoder", "decoder"))
    fairseq.reasons.check(
        one == two, f"its encoder_{name} {one} and decoder_{name} {two} differ: one is supported"
    )
    return one


def _old(fairseq: Fairseq, side: str) -> bool:
    """Return whether a checkpoint is so old that its norm after the stack has no effect.

    fairseq took norms after the encoder into use with version 2, after the decoder with version 3.
    """
    version = fairseq.state.tensors.get(f"{side}.version")
    first = {"encoder": 2, "decoder": 3}[side]
    return isinstance(version, Tensor) and version.numel() == 1 and float(version) < first


class _Reader:
    """Takes fairseq's tensors by the names of the zoo's network."""

    def __init__(self, fairseq: Fairseq, config: Mapping[str, Any]) -> None:
        self.fairseq, self.state, self.config = fairseq, fairseq.state, config
        self.dim, self.inner = config["dim"], config["feedforward_dim"]
        self.made: dict[str, Weight] = {}
        _rename_old_norms(self.state)

    def weights(self) -> dict[str, Weight]:
        """Return all weights."""
        self.state.ignore("*.version", "*_float_tensor", "*.embed_positions.weights")
        # fairseq 0.12 stores copies for a kernel of torch.
        for name in ("in_proj", "out_proj", "fc1", "fc2"):
            self.state.ignore(f"encoder.layers.*.{name}_weight", f"encoder.layers.*.{name}_bias")
        self._embeddings()
        for side in ("encoder", "decoder"):
            for layer in range(self.config[f"{side}_layers"]):
                self._layer(side, layer)
            if self.config["final_norm"]:
                self._norm(f"{side}_norm", f"{side}.layer_norm")
            else:
                self.state.ignore(f"{side}.layer_norm.*")
        return self.made

    def _embeddings(self) -> None:
        state, dim = self.state, self.dim
        source, target = self.fairseq.source, self.fairseq.target
        sizes = len(source.tokens), len(target.tokens)
        embedding = "decoder.embed_tokens.weight"
        shared = self.config["share"] == "embeddings"
        name = embedding if embedding in state or not shared else "encoder.embed_tokens.weight"
        matrix = state.take(name, sizes[1], dim)
        self.made["target_embedding.weight"] = target.reorder(matrix, begin=2)
        if shared:
            state.same("encoder.embed_tokens.weight", name)
        else:
            other = state.take("encoder.embed_tokens.weight", sizes[0], dim)
            self.made["source_embedding.weight"] = source.reorder(other)
        tied = shared or self.fairseq.get("share_decoder_input_output_embed", False)
        outputs = ("decoder.output_projection.weight", "decoder.embed_out")
        if tied:
            for each in outputs:
                state.same(each, name)
        else:
            at = outputs[1] if outputs[1] in state else outputs[0]
            matrix = state.take(at, sizes[1], dim)
        self.made["output.weight"] = target.reorder(matrix)
        for side, own in (("encoder", "source"), ("decoder", "target")):
            if self.config["positions"] == "learned":
                rows = self.config[f"max_{own}_positions"] + 2
                theirs = f"{side}.embed_positions.weight"
                self.made[f"{own}_positions.weight"] = state.take(theirs, rows, dim)
            if self.config["embedding_norm"]:
                self._norm(f"{own}_norm", f"{side}.layernorm_embedding")

    def _layer(self, side: str, layer: int) -> None:
        own, theirs = f"{side}.{layer}", f"{side}.layers.{layer}"
        self._attention(f"{own}.attention", f"{theirs}.self_attn", fused=True)
        self._norm(f"{own}.attention_norm", f"{theirs}.self_attn_layer_norm")
        if side == "decoder":
            self._attention(f"{own}.cross", f"{theirs}.encoder_attn", fused=False)
            self._norm(f"{own}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
        for name, old, outputs, inputs in (
            ("inner", "fc1", self.inner, self.dim),
            ("outer", "fc2", self.dim, self.inner),
        ):
            self.made[f"{own}.{name}.weight"] = self.state.take(
                f"{theirs}.{old}.weight", outputs, inputs
            )
            self.made[f"{own}.{name}.bias"] = self.state.take(f"{theirs}.{old}.bias", outputs)
        self._norm(f"{own}.feedforward_norm", f"{theirs}.final_layer_norm")

    def _attention(self, own: str, theirs: str, fused: bool) -> None:
        state, dim = self.state, self.dim
        for kind, shape in (("weight", (dim, dim)), ("bias", (dim,))):
            joint = f"{theirs}.in_proj_{kind}"
            if joint in state:
                q, k, v = state.take(joint, 3 * dim, *shape[1:]).split(dim)
            else:
                q, k, v = (state.take(f"{theirs}.{name}_proj.{kind}", *shape) for name in "qkv")
            if fused:
                self.made[f"{own}.project.{kind}"] = partial(torch.cat, [q, k, v])
            else:
                self.made[f"{own}.query.{kind}"] = q.contiguous()
                self.made[f"{own}.project.{kind}"] = partial(torch.cat, [k, v])
            self.made[f"{own}.out.{kind}"] = state.take(f"{theirs}.out_proj.{kind}", *shape)

    def _norm(self, own: str, theirs: str) -> None:
        for kind in ("weight", "bias"):
            self.made[f"{own}.{kind}"] = self.state.take(f"{theirs}.{kind}", self.dim)


def _rename_old_norms(state: StateDict) -> None:
    tensors = dict(state.tensors)
    for name in state.tensors:
        parts = name.split(".")
        if len(parts) == 6 and parts[3] == "layer_norms" and parts[0] in OLD_NORMS:
            new = OLD_NORMS[parts[0]].get(parts[4])
            if new is not None:
                tensors[".".join([*parts[:3], new, parts[5]])] = tensors.pop(name)
    state.tensors = tensors
