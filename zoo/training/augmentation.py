"""Augmentations: they change the corpus of each epoch, or what the network reads of each batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from zoo.data.batches import Corpus
from zoo.data.bpe_dropout import Segmenter, WordSequences
from zoo.errors import ConfigError
from zoo.nn.contract import UNKNOWN
from zoo.registry.open_shelf import Named, name_of
from zoo.registry.recipe import Recipe
from zoo.training.failures import blaming
from zoo.training.setup import Setup

SHORT = ("bpe_dropout", "word_dropout")
"""The recipe's keys that are short for an augmentation of that name and its probability."""

Probability = Annotated[float, Field(ge=0, lt=1)]
"""That of a change; the recipe's short keys have the same bounds."""


class Augmentation:
    """The base class of augmentations; each method returns what it is given unless overridden."""

    def corpus(self, corpus: Corpus, epoch: int) -> Corpus:
        """Return the corpus of an epoch, with as many pairs in the same order.

        It depends on the seed of the recipe and on the epoch alone, so that a run can be resumed.
        """
        return corpus

    def batch(self, source: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the network reads, of the same shapes; the labels do not change.

        `source` is (rows, m) int64, `inputs` (rows, n), the target without its last token, both on
        the device. Draw from torch's default generator, whose state is saved with the run.
        """
        return source, inputs


class Augmentations:
    """The augmentations of a recipe, applied one after the other."""

    def __init__(self, setup: Setup) -> None:
        self.shelf = setup.registry.augmentations
        self.tokenizers = setup.source_tokenizer, setup.target_tokenizer
        self.made: list[tuple[str, Any]] = []
        for named in chosen_augmentations(setup.recipe):
            name, made = name_of(named), self.shelf.make(named, setup)
            if not isinstance(made, Augmentation):
                raise self.shelf.broken(name, f"it made {made!r}, which is no zoo.training."
                                              "Augmentation")  # fmt: skip
            self.made.append((name, made))

    def corpus(self, corpus: Corpus, epoch: int) -> Corpus:
        """Return the corpus of an epoch.

        Raises:
            PluginError: an augmentation raises, or it changes the number of pairs.
        """
        for name, made in self.made:
            with self.shelf.blaming(name):
                changed = made.corpus(corpus, epoch)
            if not isinstance(changed, Corpus) or len(changed) != len(corpus):
                made = f"{len(changed):,} pairs" if isinstance(changed, Corpus) else repr(changed)
                raise self.shelf.broken(name, f"it made {made} of {len(corpus):,} pairs")
            corpus = changed
        return corpus

    def batch(self, source: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the network reads of a batch.

        Raises:
            PluginError: an augmentation raises, it changes shapes or types, or ids are no tokens.
        """
        for name, made in self.made:
            with blaming(self.shelf, name):
                changed = made.batch(source, inputs)
            parts = changed if isinstance(changed, tuple | list) else [changed]
            if not all(isinstance(part, Tensor) for part in parts):
                reason = f"batch returned a value of type {type(changed).__name__}, not two tensors"
                raise self.shelf.broken(name, reason)
            given = [(ids.shape, ids.dtype) for ids in (source, inputs)]
            if [(ids.shape, ids.dtype) for ids in parts] != given:
                raise self.shelf.broken(name, "it changed the shape or the type of a batch")
            self._check_ids(name, parts)
            source, inputs = parts
        return source, inputs

    def _check_ids(self, name: str, batch: Sequence[Tensor]) -> None:
        if self.shelf.owner(name).builtin:
            return
        for ids, tokenizer in zip(batch, self.tokenizers, strict=True):
            if ids.is_floating_point() or not ids.numel():  # feature vectors have no ids
                continue
            low, high = (int(bound) for bound in ids.aminmax())
            if low < 0 or high >= tokenizer.size:
                reason = f"ids {low} to {high} are not all of the {tokenizer.size:,} tokens"
                raise self.shelf.broken(name, reason)


def chosen_augmentations(recipe: Recipe) -> Sequence[Named]:
    """Return the augmentations that a recipe names, those by their short keys first."""
    short = [{"name": key, "probability": getattr(recipe, key)} for key in SHORT]
    return [*(named for named in short if named["probability"]), *recipe.augmentations]


class WordDropout(Augmentation):
    """Replaces words of either side by the unknown token.

    Bowman et al. 2016, section 3.1, where only the decoder's words are replaced.
    """

    def __init__(self, setup: Setup, probability: Probability) -> None:
        self.probability = probability

    def batch(self, source: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return both sides, in which each word is unknown with the probability.

        Feature vectors are no words.
        """
        kept = source if source.is_floating_point() else self._drop_words(source)
        return kept, self._drop_words(inputs)

    def _drop_words(self, ids: Tensor) -> Tensor:
        words = ids > UNKNOWN  # padding and the ends of sentences are kept
        dropped = torch.rand_like(ids, dtype=torch.float32) < self.probability
        return ids.masked_fill(words & dropped, UNKNOWN)


class BPEDropout(Augmentation):
    """Segments words differently in each epoch, skipping BPE merges (Provilkov et al. 2020)."""

    def __init__(self, setup: Setup, probability: Probability) -> None:
        for tokenizer in (setup.source_tokenizer, setup.target_tokenizer):
            try:
                tokenizer.merges()
            except ValueError as error:
                raise ConfigError("bpe_dropout cannot be used", str(error)) from None
        self.setup, self.probability = setup, probability
        self.of: Corpus | None = None
        self.sides: list[WordSequences] = []

    def corpus(self, corpus: Corpus, epoch: int) -> Corpus:
        """Return the corpus in the segmentation of an epoch."""
        setup = self.setup
        if corpus is not self.of:
            tokenizers = (setup.source_tokenizer, setup.target_tokenizer)
            self.sides = [
                WordSequences(sequences, Segmenter(tokenizer, self.probability), limit)
                for sequences, tokenizer, limit in zip(
                    (corpus.source, corpus.target), tokenizers, setup.limits, strict=True
                )
            ]
            self.of = corpus
        source, target = (side.segmented(setup.recipe.seed, epoch) for side in self.sides)
        return Corpus(source, target, corpus.left_out)
