"""The contract that every network meets, and the named tuples that its methods return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, cast

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from zoo.errors import ArgumentError, DecodingError, ZooError, shown
from zoo.nn.tree import Tree
from zoo.registry.config import Config

PADDING, BEGIN, END, UNKNOWN = range(4)
"""The ids of the special tokens, in every vocabulary."""

Memory = TypeVar("Memory", bound=Tree, default=Tree)
"""What an architecture's encoder returns: its type differs between architectures."""

State = TypeVar("State", bound=Tree, default=Tree)
"""What an architecture's decoder carries from one step to the next."""

Attention = Mapping[str, Tensor]
"""Weights by kind, each (rows, layers, heads, queries, keys).

The kinds are `encoder` (source to source), `decoder` (target to target), `cross` (target to source)
and `joint` (target to the source followed by the target, in one softmax).
"""


class AttentionKind(NamedTuple):
    """How a kind of attention differs from one softmax over one key per token.

    sums_to_one: whether the weights of each query do. stride: how many source tokens each key of
    the source stands for, the last perhaps for fewer; None if keys stand for no tokens.
    """

    sums_to_one: bool = True
    stride: int | None = 1

    def keys(self, source_mask: Tensor) -> Tensor:
        """Return which keys stand for real tokens, (sentences, keys), given (sentences, m)."""
        return source_mask[:, :: self.stride or 1]


USUAL_KIND = AttentionKind()

NO_ATTENTION: Attention = {}
"""The field `attention` of a result for which attention was not requested."""


NO_LOSSES: Mapping[str, Tensor] = {}
"""The field `losses` of a network without losses of its own."""


class Encoded(NamedTuple, Generic[Memory]):
    """What `encode` returns: the memory, and attention if requested."""

    memory: Memory
    attention: Attention = NO_ATTENTION


class Step(NamedTuple, Generic[State]):
    """What `step` returns: logits (rows, target_vocab), the next state, attention if requested."""

    logits: Tensor
    state: State
    attention: Attention = NO_ATTENTION


class GreedySteps(NamedTuple, Generic[State]):
    """What `greedy_steps` returns: several steps at once.

    tokens, scores: the best tokens and their log probabilities, (rows, steps); only the last step
    may have an end token. state: after reading all tokens but those of the last step.
    """

    tokens: Tensor
    scores: Tensor
    state: State


class BeamSteps(NamedTuple, Generic[State]):
    """What `beam_steps` returns: several steps at once.

    tokens, parents: what continues the prefixes after each step but the last, and the number of
    the row whose prefix it continues, (steps − 1, rows). scores: of the prefixes that the last
    step has read, (sentences, beam). logits: of the last step, (rows, target_vocab). state: after
    it.
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor
    logits: Tensor
    state: State


class Output(NamedTuple):
    """What `forward` returns: logits (sentences, n, target_vocab), and attention if requested.

    `losses` are the network's own, by name, in training mode only: scalars that are added to the
    cross-entropy. Each is weighted already, and a sum over the batch as the cross-entropy is.
    """

    logits: Tensor
    attention: Attention = NO_ATTENTION
    losses: Mapping[str, Tensor] = NO_LOSSES


class Seq2Seq(nn.Module, ABC, Generic[Memory, State]):
    """An encoder–decoder. `Network(config, source_vocab, target_vocab)` builds it.

    The page `docs/contract.md` is the reference, with examples.

    Tensors are batch first. Masks are bool, True at real tokens; padding is on the right. A source
    ends with the end token, a target begins with the begin token, and `logits[:, i]` predicts token
    i + 1. `attention=True` fills the field `attention` of what `encode`, `step` and `forward`
    return and changes nothing else; `forward`'s kinds include those of `encode` and `step`.

    Memory and state are nested NamedTuples, tuples or lists of tensors, `zoo.nn.Cache` and
    `zoo.nn.KeyValueCache`, with rows on dimension 0. Memory rows are sentences. State rows are
    sentences × beam, the rows of a sentence adjacent; memory is not copied for the beam. `step`
    must not modify its arguments.

    A kind of attention whose weights do not sum to one, or whose keys are not the source tokens, is
    declared in `attention_kinds`.

    A network has parameters and no buffers. Randomness comes only from torch's default
    generators.

    Raises:
        ValueError: the configuration needs one vocabulary, and the two sizes differ.
    """

    attention_kinds: Mapping[str, AttentionKind] = {}
    """What is unusual about kinds of attention, by kind."""

    recordable = False
    """Whether a GPU may repeat `step`, and in training `forward`, as it was recorded once.

    See `docs/contract.md`. A subclass has to say so itself.
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
        """Encode sources, (sentences, m) int64, with their mask, into memory."""

    @abstractmethod
    def init_state(self, memory: Memory) -> State:
        """Return the state before the first token, one row per sentence."""

    @abstractmethod
    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row, (rows,) int64, and predict the next."""

    def greedy_steps(
        self, token: Tensor, state: State, memory: Memory, count: int, banned: Sequence[int]
    ) -> GreedySteps[State] | None:
        """Take up to `count` steps, each of which reads the best tokens of the one before.

        None if the network cannot do it, or not now: then a search takes the steps one by one. Of
        equal tokens, the lowest is the best; none of `banned` is. A step in which the best token
        of a row is the end token is the last.

        Args:
            token: what the first step reads, (rows,) int64, one row a sentence.
            state, memory: as of `step`.
            count: the most steps, at least 1.
            banned: tokens that are not chosen.
        """
        return None

    def beam_steps(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        scores: Tensor,
        count: int,
        banned: Sequence[int],
    ) -> BeamSteps[State] | None:
        """Take up to `count` steps, each of which reads the best continuations of the one before.

        None if the network cannot do it, or not now: then a search takes the steps one by one. A
        sentence has as many best continuations as rows, best first; of equal ones those of the
        earlier row come first, then those of the lower token. The first step after which one of
        them is the end token, or too few are possible, is the last.

        Args:
            token: what the first step reads, (rows,) int64.
            state, memory: as of `step`.
            scores: the sum of the log probabilities of each row's prefix, (sentences, beam), −inf
                where a row is not continued.
            count: the most steps, at least 1.
            banned: tokens that are not chosen.
        """
        return None

    @abstractmethod
    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Predict all positions of the target, (sentences, n) int64, at once: teacher forcing."""

    def onnx_reasons(self) -> list[str]:
        """Return why this network cannot be exported to ONNX; by default no reason."""
        return []

    def __call__(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Call `forward`, after a check of what it is given.

        Raises:
            ArgumentError: these tensors are not a batch, or have ids beyond the vocabularies.
            ZooError: a function of `torch.func`, such as `grad`, transforms a call that it cannot.
        """
        if not is_batch(source, source_mask, target):
            raise not_a_batch(source, source_mask, target)
        try:
            return cast(Output, super().__call__(source, source_mask, target, attention))
        except IndexError as error:
            sides = {"source": (source, self.source_vocab), "target": (target, self.target_vocab)}
            if wrong := [*filter(None, (wrong_ids(name, *side) for name, side in sides.items()))]:
                raise ArgumentError("a network cannot read this batch", "; ".join(wrong)) from error
            raise
        except RuntimeError as error:
            if not torch._C._are_functorch_transforms_active():
                raise
            raise ZooError(
                "torch.func cannot transform this network",
                "it has layers that are compiled, or differentiated by hand",
                "Compute gradients by backward() or torch.autograd.grad; functional_call works",
            ) from error


def is_batch(source: Tensor, source_mask: Tensor, target: Tensor) -> bool:
    """Return whether tensors have the shapes and types of a batch, with a token on each side."""
    tensors = all(isinstance(each, Tensor) for each in (source, source_mask, target))
    return (
        tensors
        and source.dim() in (2, 3)  # token ids, or feature vectors
        and source.is_floating_point() == (source.dim() == 3)
        and source_mask.shape == source.shape[:2]
        and source_mask.dtype is torch.bool
        and target.dim() == 2
        and not target.is_floating_point()
        and len(target) == len(source)
        and min(*source.shape, *target.shape) > 0
    )


def not_a_batch(source: object, source_mask: object, target: object) -> ArgumentError:
    """Return the error for what is no batch, with the shapes and types that it has."""
    given = {"source": source, "source_mask": source_mask, "target": target}
    said = [
        f"{name} is {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
        if isinstance(value, Tensor)
        else f"{name} is {shown(value)}, not a tensor"
        for name, value in given.items()
    ]
    return ArgumentError(
        "a network cannot read this batch",
        "; ".join(said),
        "It reads source (sentences, m) of int64, source_mask (sentences, m) of bool and target "
        "(sentences, n) of int64, none of them empty",
    )


def wrong_ids(name: str, given: Tensor, vocab: int) -> str:
    """Return what is wrong with the ids of one side, or nothing; feature vectors have none."""
    ids = () if given.is_floating_point() else (int(given.min()), int(given.max()))
    wrong = next((i for i in ids if not 0 <= i < vocab), None)
    return "" if wrong is None else f"{name} has the id {wrong}, and ids are 0 to {vocab - 1:,}"


class Decoded(NamedTuple):
    """What `decode` returns: a target for each sentence.

    tokens: (sentences, n) int64, each row at least one token, the end token, and padding.
    log_probs: (sentences, n), each token's log probability, 0 at padding.
    """

    tokens: Tensor
    log_probs: Tensor


class NonAutoregressive(Seq2Seq[Memory, tuple[()]], Generic[Memory]):
    """A network that predicts the tokens of a target together, by a search of its own.

    It implements `encode`, `forward` and `decode`. In evaluation mode the logits of `forward`
    depend on the target's length alone; in training mode they may depend on its tokens.
    """

    @abstractmethod
    def decode(self, memory: Memory, limits: Tensor, banned: Tensor) -> Decoded:
        """Return a target for each sentence.

        Args:
            memory: what `encode` returned.
            limits: (sentences,) int64, the most tokens of each target, the end token included.
            banned: (ids,) int64, tokens that no target may contain before its end token.
        """

    def init_state(self, memory: Memory) -> tuple[()]:
        """Raise a DecodingError: there are no steps."""
        raise self._no_steps()

    def step(
        self, token: Tensor, state: tuple[()], memory: Memory, attention: bool = False
    ) -> Step[tuple[()]]:
        """Raise a DecodingError: there are no steps."""
        raise self._no_steps()

    def onnx_reasons(self) -> list[str]:
        """Return why this network cannot be exported to ONNX: a graph is of one step."""
        return ["it predicts all tokens together, and an exported graph is of one step"]

    def _no_steps(self) -> DecodingError:
        return DecodingError(
            "this model cannot write a translation one token at a time",
            f"{type(self).__name__} predicts all tokens together, by a search of its own",
        )
