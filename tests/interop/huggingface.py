"""Folders as the library transformers writes them, and what their networks compute.

The reference is written from that library's documentation with plain operations of torch, one
position table, one head and one sentence at a time; it shares no code with the importers.
"""

from __future__ import annotations

import functools
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

LINES = (
    "A dog runs over the green grass.",
    "Two men are cooking in a small kitchen, and a child watches them.",
    "Ein Hund läuft über das grüne Gras.",
    "Zwei Männer kochen in einer kleinen Küche.",
)
SIZES = {
    "d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "dropout": 0.1,
}  # fmt: skip


@functools.cache
def model_of(lines: tuple[str, ...], size: int = 56) -> bytes:
    """Return a SentencePiece model."""
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=content, vocab_size=size,
        num_threads=1, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return content.getvalue()


def random_weights(config: dict[str, Any], vocab: int) -> dict[str, Tensor]:
    """Return weights by their names in the library."""
    torch.manual_seed(4)
    d, f = config["d_model"], config["encoder_ffn_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (vocab, d)}
    for side in ("encoder", "decoder"):
        for layer in range(config[f"{side}_layers"]):
            path = f"model.{side}.layers.{layer}"
            parts = ["self_attn"] + ["encoder_attn"] * (side == "decoder")
            for part in parts:
                for x in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes[f"{path}.{part}.{x}.weight"] = (d, d)
                    shapes[f"{path}.{part}.{x}.bias"] = (d,)
            for norm in (*(f"{part}_layer_norm" for part in parts), "final_layer_norm"):
                shapes |= {f"{path}.{norm}.{x}": (d,) for x in ("weight", "bias")}
            shapes |= {f"{path}.fc1.weight": (f, d), f"{path}.fc1.bias": (f,)}
            shapes |= {f"{path}.fc2.weight": (d, f), f"{path}.fc2.bias": (d,)}
    shapes["final_logits_bias"] = (1, vocab)
    weights = {name: torch.randn(shape) * 0.4 for name, shape in shapes.items()}
    return {n: w + 1 if n.endswith("norm.weight") else w for n, w in weights.items()}


def reference(
    w: dict[str, Tensor], config: dict[str, Any], source: Tensor, target: Tensor
) -> Tensor:
    """Return the logits of one sentence, (n, vocabulary), from ids (m,) and (n,): Marian's."""
    d, heads = config["d_model"], config["encoder_attention_heads"]
    activations: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": F.relu,
        "swish": F.silu,
        "gelu": F.gelu,
    }
    activation = activations[config["activation_function"]]
    scale = math.sqrt(d) if config["scale_embedding"] else 1.0

    def embed(tokens: Tensor) -> Tensor:
        x = w["model.shared.weight"][tokens] * scale
        for p in range(len(tokens)):
            for i in range(d // 2):
                angle = p / 10000 ** (2 * i / d)
                x[p, i] += math.sin(angle)
                x[p, d // 2 + i] += math.cos(angle)
        return x

    def line(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (d,), w[f"{name}.weight"], w[f"{name}.bias"])

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

    def stack(x: Tensor, side: str, memory: Tensor | None) -> Tensor:
        for layer in range(config[f"{side}_layers"]):
            path = f"model.{side}.layers.{layer}"
            attended = attend(x, x, f"{path}.self_attn", memory is not None)
            x = norm(x + attended, f"{path}.self_attn_layer_norm")
            if memory is not None:
                attended = attend(x, memory, f"{path}.encoder_attn", False)
                x = norm(x + attended, f"{path}.encoder_attn_layer_norm")
            inner = activation(line(x, f"{path}.fc1"))
            x = norm(x + line(inner, f"{path}.fc2"), f"{path}.final_layer_norm")
        return x

    output = stack(embed(target), "decoder", stack(embed(source), "encoder", None))
    return output @ w["model.shared.weight"].T + w["final_logits_bias"][0]


def marian(folder: Path, tags: tuple[str, ...] = (), **values: Any) -> dict[str, Tensor]:
    """Write a folder of Marian, ids in another order than the pieces; return its weights."""
    folder.mkdir(parents=True)
    pieces: set[str] = set()
    for side, lines in (("source", LINES[:2]), ("target", LINES[2:])):
        model = model_of(lines)
        (folder / f"{side}.spm").write_bytes(model)
        processor = SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i) for i in range(3, processor.get_piece_size())}
    names = ["</s>", "<unk>", *tags, *sorted(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    config = {
        "model_type": "marian", "vocab_size": len(names), "pad_token_id": len(names) - 1,
        "eos_token_id": 0, "decoder_start_token_id": len(names) - 1, "num_beams": 6,
        "activation_function": "swish", "scale_embedding": True, "max_length": 512,
        "bad_words_ids": [[len(names) - 1]], **SIZES, **values,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"source_lang": "eng", "target_lang": "deu", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    weights = random_weights(config, len(names))
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    return weights
