"""What a translator needs to know about target vocabularies."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.errors import DecodingError


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
