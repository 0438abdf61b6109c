"""Forced decoding: what a network computes for given targets."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

import torch
from torch import Tensor

from zoo.decoding.options import Hypothesis
from zoo.decoding.ranking import not_a_number
from zoo.decoding.source_attention import alignment_weights
from zoo.decoding.steps import bounded
from zoo.decoding.task import full_precision
from zoo.errors import DecodingError
from zoo.nn.contract import BEGIN, END, PADDING, Attention, Memory, Seq2Seq, State
from zoo.nn.faults import forward

most_pairs: ContextVar[float] = ContextVar("most_pairs", default=math.inf)
"""The most pairs of tokens, of sources and targets together, whose attention is held at once."""


@torch.inference_mode()
def forced_log_probs(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log probability of each token of each target, the end token's last.

    Args:
        model: a network.
        source, mask: (sentences, m) int64 and bool.
        targets: token ids without begin and end.

    Raises:
        DecodingError: a log probability is not a number.
    """
    inputs, labels = _padded(targets, source.device)
    logits = full_precision(forward(model, source, mask, inputs).logits)
    scores = logits.gather(2, labels[..., None])[..., 0] - logits.logsumexp(2)
    rows = [row[: len(target) + 1] for row, target in zip(scores.tolist(), targets, strict=True)]
    if any(math.isnan(score) for row in rows for score in row):
        raise not_a_number()
    return rows


@torch.inference_mode()
def forced_attention(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> Attention:
    """Return the attention by kind, (sentences, layers, heads, n, m), while writing targets.

    The first query of a target predicts its first token; the last predicts the end token.

    Raises:
        DecodingError: a weight is not a number, or there are too many of them (`most_pairs`).
    """
    pairs = most_pairs.get() / len(source)
    if _tokens(source, targets) ** 2 > pairs:
        raise DecodingError(*too_many(pairs))
    inputs, _ = _padded(targets, source.device)
    attention = forward(model, source, mask, inputs, attention=True).attention
    if any(bool(weights.isnan().any()) for weights in attention.values()):
        raise not_a_number()
    return attention


def most_target_tokens(source_tokens: int) -> float:
    """Return the most tokens of a target, with its end token, whose attention is held at once."""
    most = most_pairs.get()
    return most if most == math.inf else math.isqrt(int(most)) - source_tokens


def too_many(pairs: float) -> tuple[str, str, str]:
    """Return the error of attention of more pairs of tokens: what, why and advice."""
    most = math.isqrt(int(pairs)) if pairs < math.inf else pairs
    why = f"the text and its translation have over {most:,} tokens"
    return "the attention is too large", why, "Shorten the text, or leave out the alignment"


@contextlib.contextmanager
def aligning(source_tokens: int, min_length: int) -> Iterator[None]:
    """End a search within this context with an error once a target is too long to be aligned.

    Args:
        source_tokens: tokens of the longest source, with the end token.
        min_length: the fewest tokens of a target, with its end token.

    Raises:
        DecodingError: no target can be aligned, however short it is, or one is too long.
    """
    most = most_target_tokens(source_tokens)
    what, why, advice = too_many(most_pairs.get())
    if most < max(2, min_length):
        raise DecodingError(what, f"the text has {source_tokens:,} tokens", advice)
    with bounded(most, (what, why, advice)):
        yield


def align(
    model: Seq2Seq[Memory, State], source: Tensor, mask: Tensor, targets: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    """Return, for each token of each target, the source token with the highest attention weight.

    Weights are averaged over layers and heads; a target's end token is left out. Where a key stands
    for several tokens, the first of them is returned.

    Raises:
        DecodingError: the model has no attention from target to source.
    """
    rows = int(max(1, min(len(targets), most_pairs.get() // _tokens(source, targets) ** 2)))
    aligned: list[list[int]] = []
    for start in range(0, len(targets), rows):
        part = slice(start, start + rows)
        attention = forced_attention(model, source[part], mask[part], targets[part])
        weights = alignment_weights(attention, model.attention_kinds, source.shape[1])
        aligned += weights.argmax(2).tolist()
    return [tuple(row[: len(target)]) for row, target in zip(aligned, targets, strict=True)]


def align_ranked(
    model: Seq2Seq[Memory, State],
    source: Tensor,
    mask: Tensor,
    hypotheses: Sequence[Sequence[Hypothesis]],
) -> list[list[tuple[int, ...]]]:
    """Return what `align` does for each hypothesis of each source.

    Raises:
        DecodingError: the model has no attention from target to source.
    """
    aligned: list[list[tuple[int, ...]]] = [[] for _ in hypotheses]
    for rank in range(max(map(len, hypotheses))):
        rows = [i for i, ranked in enumerate(hypotheses) if len(ranked) > rank]
        targets = [hypotheses[i][rank].tokens for i in rows]
        for i, indices in zip(rows, align(model, source[rows], mask[rows], targets), strict=True):
            aligned[i].append(indices)
    return aligned


def _tokens(source: Tensor, targets: Sequence[Sequence[int]]) -> int:
    """Return the width of padded sources and targets together, with the targets' end tokens."""
    return source.shape[1] + max(map(len, targets)) + 1


def _padded(targets: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the decoder's inputs and labels, (sentences, longest + 1) each, padded."""
    longest = max(map(len, targets))
    rows = [[*target, END, *[PADDING] * (longest - len(target))] for target in targets]
    labels = torch.tensor(rows, device=device)
    begin = torch.full_like(labels[:, :1], BEGIN)
    return torch.cat([begin, labels[:, :-1]], 1), labels
