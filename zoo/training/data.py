"""What a run trains on: tokenizers, training corpus and validation set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zoo.data.batches import (
    Batches,
    Corpus,
    IdPair,
    LeftOut,
    Sequences,
    encode_pairs,
    shuffled_batches,
    without_end,
)
from zoo.data.corpus import check_source, open_corpus
from zoo.data.datasets import find_dataset
from zoo.data.features import FeatureReader
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, ConfigError, DataError
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.registry.shelf import Shelf
from zoo.training.augmentation import Augmentations
from zoo.training.plan import Plan
from zoo.training.setup import Setup

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


PLAIN_SELECTIONS = ("last", "loss", "bleu", "chrf")
"""Values of `select` that need no further metric."""


class ValidationSet:
    """The pairs to validate on, as tokens and as text, without those that are too long or empty.

    `left_out` counts these; `languages` are those of the data, empty where they are not known.
    `metric` is the one that the recipe selects by, by its name, if that is neither the loss nor
    one that is always computed.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source: Tokenizer,
        target: Tokenizer,
        limits: LengthLimits,
        metric: Shelf[Metric] | None = None,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        self.pairs, self.left_out = list[Pair](), LeftOut()
        encoded = list[IdPair]()
        for pair, ids in zip(pairs, encode_pairs(pairs, source, target, limits), strict=True):
            if isinstance(ids, LeftOut):
                self.left_out += ids
            else:
                self.pairs.append(pair)
                encoded.append(ids)
        self.sources = [without_end(ids) for ids, _ in encoded]
        source_ids, target_ids = (Sequences.of([ids[side] for ids in encoded]) for side in (0, 1))
        self.corpus = Corpus(source_ids, target_ids, LeftOut())
        self.target_tokenizer, self.limits, self.metric = target, limits, metric
        self.languages = languages

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is better, of whichever metric the recipe selects by."""
        if self.metric is None:
            return False
        from zoo.evaluation.metrics import lower_is_better

        return any(map(lower_is_better, self.metric.values()))


@dataclass(frozen=True)
class TrainingData:
    """What a run reads, and what the parts of the run are made from."""

    dataset: Dataset
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    corpus: Corpus
    validation: ValidationSet
    setup: Setup
    augmentations: Augmentations

    @property
    def trained_length(self) -> int:
        """The tokens, with the end token, of nearly all sources; 0 unless these are text."""
        if isinstance(self.source_tokenizer, FeatureReader | SourceTokenizer):
            return 0
        return length_of_nearly_all(self.corpus.source.lengths.numpy())

    def texts(self, indices: Sequence[int]) -> list[list[str]]:
        """Return training pairs as text, as far as their tokens keep it; of features nothing."""
        sides = ((self.corpus.source, self.source_tokenizer),
                 (self.corpus.target, self.target_tokenizer))  # fmt: skip
        return [[_text(*side, index) for side in sides] for index in indices]

    def following(self, plan: Plan) -> TrainingData:
        """Return the same data for a plan whose recipe and configuration have changed.

        Raises:
            ZooError: an augmentation of the recipe is unknown or broken.
        """
        setup = replace(self.setup, config=plan.config, recipe=plan.recipe)
        return replace(self, setup=setup, augmentations=Augmentations(setup))

    def fingerprints(self) -> dict[str, str]:
        """Return what identifies the tokens that are trained and validated on."""
        return {
            "fingerprint": self.corpus.fingerprint(),
            "validation_fingerprint": self.validation.corpus.fingerprint(),
        }

    def check_same(self, plan: Plan, began: Mapping[str, Any], folder: Path) -> None:
        """Make sure that this is the text of the run in a folder, whose plan may name moved files.

        `began` is the description with which the run began.

        Raises:
            CheckpointError: the tokens are others.
        """
        for key, fingerprint in self.fingerprints().items():
            if began.get(key, fingerprint) == fingerprint:  # earlier versions kept one
                continue
            where, given, before = plan.data, plan.data, began.get("data")
            if key != "fingerprint":
                where = plan.validation or f"the validation split of {plan.data}"
            if key != "fingerprint" and plan.validation:
                given, before = plan.validation, began.get("validation")
            why, advice = f"{where} has changed since the run began", "Restore the data"
            if given != before:
                why = f"{where} is not the text of this run"
                advice = f"Name that of {before}" if before else "Leave out --validation"
            raise CheckpointError(
                f"{folder} cannot be resumed", why, f"{advice}, or begin a new run"
            )

    def epoch(self, recipe: Recipe, number: int) -> tuple[Corpus, Batches]:
        """Return the corpus and the batches of an epoch, which seed and number alone decide.

        Raises:
            PluginError: an augmentation is broken.
        """
        corpus = self.augmentations.corpus(self.corpus, number)
        batches = shuffled_batches(
            corpus, recipe.batch_tokens, recipe.batch_sentences, recipe.seed, number
        )
        return corpus, batches


def _text(sequences: Sequences, tokenizer: Tokenizer, index: int) -> str:
    ids = sequences.tokens[sequences.starts[index] : sequences.starts[index + 1]]
    return "" if ids.ndim > 1 else tokenizer.decode(ids.tolist())


def length_of_nearly_all(lengths: Sequence[int] | npt.NDArray[np.int32]) -> int:
    """Return the length that all but one in a thousand have at most; of fewer, the greatest."""
    return int(np.quantile(lengths, 0.999, method="higher"))


def load_data(
    registry: Registry, plan: Plan, tokenizers: tuple[Tokenizer, Tokenizer]
) -> TrainingData:
    """Open the corpus that a plan names, and read what to validate on.

    Raises:
        DataError: the data is missing or malformed, or no pair is within the length limits.
        ConfigError: the recipe selects by validation, and there is nothing to validate on.
    """
    recipe, limits = plan.recipe, plan.length_limits
    dataset = plan.dataset(registry)
    for pair in dataset.stream("train", 1):
        check_source(pair.source, dataset.name, plan.config)
    corpus = open_corpus(dataset, plan.limit, tokenizers, limits)
    if not len(corpus):
        raise _no_pairs(dataset.name, "training", corpus.left_out)
    metric = None
    if recipe.select not in PLAIN_SELECTIONS:
        # Imported here, since scores need more packages than training.
        from zoo.evaluation.metrics import make_metric

        metric = make_metric(recipe.select, registry.metrics, tokenizers[1])
    pairs, languages = _validation_pairs(registry, dataset, plan)
    for pair in pairs[:1]:
        check_source(pair.source, plan.validation or dataset.name, plan.config)
    validation = ValidationSet(pairs, *tokenizers, limits, metric, languages)
    if plan.validation is not None and not len(validation):
        raise _no_pairs(plan.validation, "validation", validation.left_out)
    if recipe.select != "last" and not len(validation):
        raise ConfigError(
            f"select = {recipe.select} needs validation data",
            "there are no validation pairs",
            "Give --validation, or leave out select and patience",
        )
    setup = Setup(registry, plan.config, recipe, *tokenizers, limits)
    augmentations = Augmentations(setup)
    return TrainingData(dataset, *tokenizers, corpus, validation, setup, augmentations)


def _no_pairs(data: str, use: str, left: LeftOut) -> DataError:
    return DataError(
        f"no pairs of {data} can be used for {use}",
        f"{left.empty:,} pairs have an empty side, {left.long:,} are over the length limit",
        "Raise --set max_length, or give other data",
    )


def _validation_pairs(
    registry: Registry, dataset: Dataset, plan: Plan
) -> tuple[list[Pair], tuple[str, str]]:
    """Return the pairs to validate on, and their languages."""
    if plan.validation is None:
        some = dataset.load("validation", plan.limit) if "validation" in dataset.splits else []
        return some, dataset.languages
    other = find_dataset(registry, plan.validation)
    pairs = other.load("all" if "all" in other.splits else "validation")
    if not pairs:
        raise DataError(f"no pairs to validate on in {plan.validation}", "it has none")
    return pairs, other.languages
