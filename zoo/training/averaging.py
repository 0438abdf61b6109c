"""Which weights are validated and released: the last, an average, or the best validation's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from zoo.checkpoint.tensors import read_tensors
from zoo.nn.contract import Seq2Seq
from zoo.registry.recipe import Recipe
from zoo.training.group import Group, settle
from zoo.training.progress import Progress
from zoo.training.run import Run


class Released:
    """The weights that would be released now, kept beside those that are trained."""

    def __init__(self, model: Seq2Seq, recipe: Recipe, run: Run, group: Group) -> None:
        self.model, self.recipe, self.run, self.group = model, recipe, run, group
        self.names = [name for name, _ in model.named_parameters()]
        self.average: list[Tensor] = []
        """The exponential average, if the recipe asks for one."""
        if recipe.average_decay:
            self.average = [weight.detach().clone() for weight in model.parameters()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after update `step` into the exponential average.

        a ← decay · a + (1 − decay) · w, the decay being at most (1 + step) / (10 + step), so that
        the first weights are soon forgotten.
        """
        if self.recipe.average_decay:
            decay = min(self.recipe.average_decay, (1 + step) / (10 + step))
            blend = get_ema_multi_avg_fn(decay)
            blend(self.average, [weight.detach() for weight in self.model.parameters()], None)

    @contextlib.contextmanager
    def in_place(self, step: int) -> Iterator[None]:
        """Put the weights that would be released after update `step` into the model for a while."""
        mean = self._last_mean(step)
        settle(self.model)
        if mean is None and not self.average:
            try:
                yield
            finally:
                settle(self.model)
            return
        weights = list(self.model.parameters())
        trained = [weight.detach().clone() for weight in weights]
        with torch.no_grad():
            for name, weight, average in zip(
                self.names, weights, self.average or weights, strict=True
            ):
                weight.copy_(average if mean is None else self.group.like(mean[name], weight))
        try:
            yield
        finally:
            settle(self.model)
            with torch.no_grad():
                for weight, before in zip(weights, trained, strict=True):
                    weight.copy_(before)

    def _last_mean(self, step: int) -> dict[str, Tensor] | None:
        """Return the mean of the last weights kept, this update's own among them."""
        if self.recipe.average_last == 1:
            return None
        self.run.keep_weights(step, self._now())
        self.group.wait()
        return self._mean(step)

    def keep(self, step: int) -> None:
        """Keep the weights after update `step`, whose validation was the best so far."""
        if self.recipe.average_last == 1:  # else they are kept already
            self.run.keep_weights(step, self._now())

    def chosen(self, progress: Progress) -> dict[str, Tensor]:
        """Return the weights to release, whole, on the processor. All processes must ask."""
        selects = self.recipe.select != "last"
        step = progress.best_step if selects and progress.best_step else progress.step
        if (selects or self.recipe.average_last > 1) and self.run.kept_weights(step):
            return self._mean(step)
        return self._now()

    def needed(self, progress: Progress) -> list[int]:
        """Return which updates' kept weights a run that goes on from there may ask for."""
        steps = []
        for step in (progress.step, progress.best_step):
            files = self.run.kept_weights(step)[-self.recipe.average_last :]
            steps += [int(file.stem) for file in files]
        return steps

    def _mean(self, step: int) -> dict[str, Tensor]:
        files = self.run.kept_weights(step)[-self.recipe.average_last :]
        total = read_tensors(files[0])
        for file in files[1:]:
            for name, weight in read_tensors(file).items():
                total[name] += weight
        return {name: weight / len(files) for name, weight in total.items()}

    def _now(self) -> dict[str, Tensor]:
        settle(self.model)
        weights = self.average or list(self.model.parameters())
        return {n: self.group.whole(w) for n, w in zip(self.names, weights, strict=True)}
