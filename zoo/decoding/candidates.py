"""The best tokens of each row, and the best continuations of each sentence's rows.

No whole vocabulary is sorted: the largest values of chunks of the vocabulary come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.contract import END

CACHE_NUMBERS = 200_000
"""Float32 numbers that fit into a processor's cache."""

CHUNK = 64
"""Tokens in a chunk of the vocabulary."""


class Candidates(NamedTuple):
    """Continuations of each sentence's prefixes, best first: (sentences, k) each.

    Attributes:
        score: −inf where there is no continuation.
        parent: the slot, among those of the sentence, of the prefix that is continued.
        token: the token that continues it.
    """

    score: Tensor
    parent: Tensor
    token: Tensor


def log_normalizer(logits: Tensor, largest: Tensor) -> Tensor:
    """Return log Σ exp of each row, (rows,), given each row's largest logit.

    It is the largest logit less its log probability: torch's log-softmax takes half as long as exp
    and a sum. A few rows at a time, so that intermediate values stay in the cache.

    Args:
        logits: (rows, V).
        largest: (rows,).
    """
    log_probs = torch.empty_like(largest)
    size = max(1, CACHE_NUMBERS // logits.shape[1])
    for rows, part in zip(logits.split(size), log_probs.split(size), strict=True):
        torch.amax(rows.log_softmax(1), 1, out=part)
    return largest - log_probs


def best_continuations(
    values: Tensor, score: Tensor, k: int, banned: Sequence[int] = (), normalized: bool = False
) -> Candidates:
    """Return the k best continuations of each sentence's prefixes.

    Of equal ones those of the lower slot come first, then those of the lower token.

    Args:
        values: (sentences × width, V), logits, or scores that are added as they stand.
        score: (sentences, width), each prefix's score, −inf where it is not live.
        k: the number of continuations; there may be fewer.
        banned: tokens that may not come.
        normalized: whether the values are scores.
    """
    maxima = _chunk_maxima(values)
    # A log probability is the logit plus this number: no table of log probabilities is made.
    base = score if normalized else score - log_normalizer(values, maxima.amax(1)).view_as(score)
    values = values.view(*score.shape, -1)
    if maxima.shape[1] <= 4:
        return _by_sorting(values, base, k, banned)
    found, unsure = _by_chunks(values, maxima.view(*score.shape, -1), base, k, banned)
    if bool(unsure.any()):
        sorted_ = _by_sorting(values[unsure], base[unsure], k, banned)
        for part, exact in zip(found, sorted_, strict=True):
            part[unsure] = exact
    return found


def argmax(scores: Tensor) -> Tensor:
    """Return each row's best token, (rows,), of equal ones the lowest: scores (rows, V)."""
    # The first of the chunks that have the largest maximum, and in it the first that has it.
    chunk = _chunk_maxima(scores).argmax(1, keepdim=True)
    tokens = chunk * CHUNK + torch.arange(CHUNK, device=scores.device)
    tokens.clamp_(max=scores.shape[1] - 1)
    return tokens.gather(1, scores.gather(1, tokens).argmax(1, keepdim=True))[:, 0]


def _by_sorting(values: Tensor, base: Tensor, k: int, banned: Sequence[int]) -> Candidates:
    """Sort all continuations: values (sentences, width, V), base (sentences, width)."""
    scores = values + base[..., None]
    for token in banned:
        scores[..., token] = -torch.inf
    k = min(k, scores[0].numel())
    ranked, index = scores.flatten(1).sort(dim=1, descending=True, stable=True)
    return _candidates(ranked[:, :k], index[:, :k], values.shape[2])


def _chunk_maxima(values: Tensor) -> Tensor:
    """Return the largest value of each chunk, (rows, chunks)."""
    whole = values.shape[1] // CHUNK
    maxima = values[:, : whole * CHUNK].unflatten(1, (whole, CHUNK)).amax(2)
    if values.shape[1] % CHUNK:
        last = values[:, whole * CHUNK :].amax(1, keepdim=True)
        maxima = torch.cat([maxima, last], 1)
    return maxima


def _without(banned: Sequence[int], maxima: Tensor, values: Tensor) -> None:
    """Correct, in place, the maxima (…, chunks) of chunks that hold banned tokens."""
    for number in {token // CHUNK for token in banned}:
        start = number * CHUNK
        chunk = values[..., start : start + CHUNK].clone()
        chunk[..., [token - start for token in banned if token // CHUNK == number]] = -torch.inf
        maxima[..., number] = chunk.amax(-1)


def _by_chunks(
    values: Tensor, maxima: Tensor, base: Tensor, k: int, banned: Sequence[int]
) -> tuple[Candidates, Tensor]:
    """Find the continuations from the largest value of each chunk, (sentences, width, chunks).

    The k + 1 chunks of largest maxima hold the k + 1 largest values. Where the last two of these
    are equal, other chunks may hold equal ones: such sentences, (sentences,) bool, are unsure.
    """
    (sentences, width, vocab), chunks = values.shape, maxima.shape[2]
    _without(banned, maxima, values)
    first = (maxima + base[..., None]).flatten(1)
    first = first.topk(min(k + 1, width * chunks)).indices.sort(1).values
    slot, start = first // chunks, first % chunks * CHUNK
    tokens = start[..., None] + torch.arange(CHUNK, device=values.device)
    inside = tokens < vocab
    row = torch.arange(0, sentences * width, width, device=values.device)[:, None] + slot
    index = row[..., None] * vocab + tokens.clamp(max=vocab - 1)
    scores = values.flatten()[index] + base.gather(1, slot)[..., None]
    for token in banned:
        inside &= tokens != token
    scores = scores.masked_fill(~inside, -torch.inf).flatten(1)
    where = scores.topk(min(k + 1, scores.shape[1])).indices.sort(1).values
    # The values lie in the order of slots and tokens: so do equal ones after a stable sort.
    ranked, order = scores.gather(1, where).sort(dim=1, descending=True, stable=True)
    flat = (slot[..., None] * vocab + tokens).flatten(1).gather(1, where.gather(1, order))
    last, beyond = ranked[:, k - 1 : k], ranked[:, k : k + 1]  # the latter may be empty
    unsure = ((last == beyond) & (beyond > -torch.inf)).any(1)
    return _candidates(ranked[:, :k], flat[:, :k], vocab), unsure


def _candidates(score: Tensor, index: Tensor, vocab: int) -> Candidates:
    # Where there is no continuation, the index may lie outside the vocabulary.
    real = score > -torch.inf
    parent, token = index // vocab, index % vocab
    return Candidates(score, parent.masked_fill(~real, 0), token.masked_fill(~real, END))
