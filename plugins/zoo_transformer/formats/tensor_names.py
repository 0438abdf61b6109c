"""Foreign tensors by name: which are used, which are missing or of another shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from zoo.interop import Reasons, check_weight

SHARED, DECODER = "model.shared.weight", "model.decoder.embed_tokens.weight"
"""The embedding of both sides, and that of the target."""

Make = Callable[[], Tensor]
"""Reads a tensor."""


class Names:
    """Foreign tensors by name: which are used, which are missing or of another shape."""

    def __init__(self, tensors: Mapping[str, Tensor], reasons: Reasons) -> None:
        self.tensors, self.reasons = tensors, reasons
        self.used: set[str] = set()

    def __call__(self, name: str, *shape: int) -> Make:
        """Return a function that reads a tensor, after a check of its shape."""
        self.used.add(name)
        check_weight(self.tensors.get(name), name, shape, self.reasons, single=True)
        return lambda: self.tensors[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self.tensors[name].shape)

    def first(self, *names: str) -> str:
        """Return the first name that there is, or the first of all; all of them count as used."""
        self.used.update(names)
        return next((name for name in names if name in self.tensors), names[0])

    def check_vocabulary(self, size: int) -> None:
        """Check that the embedding has the rows of the target vocabulary, before they are made."""
        name = next((name for name in (SHARED, DECODER) if name in self.tensors), "")
        if name and self.shape(name) < (size,):
            self.reasons.add(f"{name} is {self.shape(name)}, and the vocabulary has {size} entries")

    def equal(self, name: str, *copies: str) -> None:
        """Check that further names hold the same tensor, as the configuration states."""
        for copy in copies:
            if copy in self.tensors and copy != name and name in self.tensors:
                self.used.add(copy)
                same = torch.equal(self.tensors[name], self.tensors[copy])
                self.reasons.check(same, f"{copy} is not {name}, to which the config ties it")

    def check_all_used(self, ignored: tuple[str, ...]) -> None:
        """Check that no tensor is left over."""
        for name in self.tensors:
            if name not in self.used and not name.endswith(ignored):
                self.reasons.add(f"{name[:100]} is not a weight of this architecture")
