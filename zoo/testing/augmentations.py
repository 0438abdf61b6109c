"""The laws of augmentations, for the tests of a plugin that brings one.

test_law = zoo.testing.augmentation_conformance({"name": "reversed", "probability": 0.2})
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.data.batches import Corpus, Sequences
from zoo.nn.contract import END, PADDING
from zoo.registry.declarations import Pair
from zoo.registry.open_shelf import Named
from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test
from zoo.testing.randomness import draws, require_other_draws
from zoo.testing.small_run import small_setup
from zoo.training.augmentation import Augmentations
from zoo.training.setup import Setup

PAIRS, EPOCHS = 60, 3
WORDS = (
    "a", "bad", "cab", "dab", "faced", "bee", "feed", "decade", "ace", "deaf", "added", "beaded",
    "cafe", "facade", "babe",
)  # fmt: skip


@dataclass(frozen=True)
class AugmentationCase:
    """An augmentation, by name and options, and a corpus of sixty pairs."""

    setup: Setup
    corpus: Corpus

    def make(self) -> Augmentations:
        """Return a new augmentation."""
        return Augmentations(self.setup)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return the source and the inputs of a batch."""
        batch = self.corpus.batch(torch.arange(PAIRS))
        return batch.source, batch.target[:, :-1]

    def epoch(self, made: Augmentations, epoch: int) -> list[list[int]]:
        """Return all sequences of an epoch, the sources first."""
        changed = made.corpus(self.corpus, epoch)
        return [*rows(changed.source), *rows(changed.target)]


def rows(side: Sequences) -> list[list[int]]:
    """Return one side's sequences."""
    ends = side.starts.tolist()
    return [side.tokens[i:j].tolist() for i, j in itertools.pairwise(ends)]


def augmentation_case(
    named: Named, tokenizer: Named = "bpe", registry: Registry | None = None
) -> AugmentationCase:
    """Return the case of an augmentation, for texts of a kind of tokenizer."""
    draw = random.Random(5)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) for _ in range(2 * PAIRS)]
    registry, recipe = registry or default_registry(), {"augmentations": [named]}
    setup = small_setup(registry, recipe, "rnnsearch", texts, tokenizer, 40)
    pairs = [Pair(*pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
    sides = setup.source_tokenizer, setup.target_tokenizer
    return AugmentationCase(setup, Corpus.encode(pairs, *sides, setup.limits))


@law_of(
    causes="an end token that is cut off; ids of text that was not tokenized; a sequence that is "
    "longer than `setup.limits`"
)
def corpus_keeps_its_pairs(case: AugmentationCase) -> None:
    """An epoch has as many pairs, of known tokens, with their ends, within the length limits."""
    made, size = case.make(), case.setup.source_tokenizer.size
    limits = case.setup.limits
    for epoch in range(EPOCHS):
        changed = made.corpus(case.corpus, epoch)
        for name, side, first, limit in (
            ("source", changed.source, [], limits.source),
            ("target", changed.target, [1], limits.target),
        ):
            for i, ids in enumerate(rows(side)):
                inner = ids[len(first) : -1]
                whole = [*first, *inner, END] == ids
                if not whole or {PADDING, END} & {*inner}:
                    raise BrokenLawError(f"epoch {epoch}: {name} {i} is {ids}: its ends are wrong")
                if not all(0 < token < size for token in ids):
                    raise BrokenLawError(
                        f"epoch {epoch}: {name} {i} is {ids}, but the ids are below {size}"
                    )
                if limit is not None and len(ids) > limit:
                    raise BrokenLawError(
                        f"epoch {epoch}: {name} {i} has {len(ids)} tokens, the threshold is {limit}"
                    )


@law_of(
    causes="random numbers of torch, numpy or Python without a seed of the epoch; a generator that "
    "goes on from epoch to epoch; the corpus of the epoch before in place of the one given",
    requires="corpus_keeps_its_pairs",
)
def epoch_depends_on_seed_and_number(case: AugmentationCase) -> None:
    """The corpus of an epoch depends on the recipe's seed and the epoch's number alone."""
    made = case.make()
    expected = [case.epoch(made, epoch) for epoch in range(EPOCHS)]
    resumed = case.make()
    for epoch in reversed(range(EPOCHS)):
        torch.manual_seed(100 + epoch)
        if case.epoch(resumed, epoch) != expected[epoch]:
            raise BrokenLawError(f"a run that is resumed in epoch {epoch} has another corpus in it")


@law_of(
    causes="an index assignment to `corpus.source.tokens` or to `source`; a method with an "
    "underscore at its end: the labels are another view of `inputs`"
)
def what_is_given_stays(case: AugmentationCase) -> None:
    """Neither the corpus nor the batch that is given is changed in place."""
    made = case.make()
    before = [*rows(case.corpus.source), *rows(case.corpus.target)]
    for epoch in range(EPOCHS):
        made.corpus(case.corpus, epoch)
    if [*rows(case.corpus.source), *rows(case.corpus.target)] != before:
        raise BrokenLawError("the corpus that was given has changed")
    batch = case.batch()
    copies = [ids.clone() for ids in batch]
    made.batch(*batch)
    if not all(map(torch.equal, batch, copies)):
        raise BrokenLawError("the batch that was given has changed")


@law_of(
    causes="no mask: `ids.masked_fill(ids > 3, …)` keeps padding and the ends of sentences; an id "
    "that is outside the vocabulary",
    requires="what_is_given_stays",
)
def batch_keeps_its_padding(case: AugmentationCase) -> None:
    """In a batch, padding stays where it is, and all other ids are of the vocabulary."""
    made, size = case.make(), case.setup.source_tokenizer.size
    batch = case.batch()
    for given, changed in zip(batch, made.batch(*batch), strict=True):
        if not torch.equal(given == PADDING, changed == PADDING):
            raise BrokenLawError("padding has become a token, or a token padding")
        if not bool(((changed >= 0) & (changed < size)).all()):
            raise BrokenLawError(f"an id is outside the vocabulary of {size}")


@law_of(
    causes="Python's random, numpy, or a torch.Generator of its own: their state is not saved with "
    "the run",
    requires="what_is_given_stays",
)
def batch_draws_from_torch(case: AugmentationCase) -> None:
    """One state of torch's default generator gives one batch; random numbers depend on it."""
    batch, made, used = case.batch(), case.make(), case.make()
    used.batch(*batch)  # as before the run was stopped: its own generators have gone on
    one = draws(8, lambda: made.batch(*batch))
    same, other = (draws(seed, lambda: used.batch(*batch)) for seed in (8, 9))
    if not all(map(torch.equal, one.result, same.result)):
        raise BrokenLawError("with the same random numbers a batch is changed in two ways")
    require_other_draws(one, other, "the augmentation")


@law_of(
    causes="an option that is not used; a method whose name is neither `corpus` nor `batch`; a "
    "probability of 0",
    requires="corpus_keeps_its_pairs what_is_given_stays",
)
def something_changes(case: AugmentationCase) -> None:
    """Some pair of the epochs, or some token of a batch, differs from what is given."""
    made, batch = case.make(), case.batch()
    usual = [*rows(case.corpus.source), *rows(case.corpus.target)]
    for epoch in range(EPOCHS):
        torch.manual_seed(epoch)
        same = all(map(torch.equal, made.batch(*batch), batch))
        if not same or case.epoch(made, epoch) != usual:
            return
    raise BrokenLawError(
        f"{EPOCHS} epochs of {PAIRS} pairs, and {EPOCHS} batches of {PAIRS} rows, are as given; "
        "the threshold is one change"
    )


AUGMENTATION_LAWS = [
    corpus_keeps_its_pairs,
    epoch_depends_on_seed_and_number,
    what_is_given_stays,
    batch_keeps_its_padding,
    batch_draws_from_torch,
    something_changes,
]
"""All laws of augmentations, the most basic first."""


def augmentation_conformance(
    named: Named, tokenizer: Named = "bpe", registry: Registry | None = None
) -> Callable[[LawOf[AugmentationCase]], None]:
    """Return a test of every law of augmentations, for one that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe; `tokenizer` the kind of the
    texts that it changes.
    """
    return conformance_test(
        AUGMENTATION_LAWS, lambda: augmentation_case(named, tokenizer, registry)
    )
