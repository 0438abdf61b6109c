"""What the settings of Marian's models state, and which of them the network lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoo_transformer.formats.family import Fields

REFUSED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-attention-mask": ("default",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-pool": (False,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
    "right-left": (False,),
    "input-reorder": ([],),
    "input-types": ([], ["sequence"], ["sequence", "sequence"]),
}
"""Settings that must have one of these values, or none."""

NORMS = {("", "an"): "post", ("n", "a"): "pre", ("", "na"): "branch"}
"""Where the norm is, by the operations before and after a sublayer, without dropout."""


@dataclass(frozen=True)
class Settings:
    """The sizes and operations that Marian's settings state."""

    layers: tuple[int, int]
    dim: int
    feedforward: int
    vocab: tuple[int, int]
    norm: str
    final_norm: bool
    embedding_norm: bool
    one_embedding: bool
    tied_output: bool
    bias: bool


def _operations(fields: Fields, name: str, default: str) -> str:
    """Return operations without dropout, which does nothing when the model translates."""
    return fields.get(name, default).replace("d", "")


def read_settings(fields: Fields) -> Settings:
    """Return the settings; what the network lacks goes to the fields' reasons."""
    reasons, values = fields.reasons, fields.values
    for name, allowed in REFUSED.items():
        value = values.get(name)
        if name == "transformer-decoder-dim-ffn" and value == values.get("transformer-dim-ffn"):
            continue
        if value is not None and value not in allowed:
            reasons.add(f"{name} is {str(value)[:40]}, which the network lacks")
    before = _operations(fields, "transformer-preprocess", "")
    after = _operations(fields, "transformer-postprocess", "dan")
    norm = NORMS.get((before, after))
    if norm is None:
        reasons.add(
            f"transformer-preprocess {before[:20]!r} with transformer-postprocess {after[:20]!r} "
            "has no counterpart in the network"
        )
    norms = {}
    for name, default in (("top", ""), ("emb", "d")):
        norms[name] = _operations(fields, f"transformer-postprocess-{name}", default)
        what = f"transformer-postprocess-{name} {norms[name][:20]!r} is more than a norm"
        reasons.check(norms[name] in ("", "n"), what)
    sizes: list[Any] = fields.get("dim-vocabs", [])
    if len(sizes) != 2 or not all(type(size) is int and 2 < size <= 10_000_000 for size in sizes):
        reasons.add(f"dim-vocabs is {str(sizes)[:40]}, not two sizes")
        sizes = [3, 3]
    every = fields.get("tied-embeddings-all", False)
    one = every or fields.get("tied-embeddings-src", False)
    reasons.check(not one or sizes[0] == sizes[1], f"one embedding for vocabularies of {sizes}")
    return Settings(
        (fields.get("enc-depth", 6), fields.get("dec-depth", 6)),
        fields.get("dim-emb", 512),
        fields.get("transformer-dim-ffn", 2048),
        (sizes[0], sizes[1]),
        norm or "post",
        norms["top"] == "n",
        norms["emb"] == "n",
        one,
        every or fields.get("tied-embeddings", False),
        not fields.get("output-omit-bias", False),
    )
