"""A larger Transformer that computes what a smaller one does, from which training goes on.

Each new layer is a copy of one before it whose sublayers add nothing, because the weights that
write to the residual sum are zero; so do new units of the feed-forward layers. The principle is
that of Net2Net (Chen, Goodfellow and Shlens 2016). The norm must come before each sublayer.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import zoo
from zoo.checkpoint.card import render_front_matter
from zoo.checkpoint.checkpoint import read, write
from zoo.checkpoint.format import TRAINING
from zoo.files import TEXT_LIMIT, read_json
from zoo.registry.registry import default_registry

WRITERS = ("attention.out.", "cross.out.", "outer.")
"""The names of what adds to the residual sum of a layer."""


def deepen(parent: Path, out: Path, changes: Mapping[str, float]) -> Path:
    """Write a larger Transformer that computes what a checkpoint does; return its folder.

    Args:
        parent: the checkpoint.
        out: the new one; nothing is written if it exists.
        changes: of its configuration: `encoder_layers`, `decoder_layers` and `feedforward_dim`,
            none smaller than before, and `dropout`.
    """
    if out.is_dir():
        return out
    registry = default_registry()
    small = read(parent, registry)
    config = small.config.model_copy(update=dict(changes))
    vocabularies = small.model.source_vocab, small.model.target_vocab
    torch.manual_seed(1)
    large = zoo.create_model(
        small.model_name, source_vocab=vocabularies[0], target_vocab=vocabularies[1],
        **config.model_dump(),
    ).eval()  # fmt: skip
    weights, origins = dict(small.model.named_parameters()), _origins(small.config, config)
    with torch.no_grad():
        for name, weight in large.named_parameters():
            weight.copy_(_deepened(name, weight, weights, origins))
    write(
        out, replace(small, name=out.name, config=config, model=large), registry,
        render_front_matter({}), read_json(parent / TRAINING, TEXT_LIMIT),
    )  # fmt: skip
    return out


def _origins(before: object, after: object) -> dict[str, dict[int, tuple[int, bool]]]:
    """Return for each stack and layer the layer that it is a copy of, and whether it is new."""
    origins = {}
    for stack in ("encoder", "decoder"):
        old, new = (getattr(config, f"{stack}_layers") for config in (before, after))
        kept = [round(layer * (new - 1) / max(old - 1, 1)) for layer in range(old)]
        copies = {layer: bisect.bisect(kept, layer) - 1 for layer in range(new)}
        origins[stack] = {layer: (copy, layer not in kept) for layer, copy in copies.items()}
    return origins


def _deepened(
    name: str,
    drawn: Tensor,
    weights: Mapping[str, Tensor],
    origins: Mapping[str, Mapping[int, tuple[int, bool]]],
) -> Tensor:
    """Return a weight of the larger network; `drawn` is what the network was created with."""
    stack, _, rest = name.partition(".")
    is_new, part = False, ""
    if stack in origins:
        layer, _, part = rest.partition(".")
        origin, is_new = origins[stack][int(layer)]
        name = f"{stack}.{origin}.{part}"
    old, adds = weights[name], part.startswith(WRITERS)
    result = torch.zeros_like(drawn) if adds else drawn.clone()
    if not (is_new and adds):
        result[tuple(slice(size) for size in old.shape)] = old
    return result
