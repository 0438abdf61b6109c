"""Export a Transformer as a CTranslate2 model, through `ctranslate2.specs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from zoo.interop import Checkpoint, CTranslate2Exporter, weights_of
from zoo_transformer.config import TransformerConfig
from zoo_transformer.network import SINUSOIDS

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

POSITIONS = 4096
"""Positions in the exported table of sinusoids: CTranslate2 reads and writes no more tokens."""

ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh"
}  # fmt: skip
"""Its names of the activations."""


class CTranslate2(CTranslate2Exporter):
    """Writes `model.bin`, `config.json` and the vocabularies of a CTranslate2 Transformer.

    CTranslate2 adds the end token to a source by itself (`add_source_eos`), if it is read. Its
    sinusoids differ from those of the paper, so that the table is exported.
    """

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return what CTranslate2 cannot express."""
        config = cast(TransformerConfig, checkpoint.config)
        reasons = []
        if config.norm == "branch":
            reasons.append("norm is branch: CTranslate2 has post and pre")
        if config.unbiased_norm:
            reasons.append("unbiased_norm: CTranslate2 divides by the biased standard deviation")
        return reasons

    def specification(self, checkpoint: Checkpoint) -> TransformerSpec:
        """Return the description of a Transformer."""
        from ctranslate2.specs import TransformerSpec, common_spec

        config = cast(TransformerConfig, checkpoint.config)
        weights = weights_of(checkpoint)
        spec = TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.heads,
            pre_norm=config.norm == "pre" or config.stack_norm,
            no_final_norm=not config.stack_norm,
            activation=common_spec.Activation[ACTIVATIONS[config.activation]],
            layernorm_embedding=config.embedding_norm,
        )
        for side in (spec.encoder, spec.decoder):  # post-norm may have a last norm too
            side.pre_norm = config.norm == "pre"
        target = weights["target_embedding.weight"]
        source = target if config.one_vocabulary else weights["source_embedding.weight"]
        spec.encoder.embeddings[0].weight = source.numpy()
        spec.decoder.embeddings.weight = target.numpy()
        spec.decoder.projection.weight = weights.get("output.weight", target).numpy()
        if config.output_bias:
            spec.decoder.projection.bias = weights["output.bias"].numpy()
        _set_side(spec.encoder, "encoder", "source", config, weights)
        _set_side(spec.decoder, "decoder", "target", config, weights)
        spec.config.add_source_eos = config.source_end
        spec.config.layer_norm_epsilon = config.epsilon
        spec.config.add_attribute("max_positions", len(spec.decoder.position_encodings.encodings))
        return spec


def _positions(side: str, config: TransformerConfig, weights: Mapping[str, Tensor]) -> Tensor:
    """Return the vectors that are added to the embeddings, (positions, d)."""
    offset = config.position_offset
    if config.positions == "none":
        return torch.zeros(POSITIONS, config.dim)
    if config.positions == "learned":
        return weights[f"{side}_positions.weight"][offset:].contiguous()
    formula = SINUSOIDS[config.positions]
    table = formula(POSITIONS + offset, config.dim, torch.float32, torch.device("cpu"))
    return table[offset:].contiguous()


def _set_side(
    spec: Any, name: str, side: str, config: TransformerConfig, weights: Mapping[str, Tensor]
) -> None:
    """Set what encoder and decoder have in common: positions, norms and layers."""
    spec.scale_embeddings = config.scale_embeddings
    spec.position_encodings.encodings = _positions(side, config, weights).numpy()
    if config.embedding_norm:
        _set_norm(spec.layernorm_embedding, f"{side}_norm", weights)
    if config.stack_norm:
        _set_norm(spec.layer_norm, f"{name}_norm", weights)
    for number, layer in enumerate(spec.layer):
        path = f"{name}.{number}"
        _set_linear(layer.self_attention.linear[0], f"{path}.attention.project", weights)
        _set_linear(layer.self_attention.linear[1], f"{path}.attention.out", weights)
        _set_norm(layer.self_attention.layer_norm, f"{path}.attention_norm", weights)
        if name == "decoder":
            for index, part in enumerate(("query", "project", "out")):
                _set_linear(layer.attention.linear[index], f"{path}.cross.{part}", weights)
            _set_norm(layer.attention.layer_norm, f"{path}.cross_norm", weights)
        _set_linear(layer.ffn.linear_0, f"{path}.inner", weights)
        _set_linear(layer.ffn.linear_1, f"{path}.outer", weights)
        _set_norm(layer.ffn.layer_norm, f"{path}.feedforward_norm", weights)


def _set_linear(spec: Any, name: str, weights: Mapping[str, Tensor]) -> None:
    spec.weight = weights[f"{name}.weight"].numpy()
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"].numpy()


def _set_norm(spec: Any, name: str, weights: Mapping[str, Tensor]) -> None:
    spec.gamma, spec.beta = (weights[f"{name}.{kind}"].numpy() for kind in ("weight", "bias"))
