"""Apply the recipe `auto` to a run: read the corpus, measure an update, and complete the plan."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from zoo.data.batches import Batch, Corpus, shuffled_batches
from zoo.data.statistics import corpus_statistics
from zoo.registry.registry import Registry
from zoo.training.auto import PATIENCE, Choice, Size, UpdateTime, choose, fit, stops_early
from zoo.training.data import TrainingData
from zoo.training.initialization import build_network
from zoo.training.objective import TrainingLoss
from zoo.training.optimizer import clip_gradients, make_optimizer
from zoo.training.plan import Plan, fixed_values, make_plan, uses_auto
from zoo.training.precision import synchronize
from zoo.training.recipe_layers import TOTALS
from zoo.training.request import TrainingRequest

MEASURED = (512, 2048)
"""Batch sizes in tokens of which an update is timed."""
LONG = 3.0
"""Seconds of an update above which no larger batch is timed."""
TRIES = 3


def first_plan(registry: Registry, request: TrainingRequest) -> tuple[Plan, Automatic | None]:
    """Return the plan of a request; with the recipe `auto`, what is chosen from the text is in it.

    Raises:
        ZooError: a name, a setting or the data is not valid.
    """
    if not uses_auto(registry, request):
        return make_plan(registry, request), None
    fixed = fixed_values(registry, request)
    needed = _needed(fixed)
    plan = make_plan(registry, request, needed)
    dataset = plan.dataset(registry)
    entry = registry.find_model(request.model)
    counted = corpus_statistics(dataset.stream("train", request.limit))
    vocabulary = max(entry.source_vocab, entry.target_vocab)
    choice = choose(counted, plan.config, vocabulary, fixed)
    automatic = Automatic(registry, request, choice)
    return automatic.plan(needed), automatic


def _needed(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the request's own values need until `auto` has chosen all others."""
    needed: dict[str, Any] = {}
    if stops_early(fixed) and "select" not in fixed:
        needed["select"] = "loss"
    if fixed.get("cooldown") and "patience" not in fixed:
        needed["patience"] = PATIENCE
    if fixed.get("select") not in (None, "last", "loss") and "bleu_sentences" not in fixed:
        needed["bleu_sentences"] = 100
    return needed


@dataclass(frozen=True)
class Automatic:
    """The recipe `auto` of a run that begins."""

    registry: Registry
    request: TrainingRequest
    choice: Choice

    def plan(self, needed: Mapping[str, Any] | None = None) -> Plan:
        """Return the plan with what is chosen so far, and what that needs besides."""
        chosen = {**(needed or {}), **self.choice.recipe, "config": self.choice.config}
        return make_plan(self.registry, self.request, chosen)

    def fitted(self, plan: Plan, data: TrainingData, device: torch.device) -> Plan:
        """Return the complete plan: what depends on the number of tokens and the time is chosen.

        With a time limit, a few updates of a network that is then discarded are timed.
        """
        totals = {name: self.choice.fixed.get(name) for name in TOTALS}
        speed = None
        if totals["minutes"]:
            network = build_network(self.registry, plan, data).to(device)
            speed = measure_speed(TrainingLoss(data.setup, network, data.augmentations), data)
        size = Size(
            longer_side(data.corpus), len(data.validation), totals, speed, device.type == "cpu"
        )
        fit(self.choice, plan.config, size)
        return self.plan()


def longer_side(corpus: Corpus) -> int:
    """Return the tokens of an epoch, counted on the longer side of each pair."""
    return int(torch.maximum(corpus.source.lengths, corpus.target.lengths).sum())


def measure_speed(loss: TrainingLoss, data: TrainingData) -> UpdateTime:
    """Time updates with two sizes of batches. The model is trained by them."""
    device, corpus, setup = next(loss.parameters()).device, data.corpus, data.setup
    loss.train()
    seconds: list[float] = []
    sizes: list[int] = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        optimizer = make_optimizer(setup.registry, setup.recipe, loss.parameters())
        for tokens in MEASURED:
            batches = shuffled_batches(corpus, tokens, None, setup.recipe.seed, epoch=0)
            longest = [_tokens(corpus, indices) for indices in batches]
            middle = sorted(range(len(batches)), key=longest.__getitem__)[len(batches) // 2]
            batch = corpus.batch(batches[middle]).to(device)
            times = []
            for _ in range(TRIES):
                before = time.perf_counter()
                _update(loss, optimizer, batch, setup.recipe.clip)
                synchronize(device)
                times.append(time.perf_counter() - before)
            sizes.append(longest[middle])
            seconds.append(statistics.median(times))
            if seconds[0] > LONG:
                break
    if len(sizes) < 2 or sizes[1] <= sizes[0] or seconds[1] <= seconds[0]:
        return UpdateTime(0.0, seconds[-1] / max(sizes[-1], 1))
    per_token = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    return UpdateTime(max(seconds[0] - per_token * sizes[0], 0.0), per_token)


def _tokens(corpus: Corpus, indices: torch.Tensor) -> int:
    """Return a batch's tokens on its longer side, padding included."""
    sides = (corpus.source.lengths[indices], corpus.target.lengths[indices])
    return len(indices) * max(int(lengths.max()) for lengths in sides)


def _update(
    loss: TrainingLoss, optimizer: torch.optim.Optimizer, batch: Batch, clip: float | None
) -> None:
    optimizer.zero_grad(set_to_none=True)
    computed = loss(batch)
    (computed.total / computed.tokens).backward()
    if clip is not None:
        clip_gradients(loss.parameters(), clip)
    optimizer.step()
