"""The attention weights of a model while it predicts one target."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources, exceeds, with_end
from zoo.decoding.forced import forced_attention
from zoo.decoding.option import plain_number
from zoo.errors import DecodingError, shown
from zoo.nn.contract import USUAL_KIND

KINDS = {
    "cross": ("target to source", "predicted token", "source token"),
    "encoder": ("source to source", "source token", "source token"),
    "decoder": ("target to target", "predicted token", "previous token"),
    "joint": ("target to source and target", "predicted token", "source or previous token"),
}
"""By kind: what attends to what, what a row is, and what a column is."""

HTML_TOKENS = 60
"""The most rows and columns of a table in a notebook."""

WHITE, DEEP = (255, 255, 255), (72, 142, 196)
"""The colors of the weights 0 and 1; black text is legible on both."""

Selection = int | Literal["mean", "all"]
"""A layer or a head, counted from 1; the mean over them; or each of them."""


class Panel(NamedTuple):
    """A heatmap: weights (queries, keys) of a layer and head, counted from 1, or of a mean."""

    kind: str
    layer: int | Literal["mean"]
    head: int | Literal["mean"]
    weights: Tensor

    @property
    def title(self) -> str:
        """The kind, the layer and the head in words."""
        parts = [
            f"{name} {number}" if number != "mean" else f"mean over {name}s"
            for name, number in (("layer", self.layer), ("head", self.head))
        ]
        return f"{self.kind}, {', '.join(parts)}"


@dataclass(frozen=True, eq=False)  # tensors have no one truth value
class Attention:
    """The attention weights with which a model predicts a target.

    model: the checkpoint's name; source, target: their tokens as printable text, without begin and
    end; weights: by kind, (layers, heads, queries, keys) float32 on the CPU; strides: by kind, how
    many source tokens a key of the source stands for, if not one; None if for none; source_ends:
    whether the model reads an end token after the source, as it does unless it reads features.
    text: the target as text. parts: in how many parts translation reads the source, which is read
    whole here: its sentences, and parts of a sentence that is longer than those of training.
    respelled: whether translation reads it in the spelling of training; here it is as it is.
    """

    model: str
    source: list[str]
    target: list[str]
    weights: dict[str, Tensor]
    strides: Mapping[str, int | None] = field(default_factory=dict)
    source_ends: bool = True
    text: str = ""
    parts: int = 1
    respelled: bool = False

    def _repr_html_(self) -> str:
        """Return the first kind, averaged over layers and heads, as an HTML table."""
        kind = next(iter(self.weights), None)
        if kind is None:
            return "<p>no attention</p>"
        keys = spelled(self.keys(kind)[:HTML_TOKENS])
        queries = spelled(self.queries(kind)[:HTML_TOKENS])
        rows = self.weights[kind].mean((0, 1)).tolist()
        head = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
        body = "".join(
            f"<tr><th>{html.escape(query)}</th>"
            + "".join(
                f"<td style='color: #000; background: {_shade(weight)}'>{weight:.2f}</td>"
                for weight in row[:HTML_TOKENS]
            )
            + "</tr>"
            for query, row in zip(queries, rows, strict=False)
        )
        caption = html.escape(f"{self.model}: {kind} attention, mean over layers and heads")
        return f"<table><caption>{caption}</caption><tr><th></th>{head}</tr>{body}</table>"

    def queries(self, kind: str) -> list[str]:
        """Return the labels of a kind's rows: source tokens, or the tokens that are predicted.

        Raises:
            DecodingError: the model has no such kind.
        """
        self._of_kind(kind)
        return self._source_keys(kind) if kind == "encoder" else [*self.target, "</s>"]

    def keys(self, kind: str) -> list[str]:
        """Return the labels of a kind's columns: source tokens, or previous target tokens.

        Raises:
            DecodingError: the model has no such kind.
        """
        self._of_kind(kind)
        previous = ["<s>", *self.target]
        if kind == "decoder":
            return previous
        return self._source_keys(kind) + (previous if kind == "joint" else [])

    def _of_kind(self, kind: str) -> Tensor:
        if not isinstance(kind, str) or kind not in self.weights:
            known = f"it has {', '.join(self.weights) or 'none'}"
            raise DecodingError(f"{self.model} has no attention of kind {shown(kind)}", known)
        return self.weights[kind]

    def _source_keys(self, kind: str) -> list[str]:
        """Return the labels of a kind's keys in the source: its tokens, several or a number."""
        tokens, stride = self.source + ["</s>"] * self.source_ends, self.strides.get(kind, 1)
        if stride is None:
            of_target = len(self.target) + 1 if kind == "joint" else 0
            return [str(i) for i in range(1, self.weights[kind].shape[3] - of_target + 1)]
        starts = range(0, len(tokens), stride)
        return [" ".join(tokens[start : start + stride]) for start in starts]

    def describe(self, kind: str) -> dict[str, Any]:
        """Return a kind's number of layers and heads, and its labels, as values for JSON.

        Raises:
            DecodingError: the model has no such kind.
        """
        layers, heads = self._of_kind(kind).shape[:2]
        return {
            "layers": layers,
            "heads": heads,
            "queries": self.queries(kind),
            "keys": self.keys(kind),
        }

    def panels(
        self, kind: str | None = None, layer: Selection = "all", head: Selection = "all"
    ) -> list[Panel]:
        """Return the heatmaps of one kind, or of all, for the selected layers and heads.

        Raises:
            DecodingError: the model has no such kind, layer or head.
        """
        panels = []
        for name in [kind] if kind is not None else self.weights:
            weights = self._of_kind(name)
            layers, heads = weights.shape[:2]
            for i in self._select(name, "layer", layer, layers):
                of_layer = weights.mean(0) if i == "mean" else weights[i - 1]
                for j in self._select(name, "head", head, heads):
                    of_head = of_layer.mean(0) if j == "mean" else of_layer[j - 1]
                    panels.append(Panel(name, i, j, of_head))
        return panels

    def _select(
        self, kind: str, what: str, selection: Selection, count: int
    ) -> Sequence[int | Literal["mean"]]:
        if selection == "mean":
            return ["mean"]
        if selection == "all":
            return range(1, count + 1)
        selection = plain_number(selection)
        if not isinstance(selection, int) or not 1 <= selection <= count:
            has = f"{count} {what}s" if count > 1 else f"one {what}"
            raise DecodingError(
                f"no {what} {shown(selection)}", f"{kind} attention of {self.model} has {has}"
            )
        return [selection]


def spelled(tokens: Sequence[str]) -> list[str]:
    """Return tokens without the mark `▁` of a word's begin; `·` marks letters within a word.

    `␣` is a token of spaces.
    """
    if not any(token.startswith("▁") for token in tokens):
        return [token if token.strip() else "␣" for token in tokens]
    return [" ".join(map(_spelled, token.split(" "))) for token in tokens]


def _spelled(token: str) -> str:
    if token.startswith("▁"):
        return token[1:].strip() or "␣"
    return f"·{token}" if token[:1].isalpha() else token.strip() or "␣"


def _shade(weight: float) -> str:
    """Return the color of a weight between 0 and 1."""
    mixed = (round(a + (b - a) * weight) for a, b in zip(WHITE, DEEP, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def sentence(tokens: Sequence[str]) -> str:
    """Return the text that tokens spell."""
    return "".join(tokens).replace("▁", " ").strip()


def compute_attention(
    checkpoint: Checkpoint, text: str, target: Sequence[int], *, required: bool = True
) -> Attention:
    """Return the attention with which a checkpoint predicts a target from a text.

    Args:
        checkpoint: the model and its tokenizers.
        text: the source text.
        target: token ids of the target, without begin and end.
        required: whether a model without attention is an error; else its weights are empty.

    Raises:
        DecodingError: the model has no attention and it is required, the text is empty, or a side
            is longer than the model can read.
    """
    if not text.strip():
        raise DecodingError("there is no attention to compute", "the text is empty")
    source = checkpoint.source_tokenizer.encode([text])[0]
    _check_lengths(checkpoint, source, target)
    model = checkpoint.model
    device = next(model.parameters()).device
    ids, mask = batch_sources([source])
    by_kind = forced_attention(model, ids.to(device), mask.to(device), [target])
    if required and not by_kind:
        raise DecodingError(
            f"{checkpoint.name} has no attention",
            f"the decoder of {checkpoint.model_name} weights no source tokens",
            "Take a model with attention: rnnsearch, convs2s or transformer",
        )
    return Attention(
        checkpoint.name,
        list(map(printable, checkpoint.source_tokenizer.labels(source))),
        [printable(checkpoint.target_tokenizer.token(i)) for i in target],
        {kind: weights[0].float().cpu() for kind, weights in _ordered(by_kind).items()},
        {kind: model.attention_kinds.get(kind, USUAL_KIND).stride for kind in by_kind},
        not checkpoint.config.features,
        checkpoint.target_tokenizer.decode(target),
    )


def _check_lengths(checkpoint: Checkpoint, source: Sequence[int], target: Sequence[int]) -> None:
    limits = checkpoint.config.length_limits
    # A source is read with its end token; a target with the begin token, without its end token.
    for side, length, limit in (
        ("text", len(with_end(source)), limits.source),
        ("target", len(target) + 1, limits.target),
    ):
        if exceeds(length, limit):
            raise DecodingError(
                f"the {side} is too long",
                f"{length:,} tokens, and {checkpoint.model_name} reads {limit:,} at most",
                "Take a shorter one",
            )


def _ordered(by_kind: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return cross-attention first, then the other known kinds, then those of plugins."""
    return {kind: by_kind[kind] for kind in sorted(by_kind, key=[*KINDS, *by_kind].index)}


def printable(token: str) -> str:
    """Return a token with unprintable characters as escape sequences; no-break spaces stay."""
    return "".join(
        character
        if character.isprintable() or unicodedata.category(character) == "Zs"
        else character.encode("unicode_escape").decode()
        for character in token
    )
