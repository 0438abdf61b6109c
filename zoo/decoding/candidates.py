"""Which tokens may come next, and the likeliest of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.decoding.options import Search
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN

NEVER = (PADDING, BEGIN, UNKNOWN)
"""Tokens that no hypothesis contains."""

IN_CACHE = 200_000
"""Numbers that a processor's cache holds."""

CHUNK = 64
"""Neighbouring tokens whose largest logit stands for them in the first look."""


class Candidates(NamedTuple):
    """Continuations, the best first: (sentences, k) each; the score is −inf where there is none.

    `parent` is the slot that it goes on from, of the sentence's own.
    """

    score: Tensor
    parent: Tensor
    token: Tensor


class Allowed(NamedTuple):
    """What may come at a place, 1 being the first; prefix: (sentences, longest), 0 after its end.

    Each of a sentence's rows must go on with the prefix.
    """

    place: int
    options: Search
    prefix: Tensor

    @property
    def forced(self) -> bool:
        """Whether a prefix decides here."""
        return self.place <= self.prefix.shape[1]

    @property
    def banned(self) -> list[int]:
        """The special tokens that may not come: always three, and an end that is too early."""
        return [*NEVER, END] if self.place < self.options.min_length else [*NEVER]

    def restrict(self, chances: Tensor) -> None:
        """Make what may not come impossible, −inf, in place: chances (sentences, …, V)."""
        for token in self.banned:
            chances[..., token] = -torch.inf
        if self.forced:
            wanted = self.prefix[:, self.place - 1].view(-1, *[1] * (chances.dim() - 1))
            tokens = torch.arange(chances.shape[-1], device=chances.device)
            chances.masked_fill_((tokens != wanted) & (wanted != PADDING), -torch.inf)


def in_full(logits: Tensor) -> Tensor:
    """Return logits in a precision to add scores up in: float32, or float64 if they have it."""
    return logits if logits.dtype == torch.float64 else logits.float()


def log_total(logits: Tensor, largest: Tensor) -> Tensor:
    """Return log Σ exp of each row, (rows,), given each row's largest.

    logits: (rows, V). It is the largest's logit less its log probability: torch's log-softmax takes
    half as long as exp and a sum. A few rows at a time, so that what lies between stays in the
    cache.
    """
    most = torch.empty_like(largest)
    size = max(1, IN_CACHE // logits.shape[1])
    for rows, part in zip(logits.split(size), most.split(size), strict=True):
        torch.amax(rows.log_softmax(1), 1, out=part)
    return largest - most


def likeliest(logits: Tensor, score: Tensor, k: int, allowed: Allowed) -> Candidates:
    """Return each sentence's k likeliest continuations.

    Of equal ones those of the lower slot come first, then those of the lower token.

    Args:
        logits: (sentences × width, V), not normalised.
        score: (sentences, width), each prefix's log probability, −inf where it is not live.
        k: how many; there may be fewer.
        allowed: what may come.
    """
    logits = in_full(logits)
    maxima = _maxima(logits)
    # A token's log probability is its logit and this; the whole table of them is never made.
    base = score - log_total(logits, maxima.amax(1)).view_as(score)
    logits = logits.view(*score.shape, -1)
    if allowed.forced or maxima.shape[1] <= 4:
        return _of_all(logits, base, k, allowed)
    found, unsure = _by_chunks(logits, maxima.view(*score.shape, -1), base, k, allowed)
    if bool(unsure.any()):
        again = _of_all(logits[unsure], base[unsure], k, allowed)
        for part, new in zip(found, again, strict=True):
            part[unsure] = new
    return found


def best(logits: Tensor, allowed: Allowed) -> tuple[Tensor, Tensor]:
    """Return each row's likeliest token, of equal ones the lowest, and its log probability.

    logits: (rows, V), of a sentence each, not normalised.
    """
    chances = in_full(logits).log_softmax(1)  # ours to write to
    allowed.restrict(chances)
    # The first of the chunks that have the largest maximum, and in it the first that has it.
    chunk = _maxima(chances).argmax(1, keepdim=True)
    tokens = chunk * CHUNK + torch.arange(CHUNK, device=logits.device)
    tokens.clamp_(max=logits.shape[1] - 1)
    token = tokens.gather(1, chances.gather(1, tokens).argmax(1, keepdim=True))
    return token[:, 0], chances.gather(1, token)[:, 0]


def _of_all(logits: Tensor, base: Tensor, k: int, allowed: Allowed) -> Candidates:
    """Sort all continuations: logits (sentences, width, V), base (sentences, width)."""
    chances = logits + base[..., None]
    allowed.restrict(chances)
    k = min(k, chances[0].numel())
    ranked, place = chances.flatten(1).sort(dim=1, descending=True, stable=True)
    return _candidates(ranked[:, :k], place[:, :k], logits.shape[2])


def _maxima(logits: Tensor) -> Tensor:
    """Return the largest logit of each chunk, (rows, chunks)."""
    whole = logits.shape[1] // CHUNK
    maxima = logits[:, : whole * CHUNK].unflatten(1, (whole, CHUNK)).amax(2)
    if logits.shape[1] % CHUNK:
        last = logits[:, whole * CHUNK :].amax(1, keepdim=True)
        maxima = torch.cat([maxima, last], 1)
    return maxima


def _bar(maxima: Tensor, logits: Tensor, allowed: Allowed) -> None:
    """Have the first chunk's maximum, (…, chunks), be of what may come: logits (…, V)."""
    special = logits[..., : UNKNOWN + 1].clone()
    special[..., allowed.banned] = -torch.inf
    maxima[..., 0] = torch.cat([special, logits[..., UNKNOWN + 1 : CHUNK]], -1).amax(-1)


def _by_chunks(
    logits: Tensor, maxima: Tensor, base: Tensor, k: int, allowed: Allowed
) -> tuple[Candidates, Tensor]:
    """Look at the largest of each chunk first, (sentences, width, chunks).

    The k + 1 chunks of largest maxima hold the k + 1 largest values. Where the last two of these
    are equal, more of the same may lie in other chunks: such sentences, (sentences,), are unsure.
    """
    (sentences, width, vocab), chunks = logits.shape, maxima.shape[2]
    _bar(maxima, logits, allowed)
    first = (maxima + base[..., None]).flatten(1)
    first = first.topk(min(k + 1, width * chunks)).indices.sort(1).values
    slot, start = first // chunks, first % chunks * CHUNK
    tokens = start[..., None] + torch.arange(CHUNK, device=logits.device)
    inside = tokens < vocab
    row = torch.arange(0, sentences * width, width, device=logits.device)[:, None] + slot
    places = row[..., None] * vocab + tokens.clamp(max=vocab - 1)
    values = logits.flatten()[places] + base.gather(1, slot)[..., None]
    for token in allowed.banned:
        inside &= tokens != token
    values = values.masked_fill(~inside, -torch.inf).flatten(1)
    where = values.topk(min(k + 1, values.shape[1])).indices.sort(1).values
    # What is looked at lies in the order of its places: so do equal ones after a stable sort.
    ranked, order = values.gather(1, where).sort(dim=1, descending=True, stable=True)
    flat = (slot[..., None] * vocab + tokens).flatten(1).gather(1, where.gather(1, order))
    last, beyond = ranked[:, k - 1 : k], ranked[:, k : k + 1]  # the latter may be empty
    unsure = ((last == beyond) & (beyond > -torch.inf)).any(1)
    return _candidates(ranked[:, :k], flat[:, :k], vocab), unsure


def _candidates(score: Tensor, place: Tensor, vocab: int) -> Candidates:
    # Where there is no continuation, place may point past the vocabulary: to a token that is none.
    token = torch.where(score > -torch.inf, place % vocab, END)
    return Candidates(score, place // vocab, token)
