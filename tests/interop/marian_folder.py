"""Folders as Marian writes them, and what its network computes, one sentence at a time.

The reference is written from Marian's documentation and its sources' formulas with plain operations
of NumPy; it shares no code with the importer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

Array = npt.NDArray[Any]
WORDS = [f"w{i}" for i in range(2, 20)]
SETTINGS: dict[str, Any] = {
    "type": "transformer", "dim-emb": 12, "dim-vocabs": [20, 20], "enc-depth": 2, "dec-depth": 1,
    "transformer-heads": 3, "transformer-dim-ffn": 20, "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "swish", "transformer-preprocess": "",
    "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "", "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False, "transformer-train-position-embeddings": False,
    "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last",
    "transformer-depth-scaling": True, "tied-embeddings": False, "tied-embeddings-src": False,
    "tied-embeddings-all": True, "right-left": False, "input-types": [], "lemma-dim-emb": 0,
    "layer-normalization": False, "transformer-aan-depth": 2, "transformer-aan-nogate": False,
    "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "ulr-dim-emb": 0, "max-length": 50,
    "transformer-aan-activation": "swish", "transformer-dim-aan": 2048, "transformer-pool": False,
    "dim-rnn": 1024, "dec-cell": "gru", "enc-cell": "gru", "enc-type": "bidirectional",
    "enc-cell-depth": 1, "skip": False, "ulr": False, "version": "v1.12.0",
}  # fmt: skip


def parameters(options: dict[str, Any]) -> dict[str, Array]:
    """Return random parameters, by Marian's names."""
    random = np.random.default_rng(1)
    d, f = options["dim-emb"], options["transformer-dim-ffn"]
    source, target = options["dim-vocabs"]
    shapes: dict[str, tuple[int, int]] = {"decoder_ff_logit_out_b": (1, target)}
    scales = []
    suffix = "_pre" if "n" in options["transformer-preprocess"] else ""

    def norm(name: str, suffix: str) -> None:
        scales.append(f"{name}_ln_scale{suffix}")
        shapes.update({scales[-1]: (1, d), f"{name}_ln_bias{suffix}": (1, d)})

    for side, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        for layer in range(1, options[depth] + 1):
            path = f"{side}_l{layer}"
            for block in ["self"] + ["context"] * (side == "decoder"):
                for x in "qkvo":
                    shapes |= {f"{path}_{block}_W{x}": (d, d), f"{path}_{block}_b{x}": (1, d)}
                norm(f"{path}_{block}_Wo", suffix)
            shapes |= {f"{path}_ffn_W1": (d, f), f"{path}_ffn_b1": (1, f)}
            shapes |= {f"{path}_ffn_W2": (f, d), f"{path}_ffn_b2": (1, d)}
            norm(f"{path}_ffn_ffn", suffix)
        if "n" in options["transformer-postprocess-top"]:
            norm(f"{side}_top", "")
        if "n" in options["transformer-postprocess-emb"]:
            norm(f"{side}_emb", "_pre")
    if options["tied-embeddings-all"] or options["tied-embeddings-src"]:
        shapes["Wemb"] = (source, d)
    else:
        shapes |= {"encoder_Wemb": (source, d), "decoder_Wemb": (target, d)}
    if not (options["tied-embeddings-all"] or options["tied-embeddings"]):
        shapes["decoder_ff_logit_out_Wt"] = (target, d)
    return {
        name: ((name in scales) + random.standard_normal(shape) * d**-0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def settings_bytes(options: dict[str, Any]) -> Array:
    """Return the settings as an archive has them, with the byte 0 at the end."""
    return np.frombuffer(f"{yaml.safe_dump(options)}\0".encode(), dtype=np.int8)


def write(folder: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Write a folder; return its settings and its parameters."""
    folder.mkdir(parents=True)
    settings = SETTINGS | options
    arrays = parameters(settings)
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": settings_bytes(settings)})  # type: ignore[arg-type]
    for side, size in zip(("src", "trg"), settings["dim-vocabs"], strict=True):
        lines = [f'"{word}": {i}\n' for i, word in enumerate(["</s>", "<unk>", *WORDS][:size])]
        (folder / f"vocab.{side}.yml").write_text("".join(lines), encoding="utf-8")
    decoder = {"models": ["/else/model.npz"], "vocabs": ["/else/vocab.src.yml", "vocab.trg.yml"],
               "beam-size": 6, "normalize": 0.6, "relative-paths": True}  # fmt: skip
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    return settings, arrays


def logits(
    w: dict[str, Array], options: dict[str, Any], source: list[int], target: list[int],
    raw_keys: bool = False, transformers: bool = False,
) -> Array:  # fmt: skip
    """Return the logits of one sentence, (n + 1, vocabulary): before each token, and at the end.

    Args:
        w: the parameters.
        options: the settings.
        source: its ids, with that of the end.
        target: the ids that are read, the first one after the vector of zeros.
        raw_keys: compute the last position as Marian's translator does in a pre-norm model: it
            normalizes the queries of self-attention, and not the keys and values.
        transformers: compute positions and norms as transformers' conversion of such models does.
    """
    d, heads = options["dim-emb"], options["transformer-heads"]
    before = options["transformer-preprocess"].replace("d", "")
    after = options["transformer-postprocess"].replace("d", "")
    relu = options["transformer-ffn-activation"] == "relu"

    def norm(x: Array, name: str, suffix: str = "") -> Array:
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x**2).mean(1, keepdims=True) + (1e-5 if transformers else 1e-6))
        return x * w[f"{name}_ln_scale{suffix}"] + w[f"{name}_ln_bias{suffix}"]

    def embed(vectors: Array, side: str) -> Array:
        x = vectors * math.sqrt(d)
        last = d / 2 if transformers else d / 2 - 1
        for p in range(len(x)):
            for i in range(d // 2):
                angle = p * 10000 ** (-i / last)
                x[p, i] += math.sin(angle)
                x[p, d // 2 + i] += math.cos(angle)
        return (
            norm(x, f"{side}_emb", "_pre") if "n" in options["transformer-postprocess-emb"] else x
        )

    def sublayer(x: Array, name: str, f: Callable[[Array], Array]) -> Array:
        y = f(norm(x, name, "_pre") if before == "n" else x)
        for operation in after:
            y = y + x if operation == "a" else norm(y, name)
        return y

    def attend(x: Array, other: Array, name: str, causal: bool) -> Array:
        q, k, v = (
            y @ w[f"{name}_W{c}"] + w[f"{name}_b{c}"]
            for y, c in ((x, "q"), (other, "k"), (other, "v"))
        )
        parts = []
        for h in range(heads):
            s = slice(h * d // heads, (h + 1) * d // heads)
            scores = q[:, s] @ k[:, s].T / math.sqrt(d / heads)
            if causal:
                scores = scores + np.triu(np.full(scores.shape, -np.inf), 1)
            scores = np.exp(scores - scores.max(1, keepdims=True))
            parts.append(scores / scores.sum(1, keepdims=True) @ v[:, s])
        return np.concatenate(parts, 1) @ w[f"{name}_Wo"] + w[f"{name}_bo"]

    def feedforward(x: Array, name: str) -> Array:
        inner = x @ w[f"{name}_W1"] + w[f"{name}_b1"]
        inner = np.maximum(inner, 0) if relu else inner / (1 + np.exp(-inner))
        return inner @ w[f"{name}_W2"] + w[f"{name}_b2"]

    def stack(x: Array, side: str, depth: int, memory: Array | None) -> Array:
        for layer in range(1, depth + 1):
            path = f"{side}_l{layer}"
            x = sublayer(x, f"{path}_self_Wo", _self(x, path, memory))
            if memory is not None:
                x = sublayer(x, f"{path}_context_Wo", _context(path, memory))
            x = sublayer(x, f"{path}_ffn_ffn", _ffn(path))
        return norm(x, f"{side}_top") if "n" in options["transformer-postprocess-top"] else x

    def _self(raw: Array, path: str, memory: Array | None) -> Callable[[Array], Array]:
        keys = raw if raw_keys and memory is not None and len(raw) > 1 else None
        return lambda y: attend(y, y if keys is None else keys, f"{path}_self", memory is not None)

    def _context(path: str, memory: Array) -> Callable[[Array], Array]:
        return lambda y: attend(y, memory, f"{path}_context", False)

    def _ffn(path: str) -> Callable[[Array], Array]:
        return lambda y: feedforward(y, f"{path}_ffn")

    w = {name: array.astype(np.float64) for name, array in w.items()}
    embeddings = [w.get(f"{side}_Wemb", w.get("Wemb")) for side in ("encoder", "decoder")]
    assert embeddings[0] is not None
    assert embeddings[1] is not None
    memory = stack(embed(embeddings[0][source], "encoder"), "encoder", options["enc-depth"], None)
    read = np.concatenate([np.zeros((1, d)), embeddings[1][target]])
    output = stack(embed(read, "decoder"), "decoder", options["dec-depth"], memory)
    matrix = w.get("decoder_ff_logit_out_Wt", embeddings[1])
    return np.asarray(output @ matrix.T + w["decoder_ff_logit_out_b"])
