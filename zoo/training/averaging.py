"""Which weights are validated and released: the last, an average, or those of the best validation.

A tuned checkpoint may keep a share of its parent's weights, which forgets less of what the parent
knew (Wortsman et al. 2022, *Robust fine-tuning of zero-shot models*, eq. 1).
Files of weights are kept in the run folder at validations, where the recipe needs them later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.checkpoint.tensors import read_tensors
from zoo.errors import CheckpointError
from zoo.registry.recipe import Recipe
from zoo.training.process_group import ProcessGroup
from zoo.training.run_folder import RunFolder
from zoo.training.sharding import distribute_like, reshard
from zoo.training.state import TrainingState
from zoo.training.tuning_record import first_weights


class AveragedWeights:
    """The weights that would be released now. What changes is in `state` and in `folder`."""

    def __init__(
        self, state: TrainingState, recipe: Recipe, folder: RunFolder, group: ProcessGroup
    ) -> None:
        self.state, self.recipe, self.folder, self.group = state, recipe, folder, group
        self.names = [name for name, _ in state.model.named_parameters()]

    @contextlib.contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Put the weights that would be released now into the model until the block ends."""
        state, model, share = self.state, self.state.model, self.recipe.parent_share
        mean = self._mean_with_current()
        reshard(model)
        if mean is None and not state.average and not share:
            try:
                yield
            finally:
                reshard(model)
            return
        parent = first_weights(self.folder.path, model) if share else {}
        weights = list(model.parameters())
        trained = [weight.detach().clone() for weight in weights]
        with torch.no_grad():
            for name, weight, average in zip(
                self.names, weights, state.average or weights, strict=True
            ):
                weight.copy_(average if mean is None else distribute_like(mean[name], weight))
                if share:
                    weight.lerp_(distribute_like(parent[name], weight), share)
        try:
            yield
        finally:
            reshard(model)
            with torch.no_grad():
                for weight, before in zip(weights, trained, strict=True):
                    weight.copy_(before)

    def _mean_with_current(self) -> dict[str, Tensor] | None:
        """Return the mean of the last weights that were kept, the current ones among them."""
        if self.recipe.average_last == 1:
            return None
        self.folder.keep_weights(self.state.step, self._current())
        self.group.barrier()
        return self._mean(self.state.step)

    def keep(self) -> None:
        """Keep the current weights, whose validation was the best so far."""
        if self.recipe.average_last == 1:  # otherwise they are kept already
            self.folder.keep_weights(self.state.step, self._current())

    def to_release(self) -> dict[str, Tensor]:
        """Return the weights to release, whole, on the CPU. All processes must call it.

        Raises:
            CheckpointError: the best weights were kept, and their file is gone.
        """
        state, selects = self.state, self.recipe.select != "last"
        step = state.best_step if selects and state.best_step else state.step
        if selects and state.best_step and step not in self._kept_steps(step):
            raise CheckpointError(
                f"the best weights of {self.folder.path} are gone",
                f"there is no weights/{step:09d}.safetensors",
                "Restore it, or train again",
            )
        if (selects or self.recipe.average_last > 1) and self.folder.kept_weights(step):
            return self._with_parent(self._mean(step))
        return self._with_parent(self._current())

    def needed(self, counters: Mapping[str, Any]) -> list[int]:
        """Return the updates whose kept weights a state with these counters still needs."""
        steps = []
        for step in (counters["step"], counters["best_step"]):
            steps += self._kept_steps(step)
        return steps

    def _kept_steps(self, step: int) -> list[int]:
        return [int(file.stem) for file in self._last_kept(step)]

    def _last_kept(self, step: int) -> list[Path]:
        return self.folder.kept_weights(step)[-self.recipe.average_last :]

    def _mean(self, step: int) -> dict[str, Tensor]:
        files = self._last_kept(step)
        mean = read_tensors(files[0])
        for count, file in enumerate(files[1:], 2):
            for name, weight in read_tensors(file).items():
                # Unlike a sum's part, this leaves equal weights, such as frozen ones, as they are.
                mean[name].lerp_(weight, 1 / count)
        return mean

    def _with_parent(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return (1 − share) · weights + share · the parent's, in the first process."""
        share = self.recipe.parent_share
        if not share or not self.group.is_first:
            return weights
        parent = first_weights(self.folder.path, self.state.model)
        # Equal weights, such as frozen ones, stay as they are.
        return {name: weight.lerp(parent[name], share) for name, weight in weights.items()}

    def _current(self) -> dict[str, Tensor]:
        reshard(self.state.model)
        weights = self.state.average or list(self.state.model.parameters())
        return {n: self.group.full_tensor(w) for n, w in zip(self.names, weights, strict=True)}
