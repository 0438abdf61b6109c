"""What a search decodes: a network, the encoded sources, and what each target must satisfy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

import torch
from torch import Tensor
from typing_extensions import TypeVar

from zoo.nn.contract import PADDING, Memory, Seq2Seq, State, Step
from zoo.nn.faults import step
from zoo.nn.tree import Tree, gather
from zoo.registry.registry import Registry

MemoryIn = TypeVar("MemoryIn", bound=Tree, contravariant=True)
"""The memory that a decoder reads."""


class Decoder(Protocol[MemoryIn, State]):
    """The part of a network that a search calls."""

    def init_state(self, memory: MemoryIn) -> State:
        """Return the state before the first token, one row a sentence."""

    def step(
        self, token: Tensor, state: State, memory: MemoryIn, attention: bool = False
    ) -> Step[State]:
        """Read one token a row, (rows,) int64, and predict the next, as `Seq2Seq.step` does."""


@dataclass(frozen=True)
class Task(Generic[Memory, State]):
    """Sentences to decode.

    Attributes:
        model: a network, or an `Ensemble`.
        memory: what its `encode` returned.
        mask: (sentences, m) bool, the real source tokens.
        limit: the model's maximum target length in tokens, begin and end included, or None.
        prefixes: the tokens that each target must begin with.
        indices: the index of each sentence in the whole input, which seeds its sampling; by
            default its row.
        blank: ids of the target tokens that are only white space, (tokens,), or None.
        registry: where searches and logits processors are looked up; by default that of the
            installed plugins.
        on_step: called before each step, or several that are taken at once; what it raises ends
            the search.
        record: whether a GPU may record its steps, which pays unless the weights change soon.
        leave_at: finished sentences leave the batch, which copies the memory, once they are such a
            part of it.
    """

    model: Decoder[Memory, State]
    memory: Memory
    mask: Tensor
    limit: int | None = None
    prefixes: Sequence[Sequence[int]] | None = None
    indices: Sequence[int] | None = None
    blank: Tensor | None = None
    registry: Registry | None = None
    on_step: Callable[[], None] | None = None
    record: bool = True
    leave_at: float = 1 / 8

    def __len__(self) -> int:
        return len(self.mask)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Call the network; the logits are float32, or float64 if the network computes in it."""
        if self.on_step is not None:
            self.on_step()
        result = step(self.model, token, state, memory, attention)
        logits = full_precision(result.logits)
        return result if logits is result.logits else result._replace(logits=logits)

    def taking(self, method: str) -> Seq2Seq[Memory, State] | None:
        """The network, if it has a method of its own that takes several steps at once."""
        network = self.model
        if not isinstance(network, Seq2Seq):
            return None
        is_own = getattr(type(network), method) is not getattr(Seq2Seq, method)
        return network if is_own else None

    def sentence(self, index: int) -> Task[Memory, State]:
        """Return the task of one sentence."""
        row = torch.tensor([index], device=self.mask.device)
        return dataclasses.replace(
            self,
            memory=gather(self.memory, row),
            mask=self.mask[row],
            prefixes=None if self.prefixes is None else [self.prefixes[index]],
            indices=None if self.indices is None else [self.indices[index]],
        )

    def padded_prefixes(self) -> Tensor:
        """Return the prefixes as (sentences, longest) int64, padded on the right."""
        prefixes = self.prefixes or [()] * len(self)
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[PADDING] * (longest - len(prefix))] for prefix in prefixes]
        padded = torch.tensor(rows, dtype=torch.long, device=self.mask.device)
        return padded.view(len(self), longest)


def target_limits(lengths: Tensor, limit: int | None) -> Tensor:
    """Return the default maximum target length of each source, the end token included.

    It is three times the source length plus 20, far longer than any translation, so that a network
    that repeats itself stops; and never over the model's limit. It depends on the sentence alone,
    not on the batch.

    Args:
        lengths: (sentences,) int64, source tokens.
        limit: the model's maximum target length in tokens, begin and end included, or None.
    """
    most = 3 * lengths + 20
    return most if limit is None else most.clamp(max=limit - 1)  # the limit counts the begin token


def full_precision(values: Tensor) -> Tensor:
    """Return values in the precision in which scores are added up: float32, or float64."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()
