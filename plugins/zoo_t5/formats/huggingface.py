"""Export T5 as a Hugging Face folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from zoo.interop import (
    About,
    Checkpoint,
    Exporter,
    ForeignTokenizer,
    TokenizersPipeline,
    export_card,
    in_dtype,
    recommended_search,
    write_fast_tokenizer,
    write_json,
    write_tensors,
)
from zoo.nn import BEGIN, END, PADDING, UNKNOWN
from zoo_t5.config import T5Config
from zoo_t5.formats.settings import SIZES, TRANSLATION

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
"""Its names of the activations."""


class HuggingFace(Exporter):
    """Writes a T5, or a UMT5 where each layer has its own position biases."""

    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "bfloat16")
    version: ClassVar[int] = 3
    files: ClassVar[tuple[str, ...]] = (
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    )  # fmt: skip

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return what neither class can express."""
        config = cast(T5Config, checkpoint.config)
        tokenizer = checkpoint.source_tokenizer
        engine = tokenizer.engine if isinstance(tokenizer, ForeignTokenizer) else None
        reasons = {
            "share is none: its class has one matrix for both embeddings": config.share == "none",
            "a gate with the exact gelu: its gated-gelu is the approximation": config.gated
            and config.activation == "gelu",
            "layer_positions without scale_output: UMT5 scales": config.layer_positions
            and not config.scale_output,
            "two tokenizers: AutoTokenizer has one for both sides": tokenizer
            is not checkpoint.target_tokenizer
            and tokenizer.to_json() != checkpoint.target_tokenizer.to_json(),
            "its tokenizer is no pipeline of the library tokenizers": not tokenizer.portable
            or (engine is not None and not isinstance(engine, TokenizersPipeline)),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the folder."""
        config, ids = cast(T5Config, checkpoint.config), ids_of(checkpoint)
        weights = in_dtype(foreign_weights(checkpoint, ids), precision)
        write_tensors(folder / "model.safetensors", weights, metadata={"format": "pt"})
        start = start_of(checkpoint, ids)
        special = {
            "pad_token_id": ids.index(PADDING),
            "eos_token_id": ids.index(END),
            "decoder_start_token_id": start,
        }
        model = foreign_config(config, len(ids)) | task_parameters(checkpoint.about)
        write_json(folder / "config.json", {**model, **special, "dtype": precision})
        search = recommended_search(checkpoint, ids.index, BEGIN in ids)
        write_json(folder / "generation_config.json", {**special, **search})
        _write_tokenizer(checkpoint, ids, folder)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the name of the library."""
        note = "Load it with `AutoModelForSeq2SeqLM` and `AutoTokenizer`"
        return export_card(checkpoint, folder, precision, [note], "transformers")


def ids_of(checkpoint: Checkpoint) -> list[int]:
    """Return the zoo's id of each entry of the exported vocabulary.

    An imported tokenizer has its original order; entries without text follow in theirs. The begin
    token comes last, unless its row is a copy of another entry's, as it is before tuning.
    """
    tokenizer = checkpoint.source_tokenizer
    if not isinstance(tokenizer, ForeignTokenizer):
        return [*range(tokenizer.size)]
    assert isinstance(tokenizer.engine, TokenizersPipeline)
    known = tokenizer.engine.ids
    ids = [*known, *(i for i in range(UNKNOWN + 1, tokenizer.size) if i not in {*known})]
    return ids if BEGIN in ids or _copies(checkpoint, ids) else [*ids, BEGIN]


def start_of(checkpoint: Checkpoint, ids: list[int]) -> int:
    """Return the entry from which the decoder starts: begin, or what begin is a copy of."""
    if BEGIN in ids:
        return ids.index(BEGIN)
    equal, padding = _copies(checkpoint, ids), ids.index(PADDING)
    return padding if padding in equal else equal[0]


def _copies(checkpoint: Checkpoint, ids: list[int]) -> list[int]:
    """Return the entries that have the begin token's rows, also in an output of their own."""
    equal = torch.ones(len(ids), dtype=torch.bool)
    for name, weight in checkpoint.model.named_parameters():
        if name in ("target_embedding.weight", "output.weight"):
            equal &= (weight[torch.tensor(ids)] == weight[BEGIN]).all(1)
    return equal.nonzero().flatten().tolist()


def foreign_config(config: T5Config, vocab: int) -> dict[str, Any]:
    """Return the values of `config.json`."""
    activation = ACTIVATIONS[config.activation]
    gelu = config.gated and config.activation == "gelu_tanh"
    sizes = {name: getattr(config, inner) for name, inner in SIZES.items()}
    # Before version 5, transformers scaled the outputs if and only if the matrix was shared.
    tied = config.share == "all" and config.scale_output
    return {
        **sizes,
        "model_type": "umt5" if config.layer_positions else "t5",
        "architectures": [
            ("UMT5" if config.layer_positions else "T5") + "ForConditionalGeneration"
        ],
        "vocab_size": vocab,
        "feed_forward_proj": "gated-gelu" if gelu else "gated-" * config.gated + activation,
        "dense_act_fn": activation,
        "is_gated_act": config.gated,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.norm_epsilon,
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": config.scale_output,
        "is_encoder_decoder": True,
        "transformers_version": "5.0.0",
    }


def task_parameters(about: About) -> dict[str, Any]:
    """Return the prefixes of tasks as `config.json` has them, if its names can have all languages.

    Those without languages are named by their prefix: their names are not known.
    """
    named = {
        f"translation_{source}_to_{target}" if source or target else prefix.strip(): prefix
        for prefix, (source, target) in about.tasks.items()
    }
    translates = [name for name in named if name.startswith("translation_")]
    if len(named) < len(about.tasks) or not all(map(TRANSLATION.fullmatch, translates)):
        return {}  # an import has them from the card
    return {"task_specific_params": {name: {"prefix": named[name]} for name in named}}


def foreign_weights(checkpoint: Checkpoint, ids: list[int]) -> dict[str, Tensor]:
    """Return the weights by their names in transformers."""
    config = cast(T5Config, checkpoint.config)
    named = checkpoint.model.named_parameters()
    weights = {name: weight.detach().cpu().float() for name, weight in named}
    rows = torch.tensor(ids)
    embedding = weights["target_embedding.weight"][rows]
    result = {"shared.weight": embedding}
    if not (config.share == "all" and config.scale_output):
        own = weights.get("output.weight", weights["target_embedding.weight"])
        result["lm_head.weight"] = own[rows].clone()
    for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        result[f"{stack}.final_layer_norm.weight"] = weights[f"{stack}_norm.weight"]
        for number in range(layers):
            result |= _layer(weights, config, stack, number)
    return {name: weight.contiguous() for name, weight in result.items()}


def _layer(
    weights: Mapping[str, Tensor], config: T5Config, stack: str, number: int
) -> dict[str, Tensor]:
    """Return the weights of one layer; its position biases are there if it has any."""
    block, path = f"{stack}.block.{number}.layer", f"{stack}.{number}"
    own, last = f"{block}.0.SelfAttention", 2 if stack == "decoder" else 1
    result = {
        f"{own}.o.weight": weights[f"{path}.attention.out.weight"],
        f"{block}.0.layer_norm.weight": weights[f"{path}.attention_norm.weight"],
        f"{block}.{last}.layer_norm.weight": weights[f"{path}.feedforward_norm.weight"],
        f"{block}.{last}.DenseReluDense.wo.weight": weights[f"{path}.outer.weight"],
    }
    fused = [(own, "qkv", f"{path}.attention.project.weight")]
    if stack == "decoder":
        cross = f"{block}.1.EncDecAttention"
        result[f"{cross}.q.weight"] = weights[f"{path}.cross.query.weight"]
        result[f"{cross}.o.weight"] = weights[f"{path}.cross.out.weight"]
        result[f"{block}.1.layer_norm.weight"] = weights[f"{path}.cross_norm.weight"]
        fused.append((cross, "kv", f"{path}.cross.project.weight"))
    for name, letters, source in fused:
        parts = weights[source].chunk(len(letters))
        result |= {f"{name}.{x}.weight": part for x, part in zip(letters, parts, strict=True)}
    inner = ("wi_0", "wi_1") if config.gated else ("wi",)
    parts = weights[f"{path}.inner.weight"].chunk(len(inner))
    dense = f"{block}.{last}.DenseReluDense"
    result |= {f"{dense}.{x}.weight": part for x, part in zip(inner, parts, strict=True)}
    if number == 0 or config.layer_positions:
        table = weights[f"{stack}_positions.{number}.weight"]
        result[f"{own}.relative_attention_bias.weight"] = table
    return result


def _write_tokenizer(checkpoint: Checkpoint, ids: list[int], folder: Path) -> None:
    """Write the pipeline, in which special tokens have their names again.

    Sentinels, and tokens that were added as special, are special: they are found in a text, and
    are in no translation.
    """
    tokenizer = checkpoint.source_tokenizer
    names = [tokenizer.token(i) for i in ids]
    prefix: list[int] = []
    clean = False
    more: dict[str, Any] = {}
    if isinstance(tokenizer, ForeignTokenizer):
        assert isinstance(tokenizer.engine, TokenizersPipeline)
        clean = tokenizer.entries.clean
        content = _named(tokenizer.engine.pipeline, names)
        prefix = [ids.index(i) for i in tokenizer.entries.prefix]
        silent = {*tokenizer.control} - {*tokenizer.tags.values()}
        extra = [token for token in content["added_tokens"] if ids[token["id"]] in silent]
        for token in extra:
            token["special"] = True
        if extra:
            listed = [token["content"] for token in extra]
            more = {"additional_special_tokens": listed, "split_special_tokens": False}
    else:
        content = json.loads(tokenizer.to_json())
    special = {
        f"{kind}_token": names[ids.index(inner)]
        for kind, inner in (("pad", PADDING), ("eos", END), ("unk", UNKNOWN))
    }
    write_fast_tokenizer(folder, content, names, prefix, ids.index(END), special | more, clean)


def _named(pipeline: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return a pipeline in which hidden entries, `\\0id\\0`, have their names."""

    def name(text: str) -> str:
        return names[int(text[1:-1])] if text.startswith("\0") and len(text) > 2 else text

    model = dict(pipeline["model"])
    if isinstance(model["vocab"], list):
        model["vocab"] = [[name(piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {name(piece): i for piece, i in model["vocab"].items()}
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = name(model["unk_token"])
    added = [{**t, "content": name(t["content"])} for t in pipeline["added_tokens"]]
    present = {token["id"] for token in added}
    hidden = _hidden_ids(pipeline)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added += [
        {"id": i, "content": names[i], **flags, "special": True} for i in sorted(hidden - present)
    ]
    added.sort(key=lambda token: int(token["id"]))
    return {**pipeline, "model": model, "added_tokens": added}


def _hidden_ids(pipeline: Mapping[str, Any]) -> set[int]:
    """Return the ids of entries of the model that no text becomes."""
    vocab = pipeline["model"]["vocab"]
    pieces = [piece for piece, _ in vocab] if isinstance(vocab, list) else [*vocab]
    return {int(piece[1:-1]) for piece in pieces if piece.startswith("\0") and len(piece) > 2}
