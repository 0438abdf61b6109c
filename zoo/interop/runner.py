"""What an engine is: it searches with an exported checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.task import Task
from zoo.registry.registry import Registry


@dataclass(frozen=True)
class Sources:
    """Sentences to translate: a `Task` before its sources are encoded.

    Attributes:
        source: (sentences, m) int64; each source ends with the end token.
        mask: (sentences, m) bool, True at real tokens.
        limit: the model's maximum target length in tokens, begin and end included, or None.
        prefixes: the tokens that each target must begin with, or None.
        indices: the index of each sentence in the whole input, which seeds its sampling.
        blank: ids of the target tokens that are only white space, (tokens,).
        on_step: called before each step of the zoo's search, as `Task.on_step` is.
        registry: where searches and logits processors are looked up, as for `Task`.
    """

    source: Tensor
    mask: Tensor
    limit: int | None
    prefixes: Sequence[Sequence[int]] | None
    indices: Sequence[int]
    blank: Tensor
    on_step: Callable[[], None] | None = None
    registry: Registry | None = None

    def __len__(self) -> int:
        return len(self.source)

    def encoded(self, model: Any) -> Task[Any, Any]:
        """Return the task of a network, or of anything with `encode`, `init_state` and `step`."""
        memory = model.encode(self.source, self.mask).memory
        return Task(
            model, memory, self.mask, self.limit, self.prefixes, self.indices, self.blank,
            self.registry, self.on_step,
        )  # fmt: skip

    def rows(self, indices: Sequence[int]) -> Sources:
        """Return some of the sentences."""
        picked = torch.tensor(indices, device=self.source.device)
        width = int(self.mask[picked].sum(1).amax())
        return replace(
            self,
            source=self.source[picked, :width],
            mask=self.mask[picked, :width],
            prefixes=None if self.prefixes is None else [self.prefixes[i] for i in indices],
            indices=[self.indices[i] for i in indices],
        )


class Runner(ABC):
    """Searches with an exported checkpoint, on the CPU.

    `search` is called from several threads at once.
    """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, checkpoint: Checkpoint, threads: int) -> Self:
        """Load an exported folder; `checkpoint` is what was exported.

        Raises:
            ZooError: a package is missing, or the folder is damaged.
        """

    @abstractmethod
    def reasons(self, options: Search) -> list[str]:
        """Return all reasons why the engine cannot search by these options."""

    @abstractmethod
    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis] | None]:
        """Return each sentence's n best hypotheses, best first.

        None for a sentence that this engine cannot search by the zoo's rules: the zoo's decoder
        then does.
        """
