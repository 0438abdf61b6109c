"""Export a Transformer as a Hugging Face folder that `AutoModelForSeq2SeqLM` loads.

The class is Marian's for post-norm, and Pegasus's for pre-norm with a norm after each stack. Both
add sinusoids whose first half are sines and whose second half are cosines, where the zoo's
alternate: every weight's width d is permuted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from zoo.interop import Checkpoint, Exporter, export_card, write_json, write_tensors
from zoo.nn import BEGIN, END, PADDING, UNKNOWN
from zoo_transformer.config import TransformerConfig
from zoo_transformer.network import sinusoids

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "tanh": "tanh"
}  # fmt: skip
"""Its names of the activations."""

POSITIONS = 1024
"""Positions in the table that it computes: it reads and writes no more tokens."""


class HuggingFace(Exporter):
    """Writes `config.json`, `model.safetensors`, `generation_config.json` and a tokenizer."""

    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "bfloat16")

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return what neither class can express."""
        config = cast(TransformerConfig, checkpoint.config)
        reasons = {
            "norm is branch: Marian has post, Pegasus pre": config.norm == "branch",
            "unbiased_norm": config.unbiased_norm,
            "embedding_norm": config.embedding_norm,
            "a norm after each stack: Marian has none": config.norm == "post" and config.stack_norm,
            "no norm after each stack: Pegasus has one": config.norm == "pre"
            and not config.stack_norm,
            f"norm_epsilon {config.epsilon}: theirs is 1e-5": config.epsilon != 1e-5,
            f"positions are {config.positions}: theirs are sinusoids": config.positions
            != "interleaved",
            "source_end is false: theirs read it": not config.source_end,
            f"position_offset {config.position_offset}": config.position_offset != 0,
            f"share is {config.share}: Pegasus shares one matrix": config.norm == "pre"
            and config.share != "all",
            "share is embeddings: Marian ties the output too": config.norm == "post"
            and config.share == "embeddings",
            "two tokenizers: AutoTokenizer has one for both sides": checkpoint.source_tokenizer
            is not checkpoint.target_tokenizer,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the folder."""
        config = cast(TransformerConfig, checkpoint.config)
        kind = getattr(torch, precision)
        weights = {name: weight.to(kind) for name, weight in foreign_weights(checkpoint).items()}
        write_tensors(folder / "model.safetensors", weights)
        model = foreign_config(config, checkpoint.model.target_vocab)
        write_json(folder / "config.json", {**model, "dtype": precision})
        write_json(folder / "generation_config.json", GENERATION | {"max_length": POSITIONS // 2})
        tokenizer = json.loads(checkpoint.source_tokenizer.to_json())
        tokenizer["post_processor"] = POST_PROCESSOR
        write_json(folder / "tokenizer.json", tokenizer)
        write_json(folder / "tokenizer_config.json", TOKENIZER)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the name of the library."""
        notes = (
            "Load it with `AutoModelForSeq2SeqLM` and `AutoTokenizer`; no code of this repository "
            "runs",
        )
        return export_card(checkpoint, folder, precision, notes, "transformers")


GENERATION: dict[str, Any] = {
    "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PADDING,
    "decoder_start_token_id": BEGIN, "forced_eos_token_id": None, "num_beams": 1,
    "suppress_tokens": [PADDING, BEGIN, UNKNOWN], "begin_suppress_tokens": [END],
}  # fmt: skip
"""Greedy search that never writes padding, begin or unknown, nor nothing, as the zoo's."""

POST_PROCESSOR = {
    "type": "TemplateProcessing",
    "single": [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
    ],
    "pair": [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
    ],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [END], "tokens": ["</s>"]}},
}
"""Appends the end token to a source."""

TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
    "clean_up_tokenization_spaces": False, "split_special_tokens": True,
    "model_max_length": 1024, "padding_side": "right",
    "model_input_names": ["input_ids", "attention_mask"],
}  # fmt: skip
"""As the zoo's tokenizers: the text `</s>` is text."""


def foreign_config(config: TransformerConfig, vocab: int) -> dict[str, Any]:
    """Return the values of `config.json`; those that differ from a class's defaults are all set."""
    pre = config.norm == "pre"
    tied = config.share in ("target", "all")
    values: dict[str, Any] = {
        "model_type": "pegasus" if pre else "marian",
        "architectures": ["PegasusForConditionalGeneration" if pre else "MarianMTModel"],
        "vocab_size": vocab,
        "d_model": config.dim,
        "max_position_embeddings": POSITIONS,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "tie_word_embeddings": tied,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "is_encoder_decoder": True,
        "pad_token_id": PADDING,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
        "forced_eos_token_id": None,
    }
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        values |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.heads,
            f"{side}_ffn_dim": config.feedforward_dim,
            f"{side}_layerdrop": 0.0,
        }
    values["num_hidden_layers"] = config.encoder_layers
    if not pre:
        values |= {
            "decoder_vocab_size": vocab,
            "share_encoder_decoder_embeddings": config.share == "all",
        }
    return values


def foreign_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the weights under the names of Marian and Pegasus, with the width permuted."""
    config = cast(TransformerConfig, checkpoint.config)
    named = checkpoint.model.named_parameters()
    weights = {name: weight.detach().cpu().float() for name, weight in named}
    d = config.dim
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    target = weights["target_embedding.weight"][:, order]
    result: dict[str, Tensor] = {}
    if config.share == "all":
        result["model.shared.weight"] = target
    else:
        source = weights["source_embedding.weight"][:, order]
        result["model.encoder.embed_tokens.weight"] = source
        result["model.decoder.embed_tokens.weight"] = target
        if config.share == "none":
            result["lm_head.weight"] = weights["output.weight"][:, order]
    bias = weights.get("output.bias", torch.zeros(len(target)))
    result["final_logits_bias"] = bias[None]
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        if config.norm == "pre":  # Pegasus stores its table
            table = sinusoids(POSITIONS, d, torch.float32, torch.device("cpu"))
            result[f"model.{side}.embed_positions.weight"] = table[:, order].clone()
            _norm(result, f"model.{side}.layer_norm", weights, f"{side}_norm", order)
        for number in range(layers):
            _layer(result, f"model.{side}.layers.{number}", weights, f"{side}.{number}", order)
    return {name: weight.contiguous() for name, weight in result.items()}


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
    for kind in ("weight", "bias"):
        result[f"{name}.{kind}"] = weights[f"{path}.{kind}"][order]
