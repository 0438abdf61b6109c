"""Validation: the loss, BLEU and sample translations on pairs that are not trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch

from zoo.data.batches import batch_sources, evaluation_batches
from zoo.decoding.greedy import greedy
from zoo.decoding.task import target_limits
from zoo.errors import PluginError
from zoo.evaluation.metrics import score
from zoo.nn.contract import Seq2Seq
from zoo.nn.device import exact_device
from zoo.registry.events import Sample
from zoo.registry.recipe import Recipe
from zoo.training.data import ValidationSet
from zoo.training.objective import teacher_forcing
from zoo.training.precision import autocast
from zoo.training.process_group import ProcessGroup

ROWS = 64
"""Sentences that are translated at a time."""


class ValidationResult(NamedTuple):
    """The loss per target token, in nats; scores by name, if the recipe scores; and samples.

    `exact` is the percentage of the scored translations that equal their references.
    """

    loss: float
    scores: Mapping[str, float]
    samples: list[Sample]
    exact: float | None = None


@torch.inference_mode()
def validate(
    model: Seq2Seq, validation: ValidationSet, recipe: Recipe, group: ProcessGroup
) -> ValidationResult:
    """Validate a model, which is in evaluation mode. All processes must call it.

    It translates nothing if the loss is not finite: searches raise an error of their own there.
    """
    exact = exact_device(group.device)
    sums = torch.zeros(2, dtype=torch.float64, device=exact)
    for number, batch in enumerate(evaluation_batches(validation.corpus, recipe.batch_tokens)):
        # Shards must be gathered by all processes at once; with whole weights each does its part.
        if group.sharded or number % group.size == group.rank:
            with autocast(group.device, recipe.precision):
                loss = teacher_forcing(model, batch.to(group.device))
            sums += torch.stack([loss.total.to(exact).double(), loss.tokens.to(exact).double()])
    total, tokens = (sums if group.sharded else group.all_reduce(sums)).tolist()
    scores: dict[str, float] = {}
    samples: list[tuple[str, str, str]] = []
    match: float | None = None
    if math.isfinite(total) and (group.sharded or group.is_first):
        scores, samples, match = _translate(model, validation, recipe, group.device)
    scores, texts, match = group.broadcast([scores, samples, match])
    shown = [Sample(*text) for text in texts]
    return ValidationResult(total / tokens, scores, shown, match)


def _translate(
    model: Seq2Seq, validation: ValidationSet, recipe: Recipe, device: torch.device
) -> tuple[dict[str, float], list[tuple[str, str, str]], float | None]:
    """Return scores of a part of the set, texts of samples, and how many in 100 are exact."""
    scored = _spread(len(validation), recipe.bleu_sentences)
    shown = _spread(len(validation), recipe.samples)
    translated = sorted({*scored, *shown}, key=lambda i: (len(validation.sources[i]), i))
    # An untrained network seldom ends a translation: twice the longest reference is enough.
    longest = 2 * int(validation.corpus.target.lengths.max()) + 10
    if validation.limits.target is not None:
        longest = min(longest, validation.limits.target)
    corpus = validation.corpus
    most = target_limits(corpus.source.lengths, None)
    is_cut = bool((corpus.target.lengths - 1 > most).any())  # the begin token is not counted
    (tag,) = validation.target_tokenizer.encode([""])  # of the language; most have none
    texts: dict[int, str] = {}
    for start in range(0, len(translated), ROWS):
        rows = translated[start : start + ROWS]
        source, mask = batch_sources([validation.sources[i] for i in rows])
        source, mask = source.to(device), mask.to(device)
        hypotheses = greedy(
            model, source, mask, longest, record=False, prefix=tag,
            max_length=longest if is_cut else None,
        )  # fmt: skip
        texts |= {
            i: validation.target_tokenizer.decode(hypothesis.tokens)
            for i, hypothesis in zip(rows, hypotheses, strict=True)
        }
    scores: dict[str, float] = {}
    match: float | None = None
    if scored:
        outputs = [texts[i] for i in scored]
        references = [validation.pairs[i].target for i in scored]
        computed = score(outputs, references).by_name
        scores = {name: computed[name].value for name in ("bleu", "chrf")}
        match = computed["exact_match"].value
        if validation.metric is not None:
            sources = [validation.pairs[i].source for i in scored]
            other = score(outputs, references, validation.metric, sources=sources)
            if other.problems:
                raise PluginError("; ".join(other.problems))
            scores |= {name: each.value for name, each in other.by_name.items()}
    return scores, [(*validation.pairs[i], texts[i]) for i in shown], match


def _spread(count: int, most: int) -> list[int]:
    """Return up to `most` indices, evenly spaced over `count`."""
    most = min(count, most)
    return [i * count // most for i in range(most)]
