"""Folders in the layout that transformers writes for T5, and their logits by the equations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from tests.plugins.test_t5 import bucket
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

PIECES = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.5),
          ("▁a", -2.5), ("ab", -4.0), ("▁ab", -5.5), ("ba", -3.9), ("c", -6.0), ("<", -7.0),
          (">", -7.0), ("/", -7.0), ("s", -7.0), ("<2de>", -20.0), ("<2fr>", -20.0)]  # fmt: skip
SENTINELS = ["<extra_id_1>", "<extra_id_0>"]
VOCABULARY = len(PIECES) + len(SENTINELS) + 3

CONFIG: dict[str, Any] = {
    "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": VOCABULARY,
    "d_model": 12, "d_kv": 5, "d_ff": 14, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 2,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
    "layer_norm_epsilon": 1e-6, "dropout_rate": 0.1, "feed_forward_proj": "relu", "pad_token_id": 0,
    "eos_token_id": 1, "decoder_start_token_id": 0, "is_encoder_decoder": True,
}  # fmt: skip


def random_tensors(config: dict[str, Any], own_output: bool) -> dict[str, Tensor]:
    """Return random weights by transformers' names."""
    d, k = config["d_model"], config["num_heads"] * config["d_kv"]
    f, heads = config["d_ff"], config["num_heads"]
    shapes: dict[str, tuple[int, ...]] = {"shared.weight": (config["vocab_size"], d)}
    if own_output:
        shapes["lm_head.weight"] = (config["vocab_size"], d)
    for stack, layers in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
        shapes[f"{stack}.final_layer_norm.weight"] = (d,)
        for layer in range(config[layers]):
            parts = ["SelfAttention", "EncDecAttention"][: 1 if stack == "encoder" else 2]
            for i, part in enumerate(parts):
                path = f"{stack}.block.{layer}.layer.{i}"
                shapes |= {f"{path}.{part}.{name}.weight": (k, d) for name in "qkv"}
                shapes[f"{path}.{part}.o.weight"] = (d, k)
                shapes[f"{path}.layer_norm.weight"] = (d,)
                if part == "SelfAttention" and (layer == 0 or config["model_type"] == "umt5"):
                    name = f"{path}.{part}.relative_attention_bias.weight"
                    shapes[name] = (config["relative_attention_num_buckets"], heads)
            path = f"{stack}.block.{layer}.layer.{len(parts)}"
            shapes[f"{path}.layer_norm.weight"] = (d,)
            shapes[f"{path}.DenseReluDense.wo.weight"] = (d, f)
            gated = config["feed_forward_proj"].startswith("gated")
            for name in ("wi_0", "wi_1") if gated else ("wi",):
                shapes[f"{path}.DenseReluDense.{name}.weight"] = (f, d)
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(shape, generator=generator) / 3 for name, shape in shapes.items()}


def foreign_logits(
    w: dict[str, Tensor], config: dict[str, Any], source: Tensor, target: Tensor, scaled: bool
) -> Tensor:
    """Return T5's logits for one sentence of foreign ids, by the equations, (n, vocab)."""
    heads = config["num_heads"]

    def norm(x: Tensor, path: str) -> Tensor:
        mean = (x**2).mean(-1, keepdim=True)
        return w[f"{path}.weight"] * x / (mean + config["layer_norm_epsilon"]).sqrt()

    def attend(x: Tensor, y: Tensor, path: str, bias: Tensor | float) -> Tensor:
        q, k, v = (
            (z @ w[f"{path}.{name}.weight"].T).unflatten(1, (heads, -1)).transpose(0, 1)
            for name, z in (("q", x), ("k", y), ("v", y))
        )
        weights = (q @ k.transpose(1, 2) + bias).softmax(-1)
        return (weights @ v).transpose(0, 1).flatten(1) @ w[f"{path}.o.weight"].T

    def biases(stack: str, layer: int, n: int) -> Tensor:
        layer = layer if config["model_type"] == "umt5" else 0
        table = w[f"{stack}.block.{layer}.layer.0.SelfAttention.relative_attention_bias.weight"]
        count, furthest = (
            config[f"relative_attention_{x}"] for x in ("num_buckets", "max_distance")
        )
        rows = [[table[bucket(j - i, count, furthest, stack == "encoder")] for j in range(n)]
                for i in range(n)]  # fmt: skip
        bias = torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)
        causal = torch.full((n, n), -math.inf, dtype=bias.dtype).triu(1)
        return bias if stack == "encoder" else bias + causal

    def feedforward(x: Tensor, path: str) -> Tensor:
        y, path = norm(x, f"{path}.layer_norm"), f"{path}.DenseReluDense"
        if config["feed_forward_proj"] == "gated-gelu":
            g = y @ w[f"{path}.wi_0.weight"].T
            g = g / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)))
            y = g * (y @ w[f"{path}.wi_1.weight"].T)
        else:
            y = (y @ w[f"{path}.wi.weight"].T).clamp(min=0)
        return x + y @ w[f"{path}.wo.weight"].T

    x, y = w["shared.weight"][source], w["shared.weight"][target]
    for layer in range(config["num_layers"]):
        path = f"encoder.block.{layer}.layer"
        z = norm(x, f"{path}.0.layer_norm")
        x = x + attend(z, z, f"{path}.0.SelfAttention", biases("encoder", layer, len(source)))
        x = feedforward(x, f"{path}.1")
    memory = norm(x, "encoder.final_layer_norm")
    for layer in range(config["num_decoder_layers"]):
        path = f"decoder.block.{layer}.layer"
        z = norm(y, f"{path}.0.layer_norm")
        y = y + attend(z, z, f"{path}.0.SelfAttention", biases("decoder", layer, len(target)))
        z = norm(y, f"{path}.1.layer_norm")
        y = feedforward(y + attend(z, memory, f"{path}.1.EncDecAttention", 0.0), f"{path}.2")
    y = norm(y, "decoder.final_layer_norm") * (config["d_model"] ** -0.5 if scaled else 1)
    return y @ w.get("lm_head.weight", w["shared.weight"]).T


def tokenizer_json() -> dict[str, Any]:
    """Return a unigram tokenizer as transformers writes it."""

    def added(content: str, id: int) -> dict[str, Any]:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        return {"id": id, "content": content, **flags, "special": not content.startswith("<2")}

    names = [piece for piece, _ in PIECES] + SENTINELS
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(names[i], i) for i in (0, 1, 2, 15, 16, 17, 18)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                                                                metaspace]},
        "post_processor": None, "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": 2, "vocab": list(PIECES), "byte_fallback": False},
    }  # fmt: skip


def write_folder(
    folder: Path, values: dict[str, Any] | None = None, own_output: bool = False
) -> dict[str, Tensor]:
    """Write a folder in transformers' layout and return its tensors."""
    config = {**CONFIG, **(values or {})}
    tensors = random_tensors(config, own_output)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return tensors


def imported(folder: Path, **options: str) -> Checkpoint:
    registry = default_registry()
    out = folder.with_name(f"{folder.name}.zoo")
    assert import_checkpoint(folder, out, registry, options=options) == "t5"
    return read(out, registry)


def rows_of(start: int = 0) -> list[int]:
    first = [0, start, 1, 2]
    return [*first, *(i for i in range(VOCABULARY) if i not in first)]
