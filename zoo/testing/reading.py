"""Laws of reading: padding and the future change nothing, and every real token can."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it

from zoo.nn.contract import END
from zoo.testing.case import SOURCE_LENGTHS, TARGET_VOCAB, Case
from zoo.testing.law import BrokenLawError, law, same


@law(
    causes="attention that looks at padding; a recurrent net or a convolution that reads it; a "
    "mean, a norm or a last state over the padded length"
)
@torch.no_grad()
def padding_changes_nothing(case: Case) -> None:
    """A sentence gives the same alone, in a batch, and behind more padding."""
    wanted = case.model(case.source, case.mask, case.target).logits
    source, mask = F.pad(case.source, (0, 3)), F.pad(case.mask, (0, 3))
    same(
        case.model(source, mask, case.target).logits,
        wanted,
        "three more columns of padding change it",
    )
    for row, length in enumerate(SOURCE_LENGTHS):
        one = slice(row, row + 1)
        source, mask = case.source[one, :length], case.mask[one, :length]
        alone = case.model(source, mask, case.target[one]).logits
        same(alone, wanted[one], f"sentence {row} alone differs from it in the batch")


@law(
    causes="no causal mask, or one off by one; a convolution padded on both sides; a norm over "
    "the positions; a decoder that is never given the token before"
)
@torch.no_grad()
def future_changes_nothing(case: Case) -> None:
    """The logits at a place depend on the target up to there alone, and do depend on that."""
    wanted = case.model(case.source, case.mask, case.target).logits
    for place in range(1, case.target.shape[1]):
        other = case.target.clone()
        other[:, place:] = (other[:, place:] + 3) % (TARGET_VOCAB - END - 1) + END + 1
        seen = case.model(case.source, case.mask, other).logits
        same(seen[:, :place], wanted[:, :place], f"places before {place} see what follows")
        if torch.equal(seen[:, place], wanted[:, place]):
            raise BrokenLawError(f"the logits at {place} do not depend on the token there")


@law(
    causes="a mask off by one or upside down; a window that misses the ends; an encoder whose "
    "answer is not used"
)
@torch.no_grad()
def source_changes_the_answer(case: Case) -> None:
    """Every token of the source can reach the logits."""
    wanted = case.model(case.source, case.mask, case.target).logits
    for row, length in enumerate(SOURCE_LENGTHS):
        for place in range(length - 1):
            other = case.source.clone()
            other[row, place] = (
                (other[row, place] + 5) % (case.model.source_vocab - END - 1) + END + 1
            )
            if other[row, place] == case.source[row, place]:
                other[row, place] = END + 1 + (other[row, place] == END + 1).long()
            seen = case.model(other, case.mask, case.target).logits
            if torch.equal(seen[row], wanted[row]):
                raise BrokenLawError(f"source token {place} of {length} never reaches the logits")


@law(
    causes="a table of positions shorter than length_limits says; a limit that forgets the begin "
    "or end token"
)
@torch.no_grad()
def limits_are_real(case: Case) -> None:
    """A source and a target as long as the config allows go through."""
    limits = case.config.length_limits
    m, n = min(limits.source or 40, 2000), min(limits.target or 40, 2000)
    source = torch.randint(END + 1, case.model.source_vocab, (2, m))
    source[:, -1] = END
    target = torch.randint(END + 1, TARGET_VOCAB, (2, n - 1))
    if not case.model(source, torch.ones_like(source).bool(), target).logits.isfinite().all():
        raise BrokenLawError(f"sources of {m} and targets of {n} tokens give infinities")
