"""What a translator needs to know about vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.source_words import folded
from zoo.errors import DecodingError
from zoo.nn.contract import UNKNOWN

RARE = 3
"""From so many tokens on, a word is taken for one that training hardly has."""


class Vocabularies(NamedTuple):
    """What the tokenizers of a network say about words.

    is_rare: whether one of the target has so many tokens that training hardly had it; is_usual:
    whether one of the source is one token; lacks: whether the source vocabulary lacks a letter;
    is_known: whether one was in the sources of training, or these are not known.
    """

    is_rare: Callable[[str], bool]
    is_usual: Callable[[str], bool]
    lacks: Callable[[str], bool]
    is_known: Callable[[str], bool]


def vocabularies(checkpoint: Checkpoint) -> Vocabularies:
    """Return what the tokenizers of a checkpoint say about words."""
    source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer

    def is_usual(word: str) -> bool:
        (ids,) = source.encode([word])
        return len(ids) == 1 and ids[0] != UNKNOWN

    return Vocabularies(
        lambda word: len(target.encode([word])[0]) >= RARE,
        is_usual,
        lambda word: UNKNOWN in source.encode([word])[0],
        lambda word: not checkpoint.words or folded(word) in checkpoint.words,
    )


def shared_vocabulary(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Return the target tokens by id.

    Raises:
        DecodingError: the checkpoints have different target vocabularies.
    """
    first, *others = checkpoints
    vocabulary = first.target_tokenizer.vocabulary()
    for other in others:
        if other.target_tokenizer.vocabulary() != vocabulary:
            raise DecodingError(
                "these checkpoints cannot form an ensemble",
                f"{first.name} and {other.name} have different target vocabularies",
                "Train them on the same data with the same tokenizer and vocabulary size",
            )
    return vocabulary


def blank_tokens(vocabulary: Sequence[str], control: Collection[int]) -> Tensor:
    """Return the ids of the tokens that are only white space or no text, (tokens,) int64."""
    blank = {i for i, token in enumerate(vocabulary) if not token.replace("▁", " ").strip()}
    return torch.tensor(sorted(blank.union(control)), dtype=torch.long, device="cpu")
