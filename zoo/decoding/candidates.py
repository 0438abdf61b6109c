"""The best token of each row, and the best continuations of each sentence's prefixes.

Large vocabularies are not sorted: the search first compares the maxima of vocabulary chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.contract import END

CACHE_NUMBERS = 200_000
"""The number of float32 values that fit into a processor's cache."""

CHUNK = 64
"""The number of tokens in a vocabulary chunk."""


class Candidates(NamedTuple):
    """Continuations of each sentence's prefixes, best first: (sentences, k) each.

    Attributes:
        score: −inf where there is no continuation.
        parent: the slot, within the sentence, of the continued prefix.
        token: the token that is appended to it.
    """

    score: Tensor
    parent: Tensor
    token: Tensor


def log_normalizer(logits: Tensor, largest: Tensor) -> Tensor:
    """Return log Σ exp of each row, (rows,), given each row's largest logit.

    Computed as the largest logit minus its log probability, because torch's log-softmax takes half
    the time of exp and a sum. Rows are processed in small groups whose intermediate values fit into
    the cache.

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

    Equal scores are ordered by slot, then by token id.

    Args:
        values: (sentences × width, V), logits, or normalized scores.
        score: (sentences, width), each prefix's score, −inf where it is not live.
        k: the maximum number of continuations.
        banned: token ids that may not be appended.
        normalized: whether `values` holds normalized scores.
    """
    maxima = _chunk_maxima(values)
    # Adding this to a logit gives the score, without a table of log probabilities.
    base = score if normalized else score - log_normalizer(values, maxima.amax(1)).view_as(score)
    values = values.view(*score.shape, -1)
    if maxima.shape[1] <= 4:
        return _by_sorting(values, base, k, banned)
    candidates, unsure = _by_chunks(values, maxima.view(*score.shape, -1), base, k, banned)
    if bool(unsure.any()):
        exact = _by_sorting(values[unsure], base[unsure], k, banned)
        for part, exact_part in zip(candidates, exact, strict=True):
            part[unsure] = exact_part
    return candidates


def argmax(scores: Tensor) -> Tensor:
    """Return each row's best token, (rows,), the lowest of equal ones; scores: (rows, V)."""
    # The first chunk with the largest maximum, and the first token with that value in it.
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
    """Recompute, in place, the maxima (…, chunks) of chunks with banned tokens."""
    for number in {token // CHUNK for token in banned}:
        start = number * CHUNK
        chunk = values[..., start : start + CHUNK].clone()
        chunk[..., [token - start for token in banned if token // CHUNK == number]] = -torch.inf
        maxima[..., number] = chunk.amax(-1)


def _by_chunks(
    values: Tensor, maxima: Tensor, base: Tensor, k: int, banned: Sequence[int]
) -> tuple[Candidates, Tensor]:
    """Find the continuations from the maximum of each chunk, (sentences, width, chunks).

    The k + 1 chunks with the largest maxima hold the k + 1 largest values. If the last two of these
    are equal, other chunks may hold equal values. The second result, (sentences,) bool, marks these
    sentences.
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
    # Values are in the order of slots and tokens; a stable sort keeps this order for equal ones.
    ranked, order = scores.gather(1, where).sort(dim=1, descending=True, stable=True)
    flat = (slot[..., None] * vocab + tokens).flatten(1).gather(1, where.gather(1, order))
    last, beyond = ranked[:, k - 1 : k], ranked[:, k : k + 1]  # the latter may be empty
    unsure = ((last == beyond) & (beyond > -torch.inf)).any(1)
    return _candidates(ranked[:, :k], flat[:, :k], vocab), unsure


def _candidates(score: Tensor, index: Tensor, vocab: int) -> Candidates:
    # Without a continuation, the index may be outside the vocabulary.
    real = score > -torch.inf
    parent, token = index // vocab, index % vocab
    return Candidates(score, parent.masked_fill(~real, 0), token.masked_fill(~real, END))
