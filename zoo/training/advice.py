"""Warnings about what makes runs fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zoo.data.batches import Sequences
from zoo.data.languages import is_language, same_language
from zoo.errors import counted
from zoo.nn.contract import BEGIN, UNKNOWN
from zoo.nn.processor import is_slow_in_bf16
from zoo.registry.open_shelf import name_of
from zoo.registry.recipe import Recipe
from zoo.training.auto import STOPPED_BY
from zoo.training.data import TrainingData
from zoo.training.failures import calmer
from zoo.training.plan import Plan
from zoo.training.schedule import FIXED_WARMUP
from zoo.training.text_faults import FEW_PAIRS, faults_of_texts

FEW_UPDATES = 500
FEWEST_UPDATES = 300
"""The fewest of `auto`: of few pairs the user hears in any case."""
LEARNED = 95
"""The chrF of a validation from which on few updates were enough."""
RARE = 5
"""A token that occurs less often can hardly be learned."""
SMALL = 500
"""A vocabulary of so many pieces of words is not too large for any text."""
COUNTED = 5_000_000
"""Tokens of a corpus that are counted."""
MUCH_UNKNOWN = 1 / 3
"""The part of unknown tokens above which the user hears of it: neighbors may count as one."""
COMPARED = 1_000_000
"""Sources of each side that are compared: to train on, and to validate on."""
MUCH_SHARED = 0.1
"""The part of shared sources above which the user hears of it."""
SAME_LOSS = 0.97
"""A loss above this part of the loss of guessing by frequency has learned nothing of the source."""
RISING = 3
"""Validations in a row whose loss is above the best one, after which the user hears of it."""
RISE = 0.01
"""How far above, as a part of the best loss.

A thousand sentences have some 13,000 tokens. The difference of two losses of a token deviates by
about 0.5 nats, that of their means by 0.5 / √13,000 = 0.004, or 0.3% of a loss of 1.6: a rise of 1%
is no chance, and one of 0.1% is.
"""


def early_warnings(plan: Plan, data: TrainingData, batches: int, device: str = "cpu") -> list[str]:
    """Return what is likely to go wrong, before anything is trained.

    Args:
        plan, data: of the run.
        batches: the batches of an epoch.
        device: the kind that the model is on.
    """
    recipe, pairs = plan.recipe, len(data.corpus)
    warnings = _slow_precision(recipe, device) + _cut_updates(recipe, batches)
    if pairs < FEW_PAIRS:
        advice = "Add pairs" if plan.parent else "Add pairs, or fine-tune a checkpoint"
        warnings.append(
            f"{_few(pairs, 'pair')}: the model will learn {'it' if pairs == 1 else 'them'} by "
            f"heart, and little more. {advice}"
        )
    sides = {"source": data.corpus.source, "target": data.corpus.target}
    if plan.config.features:
        del sides["source"]
    unknown = {side: unknown_part(sequences) for side, sequences in sides.items()}
    warnings += _validation_warnings(plan, data) + faults_of_texts(plan, data)
    # Where many tokens are unknown, different texts have the same tokens.
    distinct = 0 if unknown["target"] > MUCH_UNKNOWN else _few_distinct(data.corpus.target)
    if distinct:
        warnings.append(
            f"the {pairs:,} targets are only {distinct:,} different texts"
            if distinct > 1
            else f"the {pairs:,} targets are all the same text"
        )
    for side, part in unknown.items():
        if part > MUCH_UNKNOWN:
            advice = "Raise vocab_size, or set tokenizer = byte"
            if plan.parent:
                together = plan.config.one_vocabulary or min(unknown.values()) > MUCH_UNKNOWN
                which = "both" if together else side
                advice = f"Learn another vocabulary with --new-vocabulary {which}"
            warnings.append(
                f"{part:.0%} of the {side}'s tokens are unknown: it has too many characters for "
                f"the vocabulary, or too long words. {advice}"
            )
    if not plan.parent and not recipe.shared_vocab:
        warnings += _large_vocabularies(sides, data)
    updates = planned_updates(recipe, batches)
    if updates is not None and _ends_in_warmup(recipe, updates):
        warnings.append(
            f"the run ends in its warm-up: {counted(updates, 'update')}, of which the learning "
            f"rate rises over {recipe.warmup:,}. Give more updates, or lower warmup"
        )
    elif updates is not None and not plan.parent and updates < _least_updates(pairs):
        warnings.append(f"{_few(updates, 'update')}: most models need a thousand or more")
    return warnings


def _least_updates(pairs: int) -> int:
    """Return with how many updates a new model is not warned of."""
    return FEW_UPDATES if pairs >= FEW_PAIRS else FEWEST_UPDATES


def _slow_precision(recipe: Recipe, device: str) -> list[str]:
    if recipe.precision != "bf16" or device != "cpu" or not is_slow_in_bf16():
        return []
    return [
        "this processor has no fast instructions for bf16: an update takes longer than in float32. "
        "Leave out --precision bf16, or give --precision auto"
    ]


def _cut_updates(recipe: Recipe, batches: int) -> list[str]:
    """Return a warning if an epoch ends before an update has all of its batches."""
    if recipe.accumulate <= batches:
        return []
    return [
        f"an update has {recipe.accumulate:,} batches (accumulate), and an epoch only {batches:,}: "
        "it is one smaller update. Lower accumulate, or the size of the batches"
    ]


def _validation_warnings(plan: Plan, data: TrainingData) -> list[str]:
    """Return what is wrong with the pairs to validate on, or that too few are held out."""
    if plan.validation is not None:
        return _shared_sources(data) + _validation_faults(data)
    pairs = len(data.validation)
    if plan.parent and plan.recipe.select == "last" and 0 < pairs < STOPPED_BY:
        return [
            f"{counted(pairs, 'held-out pair')} cannot show which weights are best: the last are "
            "released, and scores are noise. Give other pairs with --validation"
        ]
    return []


def _shared_sources(data: TrainingData) -> list[str]:
    """Return a warning if many sources to validate on are among those to train on."""
    held_out = list(_contents(data.validation.corpus.source))
    wanted = set(held_out)
    seen = {source for source in _contents(data.corpus.source) if source in wanted}
    shared = sum(source in seen for source in held_out)
    if shared <= MUCH_SHARED * len(held_out):
        return []
    return [
        f"{shared:,} of {len(held_out):,} validation sources are also in the training data: their "
        "scores do not show how well new text is translated. Give other data with --validation"
    ]


def _validation_faults(data: TrainingData) -> list[str]:
    """Return a warning if pairs to validate on are left out, or are of other languages."""
    validation, warnings = data.validation, []
    if skipped := validation.left_out.in_words():
        warnings.append(
            f"{skipped} of the pairs to validate on are skipped: scores are of the other "
            f"{counted(len(validation), 'pair')}"
        )
    sides = list(zip(validation.languages, data.dataset.languages, strict=True))
    known = all(is_language(code) for side in sides for code in side)
    if known and not all(same_language(*side) for side in sides):
        given, own = (" to ".join(pair) for pair in zip(*sides, strict=True))
        warnings.append(f"the data to validate on is {given}, and the training data is {own}")
    return warnings


def _contents(sequences: Sequences, most: int = COMPARED) -> Iterator[bytes]:
    """Yield what identifies each of the first sequences: the bytes of its numbers."""
    for start, end in itertools.pairwise(sequences.starts[: most + 1].tolist()):
        numbers = sequences.tokens[start:end]
        yield (numbers.astype(np.int32) if numbers.ndim == 1 else numbers).tobytes()


def _large_vocabularies(sides: Mapping[str, Sequences], data: TrainingData) -> list[str]:
    """Return a warning for each side of which more than half the vocabulary is rare."""
    warnings = []
    for side, sequences in sides.items():
        tokenizer = data.target_tokenizer if side == "target" else data.source_tokenizer
        size, rare = tokenizer.size, rare_tokens(sequences, tokenizer.size)
        kind = name_of(data.setup.recipe.tokenizers[side == "target"])
        pieces = kind == "bpe"
        if size > (SMALL if pieces else 100) and rare > size / 2:
            other = "" if pieces else ", or set tokenizer = bpe"
            warnings.append(
                f"the {side} vocabulary is larger than the text supports: {rare:,} of {size:,} "
                f"entries occur fewer than {RARE} times. Lower vocab_size{other}"
            )
    return warnings


def _few(number: int, noun: str) -> str:
    """Return `1 pair is few`, or `2 pairs are few`."""
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'} few"


def planned_updates(recipe: Recipe, batches: int) -> int | None:
    """Return the most updates of a run; None if only its time is limited."""
    counts = [recipe.steps] if recipe.steps else []
    if recipe.epochs:
        counts.append(recipe.epochs * -(-batches // recipe.accumulate))
    return min(counts, default=None)


def unknown_part(sequences: Sequences) -> float:
    """Return the part of the tokens that are unknown, other special tokens excluded."""
    tokens = np.asarray(sequences.tokens[:COUNTED])
    return int((tokens == UNKNOWN).sum()) / max(1, int((tokens >= UNKNOWN).sum()))


def part_with_unknown(sequences: Sequences) -> float:
    """Return the part of the texts that have an unknown token."""
    tokens = np.asarray(sequences.tokens[:COUNTED])
    positions = np.flatnonzero(tokens == UNKNOWN)
    texts = int(np.searchsorted(sequences.starts, len(tokens)))
    return len(np.unique(np.searchsorted(sequences.starts, positions, "right"))) / max(1, texts)


def rare_tokens(sequences: Sequences, size: int) -> int:
    """Return how many of a vocabulary's entries, special tokens excluded, occur rarely."""
    counts = np.bincount(sequences.tokens[:COUNTED], minlength=size)
    return int((counts[UNKNOWN + 1 :] < RARE).sum())


def _few_distinct(targets: Sequences) -> int:
    """Return the number of different targets if each occurs ten times or more, or else 0."""
    count = min(len(targets), 20_000)
    distinct = len(set(_contents(targets, count)))
    return distinct if 10 * distinct <= count else 0


def loss_of_guessing(targets: Sequences, size: int, smoothing: float = 0.0) -> float:
    """Return −Σ_y p(y) log p(y), with p(y) the frequency of token y: the loss of knowing only it.

    In nats per predicted token of a vocabulary of this size, with smoothed labels; begin tokens are
    not predicted.
    """
    counts = np.bincount(targets.tokens[:COUNTED], minlength=size)
    counts[BEGIN : BEGIN + 1] = 0
    frequencies = (1 - smoothing) * counts / counts.sum() + smoothing / size
    frequencies = frequencies[frequencies > 0]
    return float(-(frequencies * np.log(frequencies)).sum())


def rising(losses: Sequence[float]) -> bool:
    """Return whether `RISING` validations in a row are now above the best one by `RISE`.

    Only the first time since the best one: each best loss is followed by one warning at most. Of a
    group's processes, only the first one knows losses.
    """
    if not losses:
        return False
    best = min(losses)
    above = [loss > (1 + RISE) * best for loss in losses[losses.index(best) :]]
    risen = [all(above[i : i + RISING]) for i in range(len(above) - RISING + 1)]
    return bool(risen) and risen[-1] and not any(risen[:-1])


def of_rising_loss(losses: Sequence[float], data: TrainingData) -> str:
    """Return what it says that the loss of validations has risen."""
    best = min(losses)
    guessing = loss_of_guessing(data.corpus.target, data.target_tokenizer.size)
    overfits = best <= SAME_LOSS * guessing
    why = "the model overfits" if overfits else "the learning rate may be too high"
    return f"the validation loss has risen from {best:.3f}: {why}"


def late_warnings(
    plan: Plan, data: TrainingData, updates: int, metrics: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return what went wrong, as far as the metrics of a finished run show it.

    Args:
        plan, data: of the run.
        updates: the updates that were made.
        metrics: the records of its reports and validations, as the run folder holds them.
    """
    recipe, warnings = plan.recipe, []
    losses = [r["validation_loss"] for r in metrics if "validation_loss" in r]
    if _ends_in_warmup(recipe, updates):
        warnings.append(
            f"the run ended in its warm-up, after {updates:,} of {recipe.warmup:,} updates: "
            "give it more time, or lower warmup"
        )
    elif updates < FEW_UPDATES and not (recipe.steps or recipe.epochs or _is_learned(metrics)):
        warnings.append(f"{_few(updates, 'update')}: give the run more time")
    loss, smoothing = (min(losses), 0.0) if losses else _loss_of_training(recipe, metrics)
    guessing = loss_of_guessing(data.corpus.target, data.target_tokenizer.size, smoothing)
    rose = bool(losses) and losses[-1] > 1.05 * min(losses)
    if loss > SAME_LOSS * guessing and guessing > 0.1:
        below = "hardly" if loss < guessing else "not"
        warnings.append(
            f"the loss, {loss:.2f}, is {below} below that of guessing tokens by their frequency, "
            f"{guessing:.2f}: the model has learned nothing from the sources"
            + (f". {calmer(recipe)}" if rose else "")
        )
    elif rose and recipe.select == "last":
        warnings.append(
            f"the validation loss rose from {min(losses):.2f} to {losses[-1]:.2f}: the model "
            "overfits. Set select = loss and patience = 5, more dropout, or give more data"
        )
    return warnings


def _loss_of_training(recipe: Recipe, metrics: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the last loss of training with its label smoothing; 0 if it has other parts too."""
    last = next((r for r in reversed(metrics) if "loss" in r), {"loss": 0.0})
    alone = recipe.objectives == ["cross_entropy"] and not recipe.r_drop and "losses" not in last
    return (last["loss"], recipe.label_smoothing) if alone else (0.0, 0.0)


def _is_learned(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether translations of a validation were nearly all right."""
    return any((record.get("chrf") or 0) >= LEARNED for record in metrics)


def _ends_in_warmup(recipe: Recipe, updates: int) -> bool:
    return name_of(recipe.schedule) in FIXED_WARMUP and updates <= recipe.warmup
