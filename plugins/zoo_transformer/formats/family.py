"""What Marian, BART, mBART, M2M-100 and Pegasus share: `config.json`, and the names of weights."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from zoo.interop import Reasons, Weights
from zoo_transformer.formats.tensor_names import DECODER, SHARED, Make, Names
from zoo_transformer.formats.vocabulary import Rows

T = TypeVar("T")

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""The zoo's name of each activation."""

SINUSOIDS_TOLERANCE = 1e-4
"""How much a stored table of sinusoids may differ from the formula."""


class Fields:
    """The values of a JSON object, checked one by one; what is wrong goes to `reasons`."""

    def __init__(self, values: Mapping[str, Any], reasons: Reasons) -> None:
        self.values, self.reasons = values, reasons

    def get(self, name: str, default: T) -> T:
        """Return a value of the type of its default; None and absent are the default."""
        value = self.values.get(name)
        if value is None:
            return default
        kind = type(default)
        if kind is float and type(value) is int and abs(value) < 10**12:
            value = float(value)
        if type(value) is not kind:
            self.reasons.add(f"{name} is {reprlib.repr(value)}, not of type {kind.__name__}")
            return default
        return value

    def both(self, name: str, default: int) -> int:
        """Return the value that encoder and decoder must share."""
        one, other = (self.get(f"{side}_{name}", default) for side in ("encoder", "decoder"))
        what = f"encoder_{name} {one} is not decoder_{name} {other}"
        self.reasons.check(one == other, what)
        return one


@dataclass(frozen=True)
class Kind:
    """How the members of the family differ.

    Attributes:
        norm: `post` or `pre`.
        embedding_norm: whether the embeddings are normalized.
        positions: `halves` are sines, then cosines, of the paper's frequencies.
        bias: whether there is an output bias.
        activation: the default.
        padding, start, end: the default ids.
        output: the name of the output matrix.
        final_norm: whether a norm follows each stack, if not by `norm`.
    """

    norm: str
    positions: str
    embedding_norm: bool = False
    bias: bool = True
    activation: str = "gelu"
    scale: bool = False
    padding: int = 1
    start: int = 2
    end: int = 2
    output: str = "lm_head.weight"
    final_norm: bool | None = None

    @property
    def stack_norm(self) -> bool:
        """Whether a norm follows each stack."""
        return self.norm != "post" if self.final_norm is None else self.final_norm


@dataclass(frozen=True)
class Layout:
    """The sizes that `config.json` states, and the configuration that they give."""

    values: Mapping[str, Any]
    vocab: int
    target_vocab: int
    padding: int
    start: int
    end: int
    tied: bool
    shared: bool


def layout(fields: Fields, kind: Kind) -> Layout:
    """Return what `config.json` states; what cannot be expressed goes to the fields' reasons."""
    activation = fields.get("activation_function", kind.activation)
    if activation not in ACTIVATIONS:
        fields.reasons.add(f"activation_function {activation[:40]!r} is not one of the network's")
    shared = fields.get("share_encoder_decoder_embeddings", True)
    tied = fields.get("tie_word_embeddings", True)
    padding = fields.get("pad_token_id", kind.padding)
    values: dict[str, Any] = {
        "encoder_layers": fields.get("encoder_layers", 12),
        "decoder_layers": fields.get("decoder_layers", 12),
        "dim": fields.get("d_model", 1024),
        "heads": fields.both("attention_heads", 16),
        "feedforward_dim": fields.both("ffn_dim", 4096),
        "dropout": fields.get("dropout", 0.1),
        "activation": ACTIVATIONS.get(activation, "relu"),
        "norm": kind.norm,
        "embedding_norm": kind.embedding_norm,
        "scale_embeddings": fields.get("scale_embedding", kind.scale),
        "share": _share(shared, tied),
    }
    if kind.final_norm is not None:
        values["final_norm"] = kind.final_norm
    if kind.positions == "learned":
        longest = fields.get("max_position_embeddings", 1024)
        values |= {"positions": "learned", "position_offset": 2,
                   "max_source_positions": longest, "max_target_positions": longest}  # fmt: skip
    elif kind.positions == "fairseq":
        values |= {"positions": "fairseq", "position_offset": padding + 1}
    vocab = fields.get("vocab_size", 50265)
    start = fields.get("decoder_start_token_id", kind.start)
    fields.reasons.check(  # the library gives padding no position, the first input too
        kind.positions != "fairseq" or start != padding,
        f"its decoder starts with padding (id {padding}), which has no position there",
    )
    return Layout(
        values,
        vocab,
        vocab if shared else fields.get("decoder_vocab_size", vocab),
        padding,
        start,
        fields.get("eos_token_id", kind.end),
        tied,
        shared,
    )


def _share(shared: bool, tied: bool) -> str:
    if shared:
        return "all" if tied else "embeddings"
    return "target" if tied else "none"


class Network:
    """The weights of a network of the family, by the zoo's names.

    Args:
        names: the foreign tensors.
        made: what `config.json` states.
        kind: the member of the family.
        source, target: the order of the vocabularies.
    """

    def __init__(self, names: Names, made: Layout, kind: Kind, source: Rows, target: Rows) -> None:
        self.names, self.made, self.kind = names, made, kind
        self.source, self.target = source, target
        self.makers: dict[str, Make] = {}
        self.values = dict(made.values)
        self.d: int = self.values["dim"]
        self.f: int = self.values["feedforward_dim"]
        self.order: Tensor | None = None

    def weights(self) -> Weights:
        """Return the weights; what is missing or wrong goes to the names' reasons."""
        self._positions()
        self._embeddings()
        for side in ("encoder", "decoder"):
            for layer in range(self.values[f"{side}_layers"]):
                self._layer(f"model.{side}.layers.{layer}", f"{side}.{layer}", side == "decoder")
            if self.kind.stack_norm:
                self._norm(f"model.{side}.layer_norm", f"{side}_norm")
            if self.kind.embedding_norm:
                where = "source" if side == "encoder" else "target"
                self._norm(f"model.{side}.layernorm_embedding", f"{where}_norm")
        self.names.check_all_used((".embed_positions.weight", ".embed_positions.weights",
                                   ".version", "._float_tensor"))  # fmt: skip
        return Weights(self.makers)

    def _positions(self) -> None:
        """Use learned positions, or sines and cosines: then the width is in another order."""
        stored = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
        if self.kind.positions == "halves":
            tables = [name for name in stored.values() if name in self.names.tensors]
            if all(_are_sinusoids(self.names.tensors[name], self.d) for name in tables):
                half = torch.arange(self.d // 2)
                self.order = torch.stack([half, half + self.d // 2], 1).flatten()
                return
            self.values |= {"positions": "learned"}
            for side, name in zip(("source", "target"), stored.values(), strict=True):
                if name in self.names.tensors:
                    self.values[f"max_{side}_positions"] = (*self.names.shape(name), 1)[0]
        if self.kind.positions == "fairseq":
            for name in stored.values():
                if name in self.names.tensors:
                    table = self.names.tensors[name]
                    same = _are_sinusoids(table, self.d, fairseq=self.made.padding + 1)
                    self.names.reasons.check(same, f"{name} is not the table of sinusoids")
            return
        offset = self.values.get("position_offset", 0)
        for side, name in zip(("source", "target"), stored.values(), strict=True):
            rows = self.values.get(f"max_{side}_positions", 0) + offset
            self.makers[f"{side}_positions.weight"] = self.names(name, rows, self.d)

    def _embeddings(self) -> None:
        made, names = self.made, self.names
        shared, encoder, decoder, output = (
            SHARED,
            "model.encoder.embed_tokens.weight",
            DECODER,
            self.kind.output,
        )
        tied = (output,) if made.tied else ()
        if made.shared and (made.tied or not {encoder, decoder} <= set(names.tensors)):
            name = names.first(shared, encoder, decoder, *tied)
            names.equal(name, shared, encoder, decoder, *tied)
        else:
            name = names.first(decoder, *tied)
            names.equal(name, *tied)
            names.used.add(shared)
            matrix = names(encoder, made.vocab, self.d)
            same = made.shared and torch.equal(names.tensors[encoder], names.tensors[decoder])
            self.values["share"] = _share(same, made.tied)
            if not same:
                self.makers["source_embedding.weight"] = self._embedding(matrix, self.source)
        matrix = names(name, made.target_vocab, self.d)
        self.makers["target_embedding.weight"] = self._embedding(matrix, self.target)
        if not made.tied:
            matrix = names(output, made.target_vocab, self.d)
            self.makers["output.weight"] = self._embedding(matrix, self.target)
        bias: Make | None = None
        if self.kind.bias and "final_logits_bias" in names.tensors:
            bias = names("final_logits_bias", 1, made.target_vocab)
        rows = self.target
        self.makers["output.bias"] = lambda: rows.bias(None if bias is None else bias())

    def _layer(self, foreign: str, inner: str, decoder: bool) -> None:
        d, f = self.d, self.f
        self._attention(f"{foreign}.self_attn", f"{inner}.attention", cross=False)
        self._norm(f"{foreign}.self_attn_layer_norm", f"{inner}.attention_norm")
        if decoder:
            self._attention(f"{foreign}.encoder_attn", f"{inner}.cross", cross=True)
            self._norm(f"{foreign}.encoder_attn_layer_norm", f"{inner}.cross_norm")
        self.makers[f"{inner}.inner.weight"] = self._inputs(
            self.names(f"{foreign}.fc1.weight", f, d)
        )
        self.makers[f"{inner}.inner.bias"] = self.names(f"{foreign}.fc1.bias", f)
        outer = self.names(f"{foreign}.fc2.weight", d, f), self.names(f"{foreign}.fc2.bias", d)
        self.makers[f"{inner}.outer.weight"] = self._outputs(outer[0])
        self.makers[f"{inner}.outer.bias"] = self._outputs(outer[1])
        self._norm(f"{foreign}.final_layer_norm", f"{inner}.feedforward_norm")

    def _attention(self, foreign: str, inner: str, cross: bool) -> None:
        d, fused = self.d, "kv" if cross else "qkv"
        weights = [self._inputs(self.names(f"{foreign}.{x}_proj.weight", d, d)) for x in fused]
        biases = [self.names(f"{foreign}.{x}_proj.bias", d) for x in fused]
        self.makers[f"{inner}.project.weight"] = _joined(weights)
        self.makers[f"{inner}.project.bias"] = _joined(biases)
        if cross:
            query = self.names(f"{foreign}.q_proj.weight", d, d)
            self.makers[f"{inner}.query.weight"] = self._inputs(query)
            self.makers[f"{inner}.query.bias"] = self.names(f"{foreign}.q_proj.bias", d)
        for part, shape in (("weight", (d, d)), ("bias", (d,))):
            out = self.names(f"{foreign}.out_proj.{part}", *shape)
            self.makers[f"{inner}.out.{part}"] = self._outputs(out)

    def _norm(self, foreign: str, inner: str) -> None:
        for part in ("weight", "bias"):
            made = self._outputs(self.names(f"{foreign}.{part}", self.d))
            self.makers[f"{inner}.{part}"] = made

    def _embedding(self, make: Make, rows: Rows) -> Make:
        selected = self._inputs(make)
        return lambda: rows.select(selected())

    def _inputs(self, make: Make) -> Make:
        """Put the columns of a matrix into the order of the model's width."""
        order = self.order
        return make if order is None else lambda: make()[:, order]

    def _outputs(self, make: Make) -> Make:
        """Put the rows of a matrix, or a vector, into the order of the model's width."""
        order = self.order
        return make if order is None else lambda: make()[order]


def _joined(makers: list[Make]) -> Make:
    return lambda: torch.cat([make() for make in makers])


def _are_sinusoids(table: Tensor, width: int, fairseq: int | None = None) -> bool:
    """Return whether a table of this width holds sines, then cosines, of the paper's frequencies.

    Of fairseq's, if the first position that is used is given; those before it are not compared, and
    a table in 16 bits may be rounded.
    """
    if table.dim() != 2 or table.shape[1] != width or width % 2 or not table.is_floating_point():
        return False
    half = width // 2
    steps = half if fairseq is None else max(half - 1, 1)
    rate = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / steps))
    angle = torch.arange(len(table), dtype=torch.float64)[:, None] * rate
    expected = torch.cat([angle.sin(), angle.cos()], 1)
    differences = (table.double() - expected).abs()[fairseq or 0 :]
    rounding = torch.finfo(table.dtype).eps if fairseq else 0.0
    return bool((differences <= max(SINUSOIDS_TOLERANCE, rounding)).all())
