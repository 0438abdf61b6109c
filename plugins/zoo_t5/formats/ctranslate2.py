"""Export T5 as a CTranslate2 model, through `ctranslate2.specs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from zoo.interop import Checkpoint, CTranslate2Exporter, weights_of
from zoo_t5.config import T5Config

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
"""Its names of the activations."""

POSITIONS = 4096
"""Relative positions have no limit; longer texts are left to the zoo."""


class CTranslate2(CTranslate2Exporter):
    """Writes a Transformer with relative position biases and RMS norms."""

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return no reasons: CTranslate2 has every option of T5."""
        return []

    def specification(self, checkpoint: Checkpoint) -> TransformerSpec:
        """Return the description of a T5."""
        from ctranslate2.specs import TransformerSpec, common_spec

        config = cast(T5Config, checkpoint.config)
        weights = weights_of(checkpoint)
        spec = TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.heads,
            pre_norm=True,
            activation=common_spec.Activation[ACTIVATIONS[config.activation]],
            ffn_glu=config.gated,
            relative_attention_bias=True,
            rms_norm=True,
        )
        target = weights["target_embedding.weight"]
        spec.encoder.embeddings[0].weight = weights.get("source_embedding.weight", target).numpy()
        spec.decoder.embeddings.weight = target.numpy()
        spec.decoder.projection.weight = weights.get("output.weight", target).numpy()
        if config.scale_output:
            spec.decoder.scale_outputs = np.float32(config.dim**-0.5)
        for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
            side.scale_embeddings = False
            side.layer_norm.gamma = weights[f"{name}_norm.weight"].numpy()
            for number, layer in enumerate(side.layer):
                _set_layer(layer, name, number, config, weights)
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = config.norm_epsilon
        spec.config.add_attribute("max_positions", POSITIONS)
        return spec


def _set_layer(
    layer: Any, stack: str, number: int, config: T5Config, weights: Mapping[str, Tensor]
) -> None:
    """Set the weights of one layer; a table of position biases may be that of the first."""
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec

    def linear(spec: Any, name: str) -> None:
        spec.weight = weights[f"{stack}.{number}.{name}.weight"].numpy()

    def gamma(spec: Any, name: str) -> None:
        spec.layer_norm.gamma = weights[f"{stack}.{number}.{name}_norm.weight"].numpy()

    k = config.head_dim
    own = layer.self_attention = MultiHeadAttentionSpec(
        self_attention=True, relative_attention_bias=True, rms_norm=True, head_dim=k
    )
    own.queries_scale = np.float32(1)  # scores are not scaled
    table = number if config.layer_positions else 0
    own.relative_attention_bias = weights[f"{stack}_positions.{table}.weight"].numpy()
    own.relative_attention_max_distance = np.dtype("int32").type(config.max_distance)
    linear(own.linear[0], "attention.project")
    linear(own.linear[1], "attention.out")
    gamma(own, "attention")
    if stack == "decoder":
        layer.attention = MultiHeadAttentionSpec(rms_norm=True, head_dim=k)
        layer.attention.queries_scale = np.float32(1)
        for part, name in zip(layer.attention.linear, ("query", "project", "out"), strict=True):
            linear(part, f"cross.{name}")
        gamma(layer.attention, "cross")
    inner = weights[f"{stack}.{number}.inner.weight"]
    if config.gated:
        layer.ffn.linear_0.weight, layer.ffn.linear_0_noact.weight = (
            part.contiguous().numpy() for part in inner.chunk(2)
        )
    else:
        layer.ffn.linear_0.weight = inner.numpy()
    linear(layer.ffn.linear_1, "outer")
    gamma(layer.ffn, "feedforward")
