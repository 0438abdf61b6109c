"""Laws of networks that predict the tokens of a target together, by a search of their own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN, Decoded, NonAutoregressive
from zoo.nn.tree import Tree, tensors
from zoo.testing.case import SOURCE_LENGTHS, TARGET_LENGTHS, TARGET_VOCAB, Case, pad
from zoo.testing.law import BrokenLawError, law, require_close

NEVER = (PADDING, BEGIN, UNKNOWN)
BANNED = TARGET_VOCAB - 1
"""A token that the laws ban."""


def decode(
    model: NonAutoregressive[Any],
    memory: Tree,
    mask: Tensor,
    banned: tuple[int, ...] = NEVER,
    limits: Tensor | None = None,
) -> Decoded:
    """Return the targets that a network decodes, by default with room for twice the source."""
    limits = 2 * mask.sum(1) if limits is None else limits
    return model.decode(memory, limits, torch.tensor(banned, device=mask.device))


def _decoded(case: Case, rows: slice = slice(None), padding: int = 0) -> Decoded:
    """Return the targets of some of the case's sources, with more columns of padding."""
    assert isinstance(case.model, NonAutoregressive)
    source, mask = (pad(part[rows], padding) for part in (case.source, case.mask))
    return decode(case.model, case.model.encode(source, mask).memory, mask)


@law(
    causes="a length beyond the limit; an end token within a target, or none; probabilities in "
    "place of their logarithms; the memory changed in place; random numbers",
    requires="shapes randomness_is_seeded",
    of="own search",
)
@torch.no_grad()
def decode_gives_targets(case: Case) -> None:
    """decode gives each sentence some tokens that are allowed, the end token, then padding."""
    assert isinstance(case.model, NonAutoregressive)
    memory = case.model.encode(case.source, case.mask).memory
    before = [tensor.clone() for tensor in tensors(memory)]
    usual = 2 * case.mask.sum(1)
    _require_targets(decode(case.model, memory, case.mask), usual, NEVER)
    near = torch.arange(len(usual)) + 2  # the least has room for one token and the end token
    _require_targets(decode(case.model, memory, case.mask, limits=near), near, NEVER)
    result = decode(case.model, memory, case.mask, (*NEVER, BANNED))
    _require_targets(result, usual, (*NEVER, BANNED))
    again = decode(case.model, memory, case.mask, (*NEVER, BANNED))
    if not all(torch.equal(one, other) for one, other in zip(result, again, strict=True)):
        raise BrokenLawError("decode gives other results for the same memory")
    if not all(torch.equal(a, b) for a, b in zip(before, tensors(memory), strict=True)):
        raise BrokenLawError("decode changed the memory")


def _require_targets(result: Decoded, limits: Tensor, banned: tuple[int, ...]) -> None:
    if not isinstance(result, Decoded):
        kind = type(result).__name__
        raise BrokenLawError(f"decode returns a {kind}, not zoo.nn.Decoded(tokens, log_probs)")
    tokens, log_probs = result
    if tokens.shape != log_probs.shape or tokens.dim() != 2 or len(tokens) != len(limits):
        shapes = f"{tuple(tokens.shape)} and {tuple(log_probs.shape)}"
        raise BrokenLawError(f"decode gives tokens and log_probs of shapes {shapes}")
    for row, (ids, limit) in enumerate(zip(tokens.tolist(), limits.tolist(), strict=True)):
        length = ids.index(END) if END in ids else len(ids)
        if END not in ids or length == 0 or any(ids[length + 1 :]):
            raise BrokenLawError(
                f"target {row} is {ids}, not some tokens, the end token {END}, then padding"
            )
        if length + 1 > limit:
            raise BrokenLawError(f"target {row} has {length + 1} tokens, over its limit {limit}")
        if set(ids[:length]) & set(banned):
            raise BrokenLawError(f"target {row} is {ids}, with a token of the banned {banned}")
    real = tokens != PADDING
    if not log_probs.isfinite().all() or (log_probs > 0).any() or log_probs[~real].any():
        raise BrokenLawError("log_probs are not at most 0 and finite, or not 0 at padding")


@law(
    causes="a length, a mean or a rank that counts padding; iterations that depend on the longest "
    "target of the batch",
    requires="decode_gives_targets padding_is_ignored",
    of="own search",
)
@torch.no_grad()
def decode_ignores_the_batch(case: Case) -> None:
    """A sentence is decoded alike alone, in a batch, and with more padding."""
    expected = _decoded(case)
    batches = [("with more padding", slice(None), 3)]
    rows_alone = range(len(SOURCE_LENGTHS))
    batches += [(f"sentence {row} alone", slice(row, row + 1), 0) for row in rows_alone]
    for what, rows, padding in batches:
        result = _decoded(case, rows, padding)
        width = max(expected.tokens.shape[1], result.tokens.shape[1])
        one, other = (
            F.pad(tokens, (0, width - tokens.shape[1]))
            for tokens in (result.tokens, expected.tokens[rows])
        )
        if not torch.equal(one, other):
            raise BrokenLawError(f"{what}: decode gives {one.tolist()}, not {other.tolist()}")
        sums = result.log_probs.sum(1), expected.log_probs[rows].sum(1)
        require_close(*sums, f"{what}: the sums of log_probs differ")


@law(
    causes="a training mode that is never left: in evaluation, every token is hidden; a length of "
    "the target that counts padding",
    requires="shapes randomness_is_seeded",
    of="own search",
)
@torch.no_grad()
def target_gives_its_length_alone(case: Case) -> None:
    """In evaluation mode, the logits depend on the length of the target, not on its tokens."""
    expected = case.model(case.source, case.mask, case.target).logits
    words = case.target > UNKNOWN
    other = (case.target + 3) % (TARGET_VOCAB - UNKNOWN - 1) + UNKNOWN + 1
    logits = case.model(case.source, case.mask, torch.where(words, other, case.target)).logits
    require_close(logits, expected, "other tokens of the target change the logits")
    for row, length in enumerate(TARGET_LENGTHS):
        one = slice(row, row + 1)
        alone = case.model(case.source[one], case.mask[one], case.target[one, :length]).logits
        what = f"target {row} gives other logits without padding"
        require_close(alone, expected[one, :length], what)
