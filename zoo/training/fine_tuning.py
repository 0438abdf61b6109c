"""Tune a checkpoint on other data: the plan and the tokenizers of such a run.

The network, its configuration and its tokenizers are the parent's. The learning rate is a fifth of
the parent's peak. It rises over a twentieth of the run, and decays to zero along a half cosine. The
batches are so small, and the epochs so many, that the run makes some hundreds of updates: on 500
pairs 20 epochs, on 500,000 three. If there are enough pairs to validate on, the weights of the
lowest validation loss are released, and the run stops early when it rises.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from zoo.data.corpus import learn_tokenizers
from zoo.data.extension import Texts, added_tokens, can_extend, extend, extend_both
from zoo.data.readers import without_long_words
from zoo.data.statistics import evenly_spaced
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConfigError, counted
from zoo.registry.declarations import Dataset
from zoo.registry.open_shelf import name_of
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.advice import MUCH_UNKNOWN, part_with_unknown, unknown_part
from zoo.training.auto import STOPPED_BY
from zoo.training.carry_over import CarriedOver
from zoo.training.data import TrainingData
from zoo.training.parent import Parent, peak_of
from zoo.training.plan import Plan, absolute, resolve, unknown_names
from zoo.training.recipe_layers import TOTALS, add_layers, named_recipe, update
from zoo.training.request import Sides, TrainingRequest

KEPT = (
    "tokenizer", "target_tokenizer", "vocab_size", "max_length", "label_smoothing", "word_dropout",
    "bpe_dropout", "r_drop", "optimizer", "weight_decay", "beta1", "beta2", "epsilon", "clip",
)  # fmt: skip
"""The values of the parent's recipe that tuning keeps."""

TOKENIZER_VALUES = ("tokenizer", "target_tokenizer", "vocab_size", "shared_vocab")
RATE = 0.2
"""The learning rate, relative to the peak of the parent's training."""
BATCH_TOKENS = (256, 4096)
BATCHES_PER_EPOCH = 16
UPDATES = 600
EPOCHS = (3, 20)
WARMUP = (5, 200)
PATIENCE = 4
LACKING = 0.01
"""The part of texts with unknown tokens above which the user hears of it."""
SHOWN = 20
"""How many new tokens are listed."""
SAMPLED = 1000
"""Pairs of which the mean length is taken."""


class DataSize(NamedTuple):
    """The number of pairs to train on, and an estimate of the tokens of their longer sides."""

    pairs: int
    tokens: int


def make_tuning_plan(
    registry: Registry, request: TrainingRequest, parent: Parent, dataset: Dataset
) -> Plan:
    """Return the plan of a run that tunes a checkpoint.

    The recipes of model and data do not apply; the request's recipe and settings do.

    Raises:
        ConfigError: the request names another model than the parent's, tokenizers are set that are
            not learned again, or a setting is not valid.
        DataError: the data is missing or malformed.
    """
    checkpoint = parent.checkpoint
    if request.model not in ("", checkpoint.model_name):
        raise ConfigError(
            f"{checkpoint.name} is not a {request.model}",
            f"it is a {checkpoint.model_name}, and tuning keeps that",
            "Leave out the model",
        )
    request = dataclasses.replace(request, model=checkpoint.model_name)
    changed = request.new_vocabulary or request.extend_vocabulary
    shared = parent.shares_vocabulary and changed in (None, "both")
    _check_vocabulary(request, parent)
    validates = request.validation is not None or _holds_out_enough(dataset, request.limit)
    given = _given(registry, request)
    size = data_size(dataset, request.limit, parent, _longest(given, parent))
    config_values: dict[str, Any] = checkpoint.config.model_dump(mode="json")
    usual = _default_recipe(registry, given, parent, size, validates)
    recipe_values = {**usual, "shared_vocab": shared}
    if request.recipe is not None:
        add_layers(named_recipe(registry, request.recipe), config_values, recipe_values)
        if request.new_vocabulary is None:
            recipe_values["shared_vocab"] = shared
    config_type = type(checkpoint.config)
    config, recipe = resolve(registry, request, config_type, config_values, recipe_values)
    return Plan(
        checkpoint.model_name,
        checkpoint.architecture,
        config,
        recipe,
        absolute(registry, request.data),
        request.limit,
        absolute(registry, request.validation),
        checkpoint.name,
        whole=request.validation is not None,
    )


def describe_choice(plan: Plan, parent: Parent) -> str:
    """Return in a few words how a run is tuned, for the user."""
    recipe = plan.recipe
    end = " or ".join(f"{value:g} {total}" for total in TOTALS if (value := getattr(recipe, total)))
    rate = f"learning rate {peak_of(recipe.model_dump(), plan.config.width):.2g}"
    if name_of(recipe.schedule) == "cosine":
        rate += " decaying to zero"
    more = f", {', '.join(recipe.freeze)} frozen" if recipe.freeze else ""
    if recipe.parent_share:
        more += f", released with {recipe.parent_share:g} of its weights"
    sides = (parent.checkpoint.source_tokenizer, parent.checkpoint.target_tokenizer)
    if any(side.tags for side in sides):
        about = parent.checkpoint.about
        first = [next(iter(side), "") for side in (about.source_languages, about.target_languages)]
        more += f", {first[0]} to {first[1]}"
    size = f"{recipe.batch_tokens:,} tokens"
    if recipe.batch_sentences:
        size = f"{recipe.batch_sentences:,} sentences"
    return f"tuned from {parent.checkpoint.name}: {rate}, batches of {size}, at most {end}{more}"


def describe_vocabularies(
    request: TrainingRequest, parent: Parent, data: TrainingData, first: CarriedOver
) -> list[str]:
    """Return what became of the parent's vocabularies, or a warning that they should have more."""
    if request.new_vocabulary is not None:
        return [
            f"new vocabularies: the rows of {first.source:,} source and {first.target:,} target "
            "tokens are the parent's"
        ]
    checkpoint, both = parent.checkpoint, parent.checkpoint.config.one_vocabulary
    corpora = {"source": data.corpus.source, "target": data.corpus.target}
    if checkpoint.config.features:
        del corpora["source"]
    olds = {side: getattr(checkpoint, f"{side}_tokenizer") for side in corpora}
    notes = []
    for side, sequences in corpora.items():
        if request.extend_vocabulary in (side, "both"):
            added = added_tokens(olds[side], getattr(data, f"{side}_tokenizer"))
            notes.append(f"{counted(len(added), f'new {side} token')}{_listed(added)}")
        elif unknown_part(sequences) <= MUCH_UNKNOWN and (
            (part := part_with_unknown(sequences)) > LACKING
        ):
            which = ["source", "target"] if both else [side]
            advice = "lacks, and it cannot be extended. To learn another one, give --new-vocabulary"
            if all(can_extend(olds[each]) for each in which):
                advice = "lacks. To add them, give --extend-vocabulary"
            notes.append(
                f"Warning: {part:.1%} of the {side}s have characters or words that the vocabulary "
                f"{advice} {'both' if both else side}"
            )
    return notes


def _listed(tokens: Sequence[str]) -> str:
    """Return some tokens, after a colon; characters that cannot be seen are named by their code."""
    more = f" and {len(tokens) - SHOWN:,} more" if len(tokens) > SHOWN else ""
    texts = ("".join(map(_visible, token)) for token in tokens[:SHOWN])
    return f": {' '.join(texts)}{more}" if tokens else ""


def _visible(character: str) -> str:
    return character if character.isprintable() else f"U+{ord(character):04X}"


def tuning_tokenizers(
    registry: Registry,
    parent: Parent,
    dataset: Dataset,
    limit: int | None,
    recipe: Recipe,
    request: TrainingRequest,
) -> tuple[Tokenizer, Tokenizer]:
    """Return the parent's tokenizers, or those of a side learned again or extended."""
    checkpoint, new = parent.checkpoint, request.new_vocabulary
    source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    if new is None:
        return _extended(parent, dataset, limit, request.extend_vocabulary)
    config = checkpoint.config
    if new == "both":
        return learn_tokenizers(dataset, limit, recipe, registry, config)
    if new == "source" and len(config.sources) > 1:
        return learn_tokenizers(dataset, limit, recipe, registry, config)[0], target

    def texts() -> Iterator[str]:
        pairs = dataset.stream("train", limit)
        return (without_long_words(getattr(pair, new)) for pair in pairs)

    kind = recipe.tokenizers[new == "target"]
    learned = Tokenizer.train(texts(), kind, recipe.vocab_size, registry)
    return (learned, target) if new == "source" else (source, learned)


def _extended(
    parent: Parent, dataset: Dataset, limit: int | None, which: Sides | None
) -> tuple[Tokenizer, Tokenizer]:
    """Return the parent's tokenizers, those of the sides that `which` names with more tokens."""
    sides = [parent.checkpoint.source_tokenizer, parent.checkpoint.target_tokenizer]

    def texts(index: int) -> Texts:
        return lambda: (pair[index] for pair in dataset.stream("train", limit))

    if which == "both" and parent.shares_vocabulary:
        sides = extend_both(sides, (texts(0), texts(1)))
    elif which is not None:
        for index in {"source": (0,), "target": (1,), "both": (0, 1)}[which]:
            sides[index] = extend(sides[index], texts(index))
    return sides[0], sides[1]


def data_size(dataset: Dataset, limit: int | None, parent: Parent, most: int) -> DataSize:
    """Return the size of the training split; its tokens are estimated from some of its pairs.

    Pairs with a side of over `most` tokens do not count: they are skipped.
    """
    count, sample = evenly_spaced(dataset.stream("train", limit), SAMPLED)
    checkpoint = parent.checkpoint
    sides = (checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    encoded = [sides[side].encode([pair[side] for pair in sample]) for side in (0, 1)]
    longer = [max(len(source), len(target)) + 1 for source, target in zip(*encoded, strict=True)]
    kept = [length for length in longer if length <= most]
    return DataSize(*(n * count // max(len(sample), 1) for n in (len(kept), sum(kept))))


def _holds_out_enough(dataset: Dataset, limit: int | None) -> bool:
    """Return whether enough pairs are held out to stop by: of fewer sources than 20, none are."""
    if "validation" not in dataset.splits:
        return False
    held_out = islice(dataset.stream("validation", limit), STOPPED_BY)
    return sum(1 for _ in held_out) == STOPPED_BY


def _given(registry: Registry, request: TrainingRequest) -> dict[str, Any]:
    """Return the values of the recipe that a request sets, by itself or by a recipe's name."""
    values: dict[str, Any] = {}
    if request.recipe is not None:
        add_layers(named_recipe(registry, request.recipe), {}, values)
    update(values, {key.removeprefix("recipe."): v for key, v in request.overrides.items()})
    return values


def _default_recipe(
    registry: Registry, given: Mapping[str, Any], parent: Parent, size: DataSize, validates: bool
) -> dict[str, Any]:
    """Return the recipe of tuning beside the given values, as far as these are numbers.

    What plugins of the parent's brought may not be installed.
    """
    kept = {
        key: parent.recipe[key]
        for key in {*KEPT} - _without_use(given)
        if key in parent.recipe and not unknown_names(registry, {key: parent.recipe[key]})
    }
    batch = _within(size.tokens // BATCHES_PER_EPOCH, BATCH_TOKENS)
    of_update = _number(given, "batch_tokens", batch)
    if sentences := _number(given, "batch_sentences", 0):
        of_update = sentences * math.ceil(size.tokens / max(size.pairs, 1))
    of_update *= _number(given, "accumulate", 1)
    per_epoch = max(1, math.ceil(size.tokens / max(of_update, 1)))
    epochs = _within(math.ceil(UPDATES / per_epoch), EPOCHS)
    steps = _number(given, "steps", 0)
    updates = steps or per_epoch * _number(given, "epochs", epochs)
    selection = {"select": "loss", "patience": PATIENCE} if validates else {}
    return {
        **kept,
        "learning_rate": float(f"{RATE * parent.peak_rate:.2g}"),
        "schedule": "cosine",
        "warmup": _within(updates // 20, WARMUP),
        "batch_tokens": batch,
        "epochs": epochs,
        **selection,
    }


def _without_use(given: Mapping[str, Any]) -> set[str]:
    """Return the regularization of the parent's training that what is given excludes."""

    def names(key: str) -> set[str]:
        value = given.get(key)
        entries = value if isinstance(value, list) else [value]
        return {name_of(entry) for entry in entries if isinstance(entry, str | Mapping)}

    unused = set()
    if (objectives := names("objective")) and "cross_entropy" not in objectives:
        unused.add("r_drop")
    if (names("tokenizer") | names("target_tokenizer")) - {"bpe", "none"}:
        unused.add("bpe_dropout")
    return unused


def _longest(given: Mapping[str, Any], parent: Parent) -> int:
    """Return the most tokens of a side, by what is given, the parent's recipe and its network."""
    usual = _number(parent.recipe, "max_length", Recipe.model_fields["max_length"].default)
    limits = filter(None, parent.checkpoint.config.length_limits)
    return min([_number(given, "max_length", usual), *limits])


def _number(given: Mapping[str, Any], key: str, default: int) -> int:
    """Return a given whole number; the default if there is none, or something else."""
    value = given.get(key)
    return value if type(value) is int and value > 0 else default


def _within(value: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return max(low, min(value, high))


def _check_vocabulary(request: TrainingRequest, parent: Parent) -> None:
    """Make sure that settings of tokenizers have an effect.

    Raises:
        ConfigError: the parent's tokenizers are kept, or one side cannot be changed alone.
    """
    new = request.new_vocabulary
    bare = {key.removeprefix("recipe."): key for key in request.settings}
    given = [bare[key] for key in TOKENIZER_VALUES if key in bare]
    if given and new is None:
        raise ConfigError(
            f"{', '.join(given)} cannot be set",
            f"tuning keeps the tokenizers of {parent.checkpoint.name}",
            "To learn new ones, add --new-vocabulary both",
        )
    kept = {"source": ("target_tokenizer", "shared_vocab"), "target": ("shared_vocab",)}
    if idle := [bare[key] for key in kept.get(new or "", ()) if key in bare]:
        raise ConfigError(
            f"{', '.join(idle)} cannot be set",
            f"--new-vocabulary {new} keeps the tokenizer of the other side",
            "Give --new-vocabulary both",
        )
    option = "--new-vocabulary" if new else "--extend-vocabulary"
    changed, config = new or request.extend_vocabulary, parent.checkpoint.config
    if changed in ("source", "both") and config.features:
        raise ConfigError(
            f"{parent.checkpoint.name} has no source vocabulary",
            "it reads features",
            f"Give {option} target",
        )
    if changed in ("source", "target") and config.one_vocabulary:
        raise ConfigError(
            f"the {changed} vocabulary of {parent.checkpoint.name} cannot be changed alone",
            "one matrix embeds the tokens of both sides",
            f"Give {option} both",
        )
