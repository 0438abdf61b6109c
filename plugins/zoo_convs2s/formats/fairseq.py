"""Import fairseq's `fconv`.

Positions of fairseq begin after its padding: rows 0 and 1 of its tables are never read. The decoder
begins with the end token, so the begin token of the target gets its embedding.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.interop import Fairseq, FairseqImporter, Weight, literal
from zoo_convs2s.config import ConvS2SConfig

POSITIONS = 2
"""The first row of a table of positions that is read: fairseq's padding + 1."""


class FairseqFConv(FairseqImporter):
    """Reads fairseq's `fconv`."""

    architecture = "convs2s"
    config_type = ConvS2SConfig
    tensors = ("decoder.convolutions.0.weight_v",)

    def config(self, fairseq: Fairseq) -> dict[str, Any]:
        """Return the configuration."""
        reasons = fairseq.reasons
        encoder, decoder = _layers(fairseq, "encoder"), _layers(fairseq, "decoder")
        even = [kernel for _, kernel in encoder if kernel % 2 == 0]
        reasons.check(
            not even, f"its encoder has an even kernel, {even[:1]}, which is not centered"
        )
        text = fairseq.get("decoder_attention", "True")
        try:
            attention = literal(text) if isinstance(text, str) else text
            every = attention is True or (
                isinstance(attention, list) and all(x is True for x in attention)
            )
            reasons.check(every, f"its decoder_attention is {text[:60]!r}: every layer must attend")
        except ValueError as error:
            reasons.add(f"its decoder_attention: {error}")
        widths = [fairseq.get(f"{side}_embed_dim", 512) for side in ("encoder", "decoder")]
        reasons.check(
            widths[0] == widths[1], f"its embeddings differ in width: {widths[0]}, {widths[1]}"
        )
        limits = [fairseq.get(f"max_{side}_positions", 1024) for side in ("source", "target")]
        reasons.check(
            limits[0] == limits[1], f"its tables of positions differ: {limits[0]}, {limits[1]}"
        )
        return {
            "embedding_dim": widths[0],
            "encoder": encoder,
            "decoder": decoder,
            "output_dim": fairseq.get("decoder_out_embed_dim", 256),
            "max_positions": max(limits[0] - POSITIONS, 3),
            "dropout": fairseq.get("dropout", 0.1),
        }

    def weights(self, fairseq: Fairseq, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights."""
        return _Reader(fairseq, config).weights()


def _layers(fairseq: Fairseq, side: str) -> tuple[tuple[int, int], ...]:
    """Return width and kernel of each layer, read without `eval`."""
    text, layers = fairseq.get(f"{side}_layers", "[(512, 3)] * 20"), []
    try:
        specs = literal(text) if isinstance(text, str) else text
        for spec in specs:
            width, kernel, *residual = spec
            if not all(type(x) is int and x > 0 for x in (width, kernel)) or residual not in (
                [],
                [1],
            ):
                raise ValueError(f"{spec!r} has no counterpart")
            layers.append((width, kernel))
    except (ValueError, TypeError) as error:
        fairseq.reasons.add(f"its {side}_layers: {error}")
    return tuple(layers) or ((1, 1),)


class _Reader:
    """Takes fairseq's tensors by the names of the zoo's network."""

    def __init__(self, fairseq: Fairseq, config: Mapping[str, Any]) -> None:
        self.fairseq, self.state, self.config = fairseq, fairseq.state, config
        self.made: dict[str, Weight] = {}

    def weights(self) -> dict[str, Weight]:
        """Return all weights."""
        state, e = self.state, self.config["embedding_dim"]
        # Checkpoints before version 2 have other weight normalization in the decoder.
        version = state.tensors.get("decoder.version")
        old = not isinstance(version, Tensor) or version.numel() != 1 or float(version) < 2
        self.fairseq.reasons.check(not old, "its decoder is of a version before 2")
        state.ignore("decoder.version")
        for side, own in (("encoder", "source"), ("decoder", "target")):
            entries = self.fairseq.source if side == "encoder" else self.fairseq.target
            matrix = state.take(f"{side}.embed_tokens.weight", len(entries.tokens), e)
            begin = 2 if side == "decoder" else None
            self.made[f"{own}_embedding.weight"] = entries.reorder(matrix, begin)
            rows = self.config["max_positions"] + POSITIONS
            table = state.take(f"{side}.embed_positions.weight", rows, e)
            self.made[f"{own}_positions.weight"] = table[POSITIONS:]
            self._stack(side)
        self._output()
        return self.made

    def _stack(self, side: str) -> None:
        e, below = self.config["embedding_dim"], self.config[side][0][0]
        self._linear(f"{side}.enter", f"{side}.fc1", below, e)
        for layer, (width, kernel) in enumerate(self.config[side]):
            own = f"{side}.layers.{layer}"
            if width != below:
                self._linear(f"{own}.residual", f"{side}.projections.{layer}", width, below)
            self._convolution(
                f"{own}.convolution", f"{side}.convolutions.{layer}", 2 * width, below, kernel
            )
            if side == "decoder":
                theirs = f"decoder.attention.{layer}"
                self._linear(f"{own}.query", f"{theirs}.in_projection", e, width)
                self._linear(f"{own}.context", f"{theirs}.out_projection", width, e)
            below = width
        outputs = e if side == "encoder" else self.config["output_dim"]
        self._linear(f"{side}.leave", f"{side}.fc2", outputs, below)

    def _linear(self, own: str, theirs: str, outputs: int, inputs: int) -> None:
        """Take a normalized map: direction v, (outputs, inputs), and length g, (outputs, 1)."""
        take, made = self.state.take, self.made
        made[f"{own}.direction"] = take(f"{theirs}.weight_v", outputs, inputs)
        made[f"{own}.length"] = take(f"{theirs}.weight_g", outputs, 1).flatten()
        made[f"{own}.bias"] = take(f"{theirs}.bias", outputs)

    def _convolution(self, own: str, theirs: str, outputs: int, inputs: int, kernel: int) -> None:
        """Take a convolution, which fairseq stores as (kernel, inputs, outputs)."""
        take, made = self.state.take, self.made
        direction = take(f"{theirs}.weight_v", kernel, inputs, outputs)
        made[f"{own}.direction"] = direction.permute(2, 1, 0)
        made[f"{own}.length"] = take(f"{theirs}.weight_g", 1, 1, outputs).flatten()
        made[f"{own}.bias"] = take(f"{theirs}.bias", outputs)

    def _output(self) -> None:
        state, target = self.state, self.fairseq.target
        size, width = len(target.tokens), self.config["output_dim"]
        shared = self.fairseq.get("share_input_output_embed", False)
        if shared:  # a plain matrix: its own direction, with the lengths of its rows
            name = "decoder.embed_tokens.weight"
            state.same("decoder.fc3.weight", name)
            direction = state.take(name, size, width)
            length = torch.linalg.vector_norm(direction.double(), dim=1).to(direction.dtype)
            # A row of zeros has no direction: with a length of 0 any one will do.
            direction = torch.where(length[:, None] > 0, direction, torch.ones_like(direction))
        else:
            direction = state.take("decoder.fc3.weight_v", size, width)
            length = state.take("decoder.fc3.weight_g", size, 1).flatten()
        self.made["output.direction"] = target.reorder(direction)
        self.made["output.length"] = target.reorder(length)
        self.made["output.bias"] = target.reorder(state.take("decoder.fc3.bias", size))
