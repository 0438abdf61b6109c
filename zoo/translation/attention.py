"""A network's attention while it writes one target: what is there, and what of it is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources, exceeds
from zoo.decoding.forced import forced_attention
from zoo.errors import DecodingError

KINDS = {
    "cross": ("target from source", "written", "source"),
    "encoder": ("source from source", "source", "source"),
    "decoder": ("target from target", "written", "read before it"),
}
"""Each kind in words: what it is, what its rows are, what its columns are."""

Which = int | Literal["mean", "all"]
"""A layer or a head, counted from 1; the mean over them; or each of them."""


class Panel(NamedTuple):
    """One heatmap: weights (queries, keys) of a kind's layer and head, counted from 1, or means."""

    kind: str
    layer: int | Literal["mean"]
    head: int | Literal["mean"]
    weights: Tensor

    @property
    def title(self) -> str:
        """The kind, the layer and the head in words."""
        parts = [
            f"{name} {which}" if which != "mean" else f"mean over {name}s"
            for name, which in (("layer", self.layer), ("head", self.head))
        ]
        return f"{self.kind}, {', '.join(parts)}"


@dataclass(frozen=True)
class Attention:
    """The attention of writing a target.

    model: the checkpoint's name in words; source, target: their tokens without begin and end, as a
    person can read them; weights: by kind, (layers, heads, queries, keys) float32 on the CPU.
    """

    model: str
    source: list[str]
    target: list[str]
    weights: dict[str, Tensor]

    def queries(self, kind: str) -> list[str]:
        """Return the labels of a kind's rows: source tokens, or the tokens being written."""
        return [*(self.source if kind == "encoder" else self.target), "</s>"]

    def keys(self, kind: str) -> list[str]:
        """Return the labels of a kind's columns: source tokens, or target tokens read so far."""
        return ["<s>", *self.target] if kind == "decoder" else [*self.source, "</s>"]

    def panels(
        self, kind: str | None = None, layer: Which = "all", head: Which = "all"
    ) -> list[Panel]:
        """Return the heatmaps of a kind, or of all, for the layers and heads asked for.

        Raises:
            DecodingError: the model has no such kind, layer or head.
        """
        if kind is not None and kind not in self.weights:
            raise DecodingError(
                f"{self.model} has no attention of kind {kind!r}",
                f"it has {', '.join(self.weights)}",
            )
        found = []
        for name in [kind] if kind is not None else self.weights:
            layers, heads = self.weights[name].shape[:2]
            for one in self._places(name, "layer", layer, layers):
                of_layer = (
                    self.weights[name].mean(0) if one == "mean" else self.weights[name][one - 1]
                )
                for other in self._places(name, "head", head, heads):
                    weights = of_layer.mean(0) if other == "mean" else of_layer[other - 1]
                    found.append(Panel(name, one, other, weights))
        return found

    def _places(
        self, kind: str, what: str, which: Which, count: int
    ) -> Sequence[int | Literal["mean"]]:
        if which == "mean":
            return ["mean"]
        if which == "all":
            return range(1, count + 1)
        if not 1 <= which <= count:
            has = f"{count} {what}s" if count > 1 else f"one {what}"
            raise DecodingError(f"no {what} {which}", f"{kind} attention of {self.model} has {has}")
        return [which]


def attend(checkpoint: Checkpoint, text: str, target: Sequence[int]) -> Attention:
    """Return the attention of writing a target, token ids without begin and end.

    Raises:
        DecodingError: the model has no attention, the text is empty, or a side is longer than the
            model can read.
    """
    name, limits = checkpoint.name, checkpoint.config.length_limits
    if not text.strip():
        raise DecodingError("nothing to look at", "the text is empty")
    source = checkpoint.source_tokenizer.encode([text])[0]
    # The source's end token counts; a target is read after the begin token, without its end.
    for side, length, limit in (
        ("text", len(source) + 1, limits.source),
        ("target", len(target) + 1, limits.target),
    ):
        if exceeds(length, limit):
            raise DecodingError(
                f"the {side} is too long",
                f"{length:,} tokens, and {checkpoint.model_name} reads {limit:,} at most",
                "Take a shorter one",
            )
    model = checkpoint.model
    device = next(model.parameters()).device
    ids, mask = batch_sources([source])
    kinds = forced_attention(model, ids.to(device), mask.to(device), [target])
    if not kinds:
        raise DecodingError(
            f"{name} has no attention",
            f"{checkpoint.model_name} looks back at nothing: one vector is all it keeps of a text",
            "Take a model with attention: rnnsearch, convs2s or transformer",
        )
    return Attention(
        name,
        [readable(checkpoint.source_tokenizer.token(i)) for i in source],
        [readable(checkpoint.target_tokenizer.token(i)) for i in target],
        {kind: weights[0].float().cpu() for kind, weights in _ordered(kinds).items()},
    )


def _ordered(kinds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a reader asks for first first."""
    return {kind: kinds[kind] for kind in sorted(kinds, key=[*KINDS, *kinds].index)}


def readable(token: str) -> str:
    """Return a token with signs that cannot be seen, or not be in a file, by their codes."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in token
    )
