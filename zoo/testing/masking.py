"""Laws of what a prediction depends on: real source tokens and the target's prefix, all of both."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.contract import END, NonAutoregressive
from zoo.testing.case import SOURCE_LENGTHS, TARGET_VOCAB, Case, pad, with_ends
from zoo.testing.law import BrokenLawError, law, require_close


@law(
    causes="attention to padding; a recurrent net or a convolution that reads padding; a mean, a "
    "norm or a last state over the padded length",
    requires="randomness_is_seeded",
)
@torch.no_grad()
def padding_is_ignored(case: Case) -> None:
    """A sentence gives the same logits alone, in a batch, and with more padding."""
    expected = _require_padding_ignored(case)
    long = case.long()
    _require_padding_ignored(long)
    case.model.train()
    try:
        # Where training draws numbers, padding changes which ones a position gets.
        if torch.equal(_seeded(case), _seeded(case, seed=18)):
            _require_padding_ignored(case)
            _require_padding_ignored(long)
    finally:
        case.model.eval()
    for row, length in enumerate(SOURCE_LENGTHS):
        one = slice(row, row + 1)
        source, mask = case.source[one, :length], case.mask[one, :length]
        alone = case.model(source, mask, case.target[one]).logits
        require_close(
            alone, expected[one], f"sentence {row} gives other logits alone than in the batch"
        )


def _require_padding_ignored(case: Case) -> Tensor:
    """Return the logits of the case's batch, which more padding must not change."""
    expected = _seeded(case)
    source, mask = pad(case.source, 3), pad(case.mask, 3)
    mode = "in training mode, " if case.model.training else ""
    of = f" of a source of {source.shape[1] - 3} tokens" if len(source) == 1 else ""
    what = f"{mode}three more columns of padding change the logits{of}"
    require_close(case.model(source, mask, case.target).logits, expected, what)
    return expected


def _seeded(case: Case, seed: int = 17) -> Tensor:
    """Return the logits of the case's batch, computed with a seed."""
    torch.manual_seed(seed)
    return case.model(case.source, case.mask, case.target).logits


@law(
    causes="no causal mask, or one off by one; a convolution padded on both sides; a norm over "
    "positions; the length of the target; a decoder that does not read the previous token",
    requires="randomness_is_seeded",
    of="steps",
)
@torch.no_grad()
def future_is_ignored(case: Case) -> None:
    """The logits at a position depend on the target up to that position, and on nothing after."""
    expected = case.model(case.source, case.mask, case.target).logits
    for position in range(1, case.target.shape[1]):
        target = case.target.clone()
        target[:, position:] = (target[:, position:] + 3) % (TARGET_VOCAB - END - 1) + END + 1
        logits = case.model(case.source, case.mask, target).logits
        what = f"positions before {position} depend on what follows"
        require_close(logits[:, :position], expected[:, :position], what)
        if torch.equal(logits[:, position], expected[:, position]):
            raise BrokenLawError(f"the logits at position {position} ignore the token there")
    shorter = case.model(case.source, case.mask, case.target[:, :position]).logits
    what = f"positions before {position} depend on the length of the target"
    require_close(shorter, expected[:, :position], what)
    _require_causal_training(case)


def _require_causal_training(case: Case) -> None:
    """Compare two targets in training mode; one seed gives both the same dropout."""
    position = case.target.shape[1] // 2
    changed = case.target.clone()
    changed[:, position:] = (changed[:, position:] + 3) % (TARGET_VOCAB - END - 1) + END + 1
    logits = []
    case.model.train()
    try:
        for target in (case.target, changed):
            torch.manual_seed(13)
            logits.append(case.model(case.source, case.mask, target).logits[:, :position])
    finally:
        case.model.eval()
    what = f"in training mode, positions before {position} depend on what follows"
    require_close(logits[1], logits[0], what)


@law(
    causes="a mask off by one, or inverted; a window that misses the ends; an encoder whose output "
    "is not used",
    requires="randomness_is_seeded",
)
@torch.no_grad()
def every_source_token_matters(case: Case) -> None:
    """Every source token can change the logits."""
    expected = case.model(case.source, case.mask, case.target).logits
    for row, length in enumerate(SOURCE_LENGTHS):
        for position in range(length - 1):
            if case.ids[row, position] == END:  # between two sources
                continue
            source = case.ids.clone()
            source[row, position] = _other(source[row, position], case.source_ids)
            logits = case.model(case.read(source), case.mask, case.target).logits
            if torch.equal(logits[row], expected[row]):
                raise BrokenLawError(
                    f"source token {position} of {length} does not affect the logits"
                )
    _require_late_tokens(case.long())


def _require_late_tokens(case: Case) -> None:
    """Change one token of the second half of a long source in each row of a batch."""
    length = case.ids.shape[1]
    positions = [p for p in range(length // 2, length - 1) if case.ids[0, p] != END]
    rows = len(positions)
    ids, mask, target = (part.expand(rows, -1) for part in (case.ids, case.mask, case.target))
    source = ids.clone()
    source[range(rows), positions] = _other(source[range(rows), positions], case.source_ids)
    expected = case.model(case.read(ids), mask, target).logits
    logits = case.model(case.read(source), mask, target).logits
    for position, one, other in zip(positions, logits, expected, strict=True):
        if torch.equal(one, other):
            raise BrokenLawError(f"source token {position} of {length} does not affect the logits")


def _other(ids: Tensor, count: int) -> Tensor:
    """Return for each id of a source another one, of `count` ids."""
    other = (ids + 5) % (count - END - 1) + END + 1
    return torch.where(other == ids, END + 1 + (other == END + 1).long(), other)


UNLIMITED, MOST = 1024, 2000
"""The tokens of a side that has no limit, as many as are translated by default; and the most."""
STEPS = 520
"""How many of them are written one by one: more than the 512 positions that many tables have."""


@law(
    causes="fewer position embeddings than length_limits allows, or no length_limits; a limit that "
    "does not count the begin or end token; a kernel or a stride that is longer than a source of "
    "one word; squeeze() without a dimension",
    requires="logits_are_finite",
)
@torch.no_grad()
def length_limits_hold(case: Case) -> None:
    """The shortest sources and targets, and the longest that the config allows, can be read."""
    limits, count = case.config.length_limits, len(case.config.sources)
    # A text of which a tokenizer leaves nothing is an end token alone.
    shortest = [3] if case.config.features else [2 * count] if count > 1 else [1, 2]
    sizes = [(m, n) for m in shortest for n in (2, 3)]
    longest = [min(limit or UNLIMITED, MOST) for limit in limits]
    for m, n in [*sizes, (longest[0], longest[1])]:
        source = torch.randint(END + 1, case.source_ids, (2, m))
        source[:, -1] = END
        with_ends(source, case.config)
        target = torch.randint(END + 1, TARGET_VOCAB, (2, n - 1))
        mask = torch.ones_like(source).bool()
        logits = case.model(case.read(source), mask, target).logits
        what = f"sources of {m} and targets of {n} tokens"
        if logits.shape != (2, n - 1, TARGET_VOCAB):
            raise BrokenLawError(f"{what} give logits of shape {tuple(logits.shape)}")
        if not logits.isfinite().all():
            raise BrokenLawError(f"{what} give infinite logits")
        if not isinstance(case.model, NonAutoregressive):
            memory = case.model.encode(case.read(source), mask).memory
            state = case.model.init_state(memory)
            for token in target.T[: None if limits.target else STEPS]:
                logits, state, _ = case.model.step(token, state, memory)
            if not logits.isfinite().all():
                raise BrokenLawError(f"steps through {what} give infinite logits")
