"""Forced decoding: what a network thinks of a target that is given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.decoding.candidates import in_full
from zoo.decoding.coverage import cross
from zoo.nn.contract import BEGIN, END, PADDING, Attention, Memory, Seq2Seq, State


def _targets(targets: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return what is read and what is to be predicted, (sentences, longest + 1), padded."""
    longest = max(map(len, targets))
    ends = [[*target, END, *[PADDING] * (longest - len(target))] for target in targets]
    wanted = torch.tensor(ends, device=device)
    begin = torch.full_like(wanted[:, :1], BEGIN)
    return torch.cat([begin, wanted[:, :-1]], 1), wanted


@torch.inference_mode()
def forced(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log probability of each token of each target, the end token's the last.

    Args:
        model: a network.
        source, mask: (sentences, m) as the contract has them.
        targets: token ids without begin and end.
    """
    read, wanted = _targets(targets, source.device)
    logits = in_full(model(source, mask, read).logits)
    scores = logits.gather(2, wanted[..., None])[..., 0] - logits.logsumexp(2)
    return [row[: len(target) + 1] for row, target in zip(scores.tolist(), targets, strict=True)]


@torch.inference_mode()
def look(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> Attention:
    """Return the attention of writing the targets, by kind: (sentences, layers, heads, n, m).

    Queries of the target's kinds begin with the one that predicts its first token.
    """
    return model(source, mask, _targets(targets, source.device)[0], attention=True).attention


def align(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    """Return, for each token of each target, the source token that it looks at most.

    The mean over layers and heads decides; a target's end token is left out.

    Raises:
        DecodingError: the model has no attention from target to source.
    """
    most = cross(look(model, source, mask, targets)).argmax(2).tolist()
    return [tuple(row[: len(target)]) for row, target in zip(most, targets, strict=True)]
