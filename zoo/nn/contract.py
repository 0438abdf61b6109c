"""The contract that every network meets, and the named tuples that it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple

from torch import Tensor, nn
from typing_extensions import TypeVar

from zoo.nn.tree import Tree
from zoo.registry.config import Config

PADDING, BEGIN, END, UNKNOWN = range(4)
"""The ids of the special tokens, in every vocabulary."""

Memory = TypeVar("Memory", bound=Tree, default=Tree)
"""What an architecture's encoder returns."""

State = TypeVar("State", bound=Tree, default=Tree)
"""What an architecture's decoder carries from one step to the next."""

Attention = Mapping[str, Tensor]
"""Weights by kind (`encoder`, `decoder`, `cross`): (rows, layers, heads, queries, keys) each."""


NOTHING: Attention = {}
"""What `attention` holds where it was not asked for."""


class Encoded(NamedTuple, Generic[Memory]):
    """What `encode` returns; `attention` is empty unless asked for."""

    memory: Memory
    attention: Attention = NOTHING


class Step(NamedTuple, Generic[State]):
    """What `step` returns: logits (rows, target_vocab), the next state, and attention if asked."""

    logits: Tensor
    state: State
    attention: Attention = NOTHING


class Output(NamedTuple):
    """What `forward` returns: logits (sentences, n, target_vocab), and attention if asked."""

    logits: Tensor
    attention: Attention = NOTHING


class Seq2Seq(nn.Module, ABC, Generic[Memory, State]):
    """An encoder–decoder. `Network(config, source_vocab, target_vocab)` builds it.

    Batch first; masks are bool, True at real tokens; padding on the right. A source ends with the
    end token, a target begins with the begin token, and `logits[:, i]` predict token i + 1. With
    `attention=True`, `encode`, `step` and `forward` fill the field `attention` of what they
    return; `forward`'s kinds include those of `encode` and `step`. Nothing else changes.

    Memory and state are nested NamedTuples, tuples or lists of tensors, `zoo.nn.Cache`s and
    `zoo.nn.KeyValueCache`s, with rows on dimension 0. Memory rows are sentences; state rows are
    sentences × beam, a sentence's rows adjacent; memory is never copied per beam. A `step` must
    not modify its arguments.

    A network has parameters and no buffers. Randomness comes only from torch's default
    generators.
    """

    def __init__(self, config: Config, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        if config.one_vocabulary and source_vocab != target_vocab:
            raise ValueError(
                f"this configuration needs one vocabulary: {source_vocab:,} is not {target_vocab:,}"
            )
        self.source_vocab, self.target_vocab = source_vocab, target_vocab

    @abstractmethod
    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m) int64, with their mask, into memory."""

    @abstractmethod
    def init_state(self, memory: Memory) -> State:
        """Return the state before the first token, one row a sentence."""

    @abstractmethod
    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token a row, (rows,) int64, and predict the next."""

    @abstractmethod
    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Predict every position of the target, (sentences, n) int64, at once: teacher forcing."""

    if TYPE_CHECKING:

        def __call__(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            """Call `forward`: torch's own signature has no types."""
