"""The best token of each row, and the best continuations of each sentence's prefixes.

Large vocabularies are not sorted: the maxima of vocabulary chunks are compared first. On a GPU
nothing waits for an answer, so that it can be recorded (`step_graphs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.contract import END
from zoo.nn.kernels import Kernels, is_in_rows, is_plain, kernels

CACHE_NUMBERS = 200_000
"""The number of float32 values that fit into a processor's cache."""

SAFE_EXPONENT = 60.0
"""Sums of exponentials of at most this are finite, and those of at least its negative not zero."""

CHUNK = 64
"""The number of tokens in a vocabulary chunk."""

FEW_CHUNKS = 4
"""So many are compared token by token, as fast as the maxima would be."""


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

    Exponentials of the logits themselves are added up, unless a row's largest is too large or too
    small for that: on a CPU this takes half the time of torch's log-softmax. Rows are processed in
    small groups whose intermediate values fit into the cache.

    Args:
        logits: (rows, V).
        largest: (rows,).
    """
    size = max(1, CACHE_NUMBERS // logits.shape[1])
    groups = zip(logits.split(size), largest.split(size), strict=True)
    if not bool((largest.abs() < SAFE_EXPONENT).all()):
        return torch.cat([shift - rows.log_softmax(1).amax(1) for rows, shift in groups])
    sums, powers = torch.empty_like(largest), torch.empty_like(logits[:size])
    for rows, part in zip(logits.split(size), sums.split(size), strict=True):
        torch.sum(torch.exp(rows, out=powers[: len(rows)]), 1, out=part)
    return sums.log_()


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
    k = min(k, score.shape[1] * values.shape[1])
    compiled = kernels_for(values)
    if compiled is not None and is_plain(score):
        score = score.contiguous()
        candidates = compiled.continuations(
            values, score, k, banned, normalized=normalized, none=END
        )
        return Candidates(*candidates)
    base = score
    if not values.is_cpu:  # reads all faster than it starts many small operations
        values = ban(values.clone() if normalized else values.log_softmax(1), banned)
        maxima, banned = _chunk_maxima(values), ()
    else:
        maxima = _chunk_maxima(values)
        if not normalized:
            # Adding this to a logit gives the score, without a table of log probabilities.
            base = score - log_normalizer(values, maxima.amax(1)).view_as(score)
    maxima = maxima.view(*score.shape, -1)
    return _by_chunks(values.view(*score.shape, -1), maxima, base, k, banned)


def best_token(logits: Tensor, banned: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Return each row's best token that is not banned, and its log probability, (rows,) each.

    Of equal tokens, the lowest; logits: (rows, V).
    """
    compiled = kernels_for(logits)
    if compiled is not None:
        zero = logits.new_zeros(logits.shape[0], 1)
        score, _, token = compiled.continuations(
            logits, zero, 1, banned, normalized=False, none=END
        )
        return token[:, 0], score[:, 0]
    if not logits.is_cpu:
        token = ban(logits.clone(), banned).argmax(1)  # the first of equal ones
        return token, logits.log_softmax(1).gather(1, token[:, None])[:, 0]
    maxima = _chunk_maxima(logits)
    normalizer = log_normalizer(logits, maxima.amax(1))
    _without(banned, maxima, logits)
    token = _first_best(maxima, logits, banned)
    return token[:, 0], logits.gather(1, token)[:, 0] - normalizer


def ban(scores: Tensor, banned: Sequence[int]) -> Tensor:
    """Write −∞ for the banned tokens; return the scores, (…, V).

    One range after the other: a GPU that records cannot read a list of them.
    """
    starts = [token for token in banned if token - 1 not in banned]
    for start in dict.fromkeys(starts):
        end = start + 1
        while end in banned:
            end += 1
        scores[..., start:end] = -torch.inf
    return scores


def kernels_for(values: Tensor) -> Kernels | None:
    """Return the kernels if there are any and they can read the values, (rows, V)."""
    return kernels() if values.shape[1] > 0 and is_in_rows(values) else None


def argmax(scores: Tensor) -> Tensor:
    """Return each row's best token, (rows,), the lowest of equal ones; scores: (rows, V)."""
    return _first_best(_chunk_maxima(scores), scores)[:, 0]


def _first_best(maxima: Tensor, values: Tensor, banned: Sequence[int] = ()) -> Tensor:
    """Return the first chunk with the largest maximum's first token with that value, (rows, 1)."""
    chunk = maxima.argmax(1, keepdim=True)
    tokens = chunk * CHUNK + torch.arange(CHUNK, device=values.device)
    tokens.clamp_(max=values.shape[1] - 1)
    chosen = values.gather(1, tokens)
    for token in banned:
        chosen.masked_fill_(tokens == token, -torch.inf)
    return tokens.gather(1, chosen.argmax(1, keepdim=True))


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
        ban(chunk, [token - start for token in banned if token // CHUNK == number])
        maxima[..., number] = chunk.amax(-1)


def _by_chunks(
    values: Tensor, maxima: Tensor, base: Tensor, k: int, banned: Sequence[int]
) -> Candidates:
    """Find the continuations from the maximum of each chunk, (sentences, width, chunks).

    The k best chunks, of equal ones the first, hold the k best continuations: were one elsewhere,
    each of these chunks would hold a better or an earlier one.
    """
    (sentences, width, vocab), chunks = values.shape, maxima.shape[2]
    if chunks <= FEW_CHUNKS:
        scores = ban(values + base[..., None], banned)
        return _candidates(*_best(scores.flatten(1), k), vocab)
    _without(banned, maxima, values)
    first = _best((maxima + base[..., None]).flatten(1), k)[1].sort(1).values
    slot, start = first // chunks, first % chunks * CHUNK
    tokens = start[..., None] + torch.arange(CHUNK, device=values.device)
    inside = tokens < vocab
    row = torch.arange(0, sentences * width, width, device=values.device)[:, None] + slot
    index = row[..., None] * vocab + tokens.clamp(max=vocab - 1)
    scores = values.flatten()[index] + base.gather(1, slot)[..., None]
    for token in banned:
        inside &= tokens != token
    # These are in the order of slots and tokens.
    best, where = _best(scores.masked_fill(~inside, -torch.inf).flatten(1), k)
    flat = (slot[..., None] * vocab + tokens).flatten(1).gather(1, where)
    return _candidates(best, flat, vocab)


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best values of each row, and their indices: best first, equal ones by index."""
    k = min(k, values.shape[1])
    if not values.is_cpu:  # it sorts faster than it gives an answer
        ranked, index = values.sort(dim=1, descending=True, stable=True)
        return ranked[:, :k], index[:, :k]
    top, index = values.topk(min(k + 1, values.shape[1]))
    ranked, index, beyond = top[:, :k], index[:, :k], top[:, 1:]
    # `topk` may choose any of equal values, in any order.
    unsure = ((top[:, :-1] == beyond) & (beyond > -torch.inf)).any(1)
    if bool(unsure.any()):
        exact = values[unsure].sort(dim=1, descending=True, stable=True)
        ranked[unsure], index[unsure] = exact.values[:, :k], exact.indices[:, :k]
    return ranked, index


def _candidates(score: Tensor, index: Tensor, vocab: int) -> Candidates:
    # Without a continuation, the index may be outside the vocabulary.
    real = score > -torch.inf
    parent, token = index // vocab, index % vocab
    return Candidates(score, parent.masked_fill(~real, 0), token.masked_fill(~real, END))
