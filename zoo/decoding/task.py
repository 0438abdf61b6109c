"""What is searched, and what is found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from zoo.decoding.options import Search
from zoo.nn.contract import PADDING, State, Step
from zoo.nn.tree import Tree, gather

LEAVING = 8
"""Done sentences leave the batch, which copies the memory, when they are one in so many."""


Read = TypeVar("Read", contravariant=True)
"""The memory that a decoder reads."""


class Decoder(Protocol[Read, State]):
    """What a search needs of a network."""

    def init_state(self, memory: Read) -> State:
        """Return the state before the first token, one row a sentence."""

    def step(
        self, token: Tensor, state: State, memory: Read, attention: bool = False
    ) -> Step[State]:
        """Read one token a row; return logits, state and, if asked, attention by kind."""


def target_limits(lengths: Tensor, limit: int | None) -> Tensor:
    """Return the most tokens a target may have, the end token included, for each source.

    Three times the source's tokens and 20 more, far beyond any translation, so that a net that
    repeats itself comes to an end; and never over the model's own limit. It depends on the
    sentence alone, not on its batch mates.
    """
    most = 3 * lengths + 20
    return most if limit is None else most.clamp(max=limit - 1)  # the limit counts the begin token


@dataclass(frozen=True)
class Task:
    """Sentences to write targets for.

    model: a network, or an `Ensemble`; memory: what its `encode` returned; mask: (sentences, m),
    the source's real tokens; limit: the longest target in tokens, begin and end counted, or None;
    prefixes: the tokens that each target must begin with; places: each sentence's number among
    all texts, by which its random numbers are drawn.
    """

    model: Decoder[Any, Any]
    memory: Tree
    mask: Tensor
    limit: int | None = None
    prefixes: Sequence[Sequence[int]] | None = None
    places: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.mask)

    def most(self, options: Search) -> Tensor:
        """Return the most tokens that each target may have, the end token counted."""
        if options.max_length is None:
            most = target_limits(self.mask.sum(1), None).clamp(min=options.min_length)
        else:
            most = torch.full((len(self),), options.max_length, device=self.mask.device)
        if self.prefixes is not None:
            most = torch.maximum(most, (self.prefix != PADDING).sum(1) + 1)
        return most if self.limit is None else most.clamp(max=self.limit - 1)

    def of(self, sentence: int) -> Task:
        """Return the task of one sentence."""
        row = torch.tensor([sentence], device=self.mask.device)
        return dataclasses.replace(
            self,
            memory=gather(self.memory, row),
            mask=self.mask[row],
            prefixes=None if self.prefixes is None else [self.prefixes[sentence]],
            places=None if self.places is None else [self.places[sentence]],
        )

    @property
    def prefix(self) -> Tensor:
        """The prefixes as (sentences, longest) int64, padded on the right."""
        given = self.prefixes or [()] * len(self)
        longest = max(map(len, given))
        rows = [[*prefix, *[PADDING] * (longest - len(prefix))] for prefix in given]
        return torch.tensor(rows, dtype=torch.long, device=self.mask.device).view(
            len(self), longest
        )
