"""The decoder's initial states that are made from the encoder's final states."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from zoo_rnnsearch.cells import Product, State
from zoo_rnnsearch.config import RNNSearchConfig


def initial_state(
    config: RNNSearchConfig,
    final: tuple[Tensor, ...],
    maps: Sequence[nn.Module | None],
    activation: Product,
) -> State:
    """Return s_0 of every layer for each `start` but `backward`.

    `final` holds the encoder's final hidden states and, for an LSTM, its cells, each
    (layers × directions, sentences, h), in torch's order; `maps` the maps W_s and W_s′, if any.
    """
    parts = [_by_layer(part, 2 if config.bidirectional else 1) for part in final]
    if config.start == "final":
        made = [list(part) for part in parts]
    elif config.start in ("projected", "joint"):
        made = []
        for part, map_ in zip(parts, (cast(nn.Module, each) for each in maps), strict=False):
            if config.start == "projected":
                made.append([map_(layer) for layer in part])
            else:
                made.append(list(map_(torch.cat(part, -1)).relu().chunk(config.depth, -1)))
    else:
        hidden = _of_last_layer(config, parts[0][-1], maps[0], activation)
        made = [[hidden] * config.depth for _ in parts]
    return State(tuple(made[0]), tuple(made[1]) if len(made) == 2 else ())


def _by_layer(final: Tensor, directions: int) -> list[Tensor]:
    """Return the final states of each layer, (sentences, directions × h), forward first."""
    states = final.unbind(0)
    return [torch.cat(states[at : at + directions], -1) for at in range(0, len(states), directions)]


def _of_last_layer(
    config: RNNSearchConfig, final: Tensor, map_: nn.Module | None, activation: Product
) -> Tensor:
    if config.start == "top":
        return activation(cast(nn.Module, map_)(final))
    if config.start == "zero":
        return final.new_zeros(len(final), config.hidden_dim)
    return final[:, : config.hidden_dim]
