"""The recipe `auto`: a recipe from the corpus, the model and the time, for data that has none.

`choose` reads the text and decides what does not depend on speed: tokenizer, vocabulary, lengths.
`fit` then knows the number of tokens and, if the run has a time limit, the time of an update: it
decides the batch, the number of updates, warm-up, dropout, averaging and when to stop. Both leave
alone what the user or the recipe `MODEL.auto` sets. Everything that is chosen is part of the run's
recipe, so that resuming a run never chooses again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.data.statistics import CorpusStatistics
from zoo.errors import DataError, counted
from zoo.evaluation.labels import metric_label
from zoo.registry.config import Config
from zoo.registry.open_shelf import name_of
from zoo.training.segmentation import longest_in_tokens, tokenizer_kind, vocabulary_size, word_like

BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
"""Batch sizes in tokens."""
CPU_BATCHES = 3
"""How many of them a CPU considers: a larger batch is no faster there."""
ENOUGH_UPDATES = 2500
"""A larger batch is not worth fewer updates than this."""
UPDATES_PER_EPOCH = 16
SCHEDULE = {
    "one_cycle": "which rises over a tenth of the run and then decays to zero",
}
PATIENCE = 8
COOLDOWN = 0.1
TOLERANCE = 0.02
"""Losses that differ less are equal: with a constant loss, translations still improve."""
LONG_TEXT = 8
"""Words of a text from which on some can be dropped without losing its meaning."""
STOPPED_BY = 20
"""Held-out pairs from which on their loss can say when to stop."""
SCORED = 500
"""Held-out pairs from which on their chrF is less noisy than early stopping can bear."""
RATE = 2e-3
"""The peak learning rate at a width of 256 or less and batches of 1,024 tokens or less."""


@dataclass
class Choice:
    """Values of the recipe and of the configuration, and what was chosen and why, in lines."""

    statistics: CorpusStatistics
    fixed: Mapping[str, Any]
    """What the user and the recipe `MODEL.auto` set: no choice changes it."""
    recipe: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def set(self, key: str, value: Any) -> Any:
        """Choose a value of the recipe unless it is fixed; return the one that holds."""
        if key in self.fixed:
            return self.fixed[key]
        self.recipe[key] = value
        return value

    def value(self, key: str) -> Any:
        """Return the value that holds of those that are set or chosen."""
        return self.fixed.get(key, self.recipe.get(key))

    @property
    def accumulate(self) -> int:
        """The batches of an update."""
        given = self.fixed.get("accumulate")
        return given if type(given) is int and given > 0 else 1

    @property
    def natural(self) -> bool:
        """Whether the corpus is natural language: new text has words that the corpus lacks."""
        return not (self.statistics.source.closed and self.statistics.target.closed)


@dataclass(frozen=True)
class UpdateTime:
    """Seconds of an update: `fixed`, plus `per_token` for each token of the batch."""

    fixed: float
    per_token: float

    def seconds(self, tokens: int) -> float:
        """Return the seconds of an update with batches of so many tokens."""
        return self.fixed + self.per_token * tokens


@dataclass(frozen=True)
class Size:
    """What `fit` needs to know: tokens of an epoch, pairs to validate on, totals, and the device.

    `tokens` counts the longer side of each pair. `speed` is None without a time limit.
    """

    tokens: int
    validation: int
    totals: Mapping[str, float | None]
    speed: UpdateTime | None = None
    on_cpu: bool = True


def choose(
    statistics: CorpusStatistics, config: Config, vocabulary: int, fixed: Mapping[str, Any]
) -> Choice:
    """Choose tokenizer, vocabulary and length limit.

    Args:
        statistics: of the training split.
        config: the model's configuration.
        vocabulary: the model's usual size of a vocabulary, which is the largest chosen.
        fixed: values that are set already.

    Raises:
        DataError: there are no pairs.
    """
    if not statistics.pairs:
        raise DataError("there are no pairs to train on", "the training split is empty")
    choice = Choice(statistics, fixed)
    shared = choice.set("shared_vocab", config.one_vocabulary)
    kind, why = tokenizer_kind(statistics)
    kind = name_of(choice.set("tokenizer", kind))
    kinds = (kind, kind if shared else name_of(fixed.get("target_tokenizer") or kind))
    size = choice.set("vocab_size", vocabulary_size(statistics, kinds, shared, vocabulary))
    sides = "one vocabulary" if shared else "a vocabulary for each side"
    if "tokenizer" in fixed:
        why = "as you set it"
    names = " and ".join(dict.fromkeys(kinds))
    choice.reasons.append(f"{names} tokenizer ({why}), {sides} of at most {size:,} entries")
    _limit_length(choice, kinds)
    return choice


def _limit_length(choice: Choice, kinds: tuple[str, str]) -> None:
    """Raise the length limit where many texts are long; a few very long ones are skipped."""
    longest = longest_in_tokens(choice.statistics, kinds)
    if longest > 256 and "max_length" not in choice.fixed:
        limit = min(2 ** math.ceil(math.log2(longest)), 2048)
        choice.set("max_length", limit)
        choice.reasons.append(f"pairs of up to {limit:,} tokens, because many texts are long")


def fit(choice: Choice, config: Config, size: Size) -> None:
    """Choose what depends on the number of tokens and on the time.

    The totals that the run has (updates, epochs or minutes) shape the schedule, whose decay ends
    with the run. Without a total, the run gets updates enough for its data, and stops when the
    held-out text no longer improves.
    """
    batch = _batch(choice, size)
    updates = _updates(choice, size, batch)
    if not any(size.totals.values()):
        choice.set("steps", updates)
    schedule = name_of(choice.set("schedule", "one_cycle"))
    larger = min(max(math.sqrt(batch * choice.accumulate / 1024), 1.0), 1.5)
    scale = min(math.sqrt(256 / config.width), 1.0) * larger
    rate = choice.set("learning_rate", float(f"{RATE * scale:.2g}"))
    choice.set("label_smoothing", 0.1 if choice.natural else 0.0)
    choice.set("precision", "auto" if size.totals["minutes"] else "float32")
    per_epoch = _updates_of_epoch(choice, size, batch)
    epochs = updates / per_epoch
    dropout = _regularize(choice, config, epochs)
    choice.reasons.append(
        f"batches of {batch:,} tokens ({counted(round(per_epoch), 'update')} per epoch), "
        f"{_about(size)}{counted(updates, 'update')} ({epochs:,.1f} epochs){_why_updates(size)}"
    )
    rate_of_run = f"learning rate {rate:g}, {SCHEDULE.get(schedule, schedule)}"
    if schedule == "noam":  # which reads factor, width and warmup instead
        rate_of_run = "learning rate of noam, by factor, width and warmup"
    choice.reasons.append(f"{rate_of_run}; {dropout}")
    _validate(choice, size, updates)


def _batch(choice: Choice, size: Size) -> int:
    """Return the tokens of a batch: the largest that leaves enough updates."""
    if choice.fixed.get("batch_sentences"):
        longer = size.tokens / max(choice.statistics.pairs, 1)
        return max(round(choice.fixed["batch_sentences"] * longer), 1)
    candidates = BATCHES[:CPU_BATCHES] if size.on_cpu else BATCHES
    chosen = candidates[0]
    for batch in candidates[1:]:
        too_few = _updates(choice, size, batch) < ENOUGH_UPDATES
        if too_few or size.tokens < UPDATES_PER_EPOCH * batch * choice.accumulate:
            break
        chosen = batch
    return int(choice.set("batch_tokens", chosen))


def _updates(choice: Choice, size: Size, batch: int) -> int:
    """Return how many updates the run makes, or should make, with batches of so many tokens."""
    per_epoch = _updates_of_epoch(choice, size, batch)
    totals = size.totals
    counts = []
    if totals["steps"]:
        counts.append(totals["steps"])
    if totals["epochs"]:
        counts.append(totals["epochs"] * per_epoch)
    if totals["minutes"] and size.speed:
        # A tenth of the time is for validation and saving.
        seconds = choice.accumulate * size.speed.seconds(batch)
        counts.append(0.9 * 60 * totals["minutes"] / seconds)
    if not counts:
        # Forty epochs; few pairs are learned by heart in fewer updates, and many need no epoch.
        most = 50_000 if choice.natural else 10_000
        least = min(3000.0, 40 * per_epoch * max(1.0, choice.statistics.distinct / 100))
        counts.append(min(max(40 * per_epoch, least, 300), max(most, 2 * per_epoch)))
    return max(round(min(counts)), 1)


def _updates_of_epoch(choice: Choice, size: Size, batch: int) -> float:
    return max(size.tokens / (batch * choice.accumulate), 1)


def _about(size: Size) -> str:
    return "about " if size.totals["minutes"] and size.speed else ""


def _why_updates(size: Size) -> str:
    if size.totals["minutes"] and size.speed:
        return f", what {size.totals['minutes']:g} minutes allow at this speed"
    if any(size.totals.values()):
        return ""
    return " at most, fewer if held-out text no longer improves"


def _regularize(choice: Choice, config: Config, epochs: float) -> str:
    """Choose dropout, by how often each pair is seen; return what was chosen."""
    words = word_like(choice.statistics.target) * choice.statistics.pairs
    words //= max(choice.statistics.sampled, 1)
    dropout = 0.1
    if not choice.natural and choice.statistics.distinct >= 5000:
        dropout = 0.0
    elif epochs > 10 and words < 2_000_000:
        dropout = 0.3
    elif epochs > 5 and words < 5_000_000:
        dropout = 0.2
    if "dropout" in type(config).model_fields and "dropout" not in choice.fixed:
        choice.config["dropout"] = dropout
    else:
        dropout = getattr(config, "dropout", 0.0)
    has_words = name_of(choice.value("tokenizer")) not in ("char", "byte")
    long = choice.statistics.mean_length >= LONG_TEXT
    if choice.natural and has_words and epochs > 15 and long:
        choice.set("word_dropout", 0.1)
    return f"dropout {dropout:g}"


def stops_early(fixed: Mapping[str, Any]) -> bool:
    """Return whether values that are set say when a run stops early."""
    return any(fixed.get(key) for key in ("patience", "cooldown", "tolerance"))


def _validate(choice: Choice, size: Size, updates: int) -> None:
    """Choose how often to validate, by what to select, which average to release, when to stop."""
    minutes = size.totals["minutes"]
    times = 25.0 if not minutes else min(max(6 * minutes, 5), 25)
    choice.set("validate_every", max(round(updates / times), 1))
    # The average covers the last few percent of the updates.
    decay = 1 - 1 / max(0.02 * updates, 2)
    averaged = choice.fixed.get("average_last", 1) > 1
    if not averaged:
        averaged = bool(choice.set("average_decay", float(f"{min(decay, 0.9995):.4f}")))
    average = f"releases {'an average of ' if averaged else ''}the last weights"
    # Few pairs can still say when to stop, if that is wanted.
    stops = stops_early(choice.fixed) and "select" not in choice.fixed
    if size.validation < STOPPED_BY and not (stops and size.validation):
        if choice.set("select", "last") not in ("last", "loss"):
            choice.set("bleu_sentences", max(size.validation, 1))
        held_out = counted(size.validation, "held-out pair")
        choice.reasons.append(f"{average}; {held_out}: too few to stop by")
        return
    by = choice.set("select", "chrf" if choice.natural and size.validation >= SCORED else "loss")
    choice.set("bleu_sentences", min(size.validation, 200 if by in ("bleu", "chrf") else 100))
    if by == "last":
        choice.reasons.append(f"{average}; scores {size.validation:,} held-out pairs")
        return
    reason = f"{average}, the best by {metric_label(by)} of {size.validation:,} held-out pairs"
    if patience := choice.set("patience", PATIENCE):
        choice.set("tolerance", TOLERANCE)
        reason += f"; stops after {patience} validations without improvement"
        if choice.set("cooldown", COOLDOWN):
            reason += ", once the rate has decayed"
    choice.reasons.append(reason)
