"""Folders of the family of BART, and what their networks compute, one sentence at a time.

The reference is written from the papers and the documentation of the library transformers, with
plain operations of torch; it shares no code with the importers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

SIZES = {
    "d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "dropout": 0.1,
}  # fmt: skip
Weights = dict[str, Tensor]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
}
LONGEST = 30
"""Positions of a learned table."""


@dataclass(frozen=True)
class Rules:
    """How a member of the family computes.

    Attributes:
        pre: whether a norm precedes each sublayer and follows each stack; else it follows each sum.
        positions: `learned`, `halves` or `fairseq`.
        first: the position of the first token.
        embedding_norm: whether the sum of embedding and position is normalized.
        output: the name of the output matrix, if it is not tied.
        bias: whether there is `final_logits_bias`.
    """

    pre: bool
    positions: str
    first: int = 0
    embedding_norm: bool = False
    output: str = "lm_head.weight"
    bias: bool = True


def position(w: Weights, rules: Rules, side: str, p: int, d: int) -> Tensor:
    """Return the vector of the p-th token."""
    p += rules.first
    if rules.positions == "learned":
        return w[f"model.{side}.embed_positions.weight"][p]
    last = d / 2 if rules.positions == "halves" else d / 2 - 1
    angles = [p / 10000 ** (i / last) for i in range(d // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def reference(
    w: Weights, config: dict[str, Any], rules: Rules, source: Tensor, target: Tensor
) -> Tensor:
    """Return the logits of one sentence, (n, vocabulary), from ids (m,) and (n,)."""
    d, heads = config["d_model"], config["encoder_attention_heads"]
    activation = ACTIVATIONS[config["activation_function"]]
    scale = math.sqrt(d) if config["scale_embedding"] else 1.0

    def norm(x: Tensor, name: str) -> Tensor:
        centered = x - x.mean(1, keepdim=True)
        deviation = (centered.square().mean(1, keepdim=True) + 1e-5).sqrt()
        return centered / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def embed(tokens: Tensor, side: str) -> Tensor:
        own = f"model.{side}.embed_tokens.weight"
        matrix = w[own] if own in w else w["model.shared.weight"]
        x = torch.stack([
            matrix[token] * scale + position(w, rules, side, p, d)
            for p, token in enumerate(tokens.tolist())
        ])  # fmt: skip
        return norm(x, f"model.{side}.layernorm_embedding") if rules.embedding_norm else x

    def line(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def attend(x: Tensor, other: Tensor, name: str, causal: bool) -> Tensor:
        q, k, v = (line(y, f"{name}.{c}_proj") for y, c in ((x, "q"), (other, "k"), (other, "v")))
        parts = []
        for h in range(heads):
            s = slice(h * d // heads, (h + 1) * d // heads)
            scores = q[:, s] @ k[:, s].T / math.sqrt(d / heads)
            if causal:
                scores = scores + torch.full_like(scores, -math.inf).triu(1)
            parts.append(scores.softmax(1) @ v[:, s])
        return line(torch.cat(parts, 1), f"{name}.out_proj")

    def sublayer(x: Tensor, name: str, f: Callable[[Tensor], Tensor]) -> Tensor:
        return x + f(norm(x, name)) if rules.pre else norm(x + f(x), name)

    def run_layer(x: Tensor, path: str, memory: Tensor | None) -> Tensor:
        causal = memory is not None
        attention = f"{path}.self_attn"
        x = sublayer(x, f"{attention}_layer_norm", lambda y: attend(y, y, attention, causal))
        if memory is not None:
            cross = f"{path}.encoder_attn"
            x = sublayer(x, f"{cross}_layer_norm", lambda y: attend(y, memory, cross, False))

        def feedforward(y: Tensor) -> Tensor:
            return line(activation(line(y, f"{path}.fc1")), f"{path}.fc2")

        return sublayer(x, f"{path}.final_layer_norm", feedforward)

    def stack(x: Tensor, side: str, memory: Tensor | None) -> Tensor:
        for layer in range(config[f"{side}_layers"]):
            x = run_layer(x, f"model.{side}.layers.{layer}", memory)
        return norm(x, f"model.{side}.layer_norm") if rules.pre else x

    memory = stack(embed(source, "encoder"), "encoder", None)
    output = stack(embed(target, "decoder"), "decoder", memory)
    own = "model.decoder.embed_tokens.weight"
    tied = own if own in w else "model.shared.weight"
    logits = output @ w[rules.output if rules.output in w else tied].T
    return logits + w["final_logits_bias"][0] if rules.bias else logits


def random_weights(config: dict[str, Any], rules: Rules, vocab: int, target_vocab: int) -> Weights:
    """Return weights by their names in the library, each embedding and the output apart."""
    torch.manual_seed(4)
    d, f = config["d_model"], config["encoder_ffn_dim"]
    norms: list[str] = []
    shapes: dict[str, tuple[int, ...]] = {
        "model.encoder.embed_tokens.weight": (vocab, d),
        "model.decoder.embed_tokens.weight": (target_vocab, d),
        rules.output: (target_vocab, d),
    }
    for side in ("encoder", "decoder"):
        norms += [f"model.{side}.layer_norm"] * rules.pre
        norms += [f"model.{side}.layernorm_embedding"] * rules.embedding_norm
        if rules.positions == "learned":
            shapes[f"model.{side}.embed_positions.weight"] = (LONGEST + rules.first, d)
        for layer in range(config[f"{side}_layers"]):
            path = f"model.{side}.layers.{layer}"
            parts = ["self_attn"] + ["encoder_attn"] * (side == "decoder")
            for part in parts:
                for x in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes[f"{path}.{part}.{x}.weight"] = (d, d)
                    shapes[f"{path}.{part}.{x}.bias"] = (d,)
            norms += [f"{path}.{part}_layer_norm" for part in (*parts, "final")]
            shapes |= {f"{path}.fc1.weight": (f, d), f"{path}.fc1.bias": (f,)}
            shapes |= {f"{path}.fc2.weight": (d, f), f"{path}.fc2.bias": (d,)}
    if rules.bias:
        shapes["final_logits_bias"] = (1, target_vocab)
    shapes |= {f"{name}.{x}": (d,) for name in norms for x in ("weight", "bias")}
    weights = {name: torch.randn(shape) * 0.4 for name, shape in shapes.items()}
    return {n: w + 1 if n.endswith("norm.weight") else w for n, w in weights.items()}


def write(
    folder: Path, rules: Rules, sizes: tuple[int, int], settings: dict[str, Any],
    tied: str = "all", **values: Any,
) -> tuple[dict[str, Any], Weights]:  # fmt: skip
    """Write `config.json` and weights; return both. `tied` is `all`, `output` or nothing."""
    config = {"activation_function": "gelu", "scale_embedding": False, **SIZES, **values}
    weights = random_weights(config, rules, *sizes)
    target = weights["model.decoder.embed_tokens.weight"]
    if tied:
        weights[rules.output] = target.clone()
    if tied == "all":
        weights["model.encoder.embed_tokens.weight"] = target.clone()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    return config, {name: weight.double() for name, weight in weights.items()}
