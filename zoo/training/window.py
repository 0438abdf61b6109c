"""The updates between two reports of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Window:
    """The updates since the last report: their losses and gradient norms, still on the device."""

    began: float
    losses: list[Tensor] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)
    batches: list[list[Tensor]] = field(default_factory=list)
    tokens: int = 0
    own: dict[str, Tensor] = field(default_factory=dict)
    """The sums of the network's own losses, by name."""

    def add_own(self, losses: Mapping[str, Tensor], weight: float) -> None:
        """Add a batch's own losses of the network."""
        for name, loss in losses.items():
            self.own[name] = self.own.get(name, 0) + loss.detach().float() * weight
