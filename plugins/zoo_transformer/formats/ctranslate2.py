"""Export a Transformer as a CTranslate2 model, through `ctranslate2.specs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Tensor

from zoo.interop import Checkpoint, Exporter, export_card, require, write_tokenizers
from zoo.nn import BEGIN, END, UNKNOWN
from zoo_transformer.config import TransformerConfig
from zoo_transformer.network import SINUSOIDS, Transformer

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

POSITIONS = 4096
"""Positions in the exported table of sinusoids: CTranslate2 reads and writes no more tokens."""

ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh"
}  # fmt: skip
"""Its names of the activations."""


FILES = (
    "model.bin", "config.json", "shared_vocabulary.json", "source_vocabulary.json",
    "target_vocabulary.json", "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json",
)  # fmt: skip


class CTranslate2(Exporter):
    """Writes `model.bin`, `config.json` and the vocabularies of a CTranslate2 Transformer.

    CTranslate2 adds the end token to a source by itself (`add_source_eos`), if it is read. Its
    sinusoids differ from those of the paper, so that the table is exported.
    """

    precisions: ClassVar[tuple[str, ...]] = ("float32", "bfloat16", "int8")
    files: ClassVar[tuple[str, ...]] = FILES

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return what CTranslate2 cannot express."""
        config = cast(TransformerConfig, checkpoint.config)
        reasons = []
        if config.norm == "branch":
            reasons.append("norm is branch: CTranslate2 has post and pre")
        if config.unbiased_norm:
            reasons.append("unbiased_norm: CTranslate2 divides by the biased standard deviation")
        return reasons

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the model."""
        require("ctranslate2", extra="ctranslate2")
        spec = specification(checkpoint)
        spec.validate()
        spec.optimize(quantization=None if precision == "float32" else precision)
        spec.save(str(folder))
        write_tokenizers(checkpoint, folder)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the name of the library."""
        return export_card(checkpoint, folder, precision, library="ctranslate2")


def specification(checkpoint: Checkpoint) -> TransformerSpec:
    """Return CTranslate2's description of a model with its weights and vocabularies."""
    from ctranslate2.specs import TransformerSpec, common_spec

    config = cast(TransformerConfig, checkpoint.config)
    model = cast(Transformer, checkpoint.model)
    # Copies: CTranslate2 quantizes in place.
    weights = {
        name: weight.detach().cpu().float().clone() for name, weight in model.named_parameters()
    }
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
    _set_vocabularies(spec, checkpoint)
    spec.config.layer_norm_epsilon = config.epsilon
    spec.config.add_attribute("max_positions", len(spec.decoder.position_encodings.encodings))
    return spec


def _set_vocabularies(spec: TransformerSpec, checkpoint: Checkpoint) -> None:
    for tokenizer, register in (
        (checkpoint.source_tokenizer, spec.register_source_vocabulary),
        (checkpoint.target_tokenizer, spec.register_target_vocabulary),
    ):
        register([tokenizer.token(i) for i in range(tokenizer.size)])
    begin, end, unknown = (checkpoint.target_tokenizer.token(i) for i in (BEGIN, END, UNKNOWN))
    spec.config.bos_token, spec.config.eos_token = begin, end
    spec.config.unk_token, spec.config.decoder_start_token = unknown, begin
    config = cast(TransformerConfig, checkpoint.config)
    spec.config.add_source_bos, spec.config.add_source_eos = False, config.source_end


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
