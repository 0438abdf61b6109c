"""The weights of a Transformer under the names of transformers' classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from zoo.interop import Checkpoint
from zoo_transformer.config import TransformerConfig
from zoo_transformer.formats.huggingface_vocabulary import Numbering
from zoo_transformer.network import sinusoids

PARTS = ("weight", "bias")

ROUNDING = 1e-4
"""How much rounding may change a logit where the output matrix holds its bias."""

NEVER = -1_000.0
"""A logit without probability: e^−1000 = 0. Lower ones, such as the begin token's, are as good."""

POSITIONS = 1024
"""Positions in the table of Pegasus: it reads and writes no more tokens."""


def foreign_weights(
    checkpoint: Checkpoint, source: Numbering, target: Numbering
) -> dict[str, Tensor]:
    """Return the weights by their names in transformers.

    Its sinusoids, where positions are interleaved here, are sines, then cosines: every weight's
    width d is permuted.
    """
    config = cast(TransformerConfig, checkpoint.config)
    named = checkpoint.model.named_parameters()
    weights = {name: weight.detach().cpu().float() for name, weight in named}
    d = config.dim
    order = torch.arange(d)
    if config.positions == "interleaved":
        order = torch.cat([order[::2], order[1::2]])
    rows = torch.tensor(target.ids)
    embedding = weights["target_embedding.weight"][rows][:, order]
    result: dict[str, Tensor] = {}
    output = _own_output(weights, config, target)
    if config.share == "all" and output is None:
        result["model.shared.weight"] = embedding
    else:
        matrix = weights.get("source_embedding.weight", weights["target_embedding.weight"])
        matrix = matrix[torch.tensor(source.ids)][:, order]
        result["model.encoder.embed_tokens.weight"] = matrix
        result["model.decoder.embed_tokens.weight"] = embedding
        both = config.share in ("none", "target")
        if not both or (config.norm, config.positions) != ("post", "interleaved"):
            result["model.shared.weight"] = matrix.clone()  # separate in Marian alone
    if output is not None:
        result["lm_head.weight"] = output[:, order]
    if config.positions != "fairseq":  # M2M-100 has no output bias
        result["final_logits_bias"] = output_bias(weights, target)[None]
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        where = "source" if side == "encoder" else "target"
        if config.positions == "learned":
            table = weights[f"{where}_positions.weight"]
            result[f"model.{side}.embed_positions.weight"] = table.clone()
        elif config.positions == "interleaved" and config.norm == "pre":  # Pegasus stores its table
            table = sinusoids(POSITIONS, d, torch.float32, torch.device("cpu"))
            result[f"model.{side}.embed_positions.weight"] = table[:, order].clone()
        if config.embedding_norm:
            name = f"model.{side}.layernorm_embedding"
            _norm(result, name, weights, f"{where}_norm", order)
        if config.stack_norm:
            _norm(result, f"model.{side}.layer_norm", weights, f"{side}_norm", order)
        for number in range(layers):
            _layer(result, f"model.{side}.layers.{number}", weights, f"{side}.{number}", order)
    return {name: weight.contiguous() for name, weight in result.items()}


def _own_output(
    weights: Mapping[str, Tensor], config: TransformerConfig, target: Numbering
) -> Tensor | None:
    """Return the output matrix, (V, d), or None if it is the embedding of the target."""
    own = weights.get("output.weight")
    bias = output_bias(weights, target)
    if own is None and (config.positions != "fairseq" or not bias.any()):
        return None
    matrix = (weights["target_embedding.weight"] if own is None else own)[torch.tensor(target.ids)]
    return with_bias(matrix, bias, weights) if config.positions == "fairseq" else matrix


def with_bias(matrix: Tensor, bias: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Return an output matrix, (V, d), that gives the same logits without a bias, (V).

    The last norm gives h = γ x + β, where the x have the sum 0: the sum of all h / γ is that of all
    β / γ. A bias is therefore a multiple of 1 / γ, which is added to its row.
    """
    gamma, beta = (weights[f"decoder_norm.{kind}"].double() for kind in PARTS)
    multiples = bias.double().clamp(min=NEVER) / (beta / gamma).sum()
    return (matrix.double() + multiples[:, None] / gamma).float()


def holds_bias(bias: Tensor, weights: Mapping[str, Tensor]) -> bool:
    """Return whether `with_bias` changes no logit by more than `ROUNDING`."""
    gamma, beta = (weights[f"decoder_norm.{kind}"].detach().double() for kind in PARTS)
    terms = (len(gamma) + (beta / gamma).abs().sum()) / (beta / gamma).sum().abs()
    largest = bias[bias > NEVER].abs().max()
    worst = float(terms * largest * torch.finfo(torch.float32).eps)
    return worst < ROUNDING or not bias.any()


def output_bias(weights: Mapping[str, Tensor], target: Numbering) -> Tensor:
    """Return the bias of each entry of the other vocabulary, zeros if there is none."""
    if "output.bias" not in weights:
        return torch.zeros(len(target.ids))
    return weights["output.bias"].detach().cpu().float()[torch.tensor(target.ids)]


def _layer(
    result: dict[str, Tensor], name: str, weights: Mapping[str, Tensor], path: str, order: Tensor
) -> None:
    """Add a layer's weights: rows or columns of width d are permuted, heads are not."""
    d = len(order)
    zeros = torch.zeros(d)
    maps = {"self_attn": [("q", 0), ("k", 1), ("v", 2)]}
    fused = {"self_attn": f"{path}.attention.project"}
    if f"{path}.cross.query.weight" in weights:
        maps["encoder_attn"], fused["encoder_attn"] = [("k", 0), ("v", 1)], f"{path}.cross.project"
        result[f"{name}.encoder_attn.q_proj.weight"] = weights[f"{path}.cross.query.weight"][
            :, order
        ]
        result[f"{name}.encoder_attn.q_proj.bias"] = weights.get(f"{path}.cross.query.bias", zeros)
        _norm(result, f"{name}.encoder_attn_layer_norm", weights, f"{path}.cross_norm", order)
    for kind, parts in maps.items():
        weight = weights[f"{fused[kind]}.weight"][:, order]
        bias = weights.get(f"{fused[kind]}.bias", torch.zeros(len(weight)))
        for letter, index in parts:
            rows = slice(index * d, (index + 1) * d)
            result[f"{name}.{kind}.{letter}_proj.weight"] = weight[rows]
            result[f"{name}.{kind}.{letter}_proj.bias"] = bias[rows]
        out = f"{path}.{'attention' if kind == 'self_attn' else 'cross'}.out"
        result[f"{name}.{kind}.out_proj.weight"] = weights[f"{out}.weight"][order]
        result[f"{name}.{kind}.out_proj.bias"] = weights.get(f"{out}.bias", zeros)[order]
    _norm(result, f"{name}.self_attn_layer_norm", weights, f"{path}.attention_norm", order)
    _norm(result, f"{name}.final_layer_norm", weights, f"{path}.feedforward_norm", order)
    result[f"{name}.fc1.weight"] = weights[f"{path}.inner.weight"][:, order]
    result[f"{name}.fc1.bias"] = weights[f"{path}.inner.bias"]
    result[f"{name}.fc2.weight"] = weights[f"{path}.outer.weight"][order]
    result[f"{name}.fc2.bias"] = weights[f"{path}.outer.bias"][order]


def _norm(
    result: dict[str, Tensor], name: str, weights: Mapping[str, Tensor], path: str, order: Tensor
) -> None:
    for kind in PARTS:
        result[f"{name}.{kind}"] = weights[f"{path}.{kind}"][order]
