"""The updates between two reports of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Window:
    """The updates since the last report: their losses and gradient norms, still on the device."""

    began: float
    losses: list[Tensor] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)
    batches: list[list[Tensor]] = field(default_factory=list)
    tokens: int = 0
    own: list[dict[str, Tensor]] = field(default_factory=list)
    """Parts of each update's loss, by name: the network's own, and those of several objectives."""

    def add_own(self, losses: Mapping[str, Tensor], weight: float) -> None:
        """Add the parts of a batch's loss, before the loss of its update is added."""
        if len(self.own) == len(self.losses):
            self.own.append({})
        for name, loss in losses.items():
            self.own[-1][name] = self.own[-1].get(name, 0) + loss.detach().float() * weight

    def parts(self) -> dict[str, list[Tensor]]:
        """Return each part's values, one for each update; zero where an update has no such part."""
        names = dict.fromkeys(name for part in self.own for name in part)
        zero = self.losses[0].new_zeros((), dtype=torch.float32)
        return {name: [part.get(name, zero) for part in self.own] for name in names}
