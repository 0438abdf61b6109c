"""The training objective: the sum of what a recipe's objectives compute of each batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from zoo.data.batches import Batch
from zoo.errors import ConfigError
from zoo.nn.contract import NO_LOSSES, PADDING, Seq2Seq
from zoo.nn.faults import broken_network, plugin_of
from zoo.registry.open_shelf import Named, name_of
from zoo.registry.recipe import Recipe
from zoo.training.augmentation import Augmentations
from zoo.training.failures import blaming
from zoo.training.losses import cross_entropy, symmetric_kl
from zoo.training.setup import Setup
from zoo.training.training_batch import TrainingBatch


class Loss(NamedTuple):
    """Sum over a batch's real target tokens, in nats; `tokens` is their number.

    `own` are the parts of `total` by name: the network's own losses, and those of several
    objectives.
    """

    total: Tensor
    tokens: Tensor
    own: Mapping[str, Tensor] = NO_LOSSES


def teacher_forcing(model: Callable[..., Any], batch: Batch, smoothing: float = 0.0) -> Loss:
    """Return −Σ_i Σ_y q_i(y) log p(y | y_1 … y_{i−1}, x) over real target tokens.

    q puts 1 − `smoothing` on the reference and spreads the rest evenly over the whole vocabulary
    (Szegedy et al. 2016, section 7). The network's input is the target without its last token; its
    labels are the target without its first token.
    """
    return likelihood(TrainingBatch(model, batch), smoothing)  # type: ignore[arg-type]  # it is only called


def likelihood(batch: TrainingBatch, smoothing: float) -> Loss:
    """Return the label-smoothed cross-entropy of a batch, as `teacher_forcing` does."""
    labels = batch.labels.flatten()
    total = cross_entropy(batch.output.logits.flatten(0, 1), labels, smoothing)
    return Loss(total, (labels != PADDING).sum())


class CrossEntropy:
    """Cross-entropy with the recipe's label smoothing: `teacher_forcing`."""

    def __init__(self, setup: Setup, network: Seq2Seq) -> None:
        self.smoothing = setup.recipe.label_smoothing

    def __call__(self, batch: TrainingBatch) -> Tensor:
        """Return the loss of a batch."""
        return likelihood(batch, self.smoothing).total


class RDrop(CrossEntropy):
    """Cross-entropy, and the divergence of two passes (Liang et al. 2021, section 2).

    Each batch is run twice with different dropout masks: the loss is the mean of the two, plus
    `alpha` times the `symmetric_kl` of the two distributions. In the paper it is the sum of the
    two, so that its α is twice this one. Augmentations of batches, such as `word_dropout`, differ
    between the two as well.
    """

    def __init__(
        self, setup: Setup, network: Seq2Seq, alpha: Annotated[float, Field(ge=0)]
    ) -> None:
        super().__init__(setup, network)
        self.alpha = alpha

    def __call__(self, batch: TrainingBatch) -> Tensor:
        """Return the loss of a batch."""
        twice = batch.repeated(2)
        total = likelihood(twice, self.smoothing).total
        logits = twice.output.logits.flatten(0, 1)
        return total / 2 + self.alpha * symmetric_kl(logits, batch.labels.flatten())


class Part(NamedTuple):
    """One objective of a recipe.

    label: under which the reports of a run show it: the name, with a number if it is repeated.
    """

    name: str
    label: str
    weight: float
    compute: Callable[[TrainingBatch], Tensor]


class TrainingLoss(nn.Module):
    """A network with the objectives that it is trained by; called with a batch, it returns a loss.

    Weights that an objective brings are trained with the network's.
    """

    def __init__(
        self, setup: Setup, network: Seq2Seq, augmentations: Augmentations, compile: bool = False
    ) -> None:
        super().__init__()
        self.network, self.augmentations = network, augmentations
        self.limit = setup.limits.target
        (self.prefix,) = setup.target_tokenizer.encode([""])  # the tag of the language, if any
        # In a tuple, since a compiled network is a module of the same weights.
        device = next(network.parameters()).device
        self._forward = (compile_forward(network, device) if compile else network,)
        self.shelf = setup.registry.objectives
        self.parts: list[Part] = []
        for named in chosen_objectives(setup.recipe):
            self.parts.append(self._part(named, setup))
        modules = [part.compute for part in self.parts if isinstance(part.compute, nn.Module)]
        self.objectives = nn.ModuleList(modules).to(device)

    def _part(self, named: Named, setup: Setup) -> Part:
        name = name_of(named)
        made = self.shelf.make(named, setup, self.network)
        if not callable(made):
            raise self.shelf.broken(name, f"it made {made!r}, which cannot be called with a batch")
        weight = 1.0 if isinstance(named, str) else float(named.get("weight", 1.0))
        number = 1 + sum(part.name == name for part in self.parts)
        return Part(name, name if number == 1 else f"{name}/{number}", weight, made)

    def forward(self, batch: Batch) -> Loss:
        """Return the weighted sum of the objectives.

        Raises:
            PluginError: an objective raises, or does not return a sum over the batch with a
                gradient; or a loss of the network's own has the name of an objective.
        """
        augment = self.augmentations.batch
        given = TrainingBatch(
            self.network, batch, self._forward[0], augment, self.limit, prefix=self.prefix
        )
        totals = [self._compute(part, given) for part in self.parts]
        own = self._own_losses(given)
        total = sum(own.values(), sum(totals[1:], totals[0]))
        if (
            not total.requires_grad
            and torch.is_grad_enabled()
            and any(weight.requires_grad for weight in self.parameters())
        ):
            raise self.shelf.broken(self.parts[0].name, "the loss that it returned has no gradient")
        if len(totals) > 1:
            own |= {part.label: each for part, each in zip(self.parts, totals, strict=True)}
        return Loss(total, given.tokens.sum(), own)

    def _own_losses(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Return the network's own losses, of which none is named as an objective of the run."""
        own = batch.own_losses()
        for part in self.parts:
            if part.name in own:
                reason = f"a loss of its own is named {part.name!r}, as an objective of the run is"
                raise broken_network(type(self.network), reason, "Rename the loss")
        return own

    def _compute(self, part: Part, batch: TrainingBatch) -> Tensor:
        with blaming(self.shelf, part.name):
            total = part.compute(batch)
        if not isinstance(total, Tensor) or total.dim() or not total.is_floating_point():
            shape = f"a tensor of shape {list(total.shape)}" if isinstance(total, Tensor) else total
            raise self.shelf.broken(part.name, f"it returned {shape}, not a sum over the batch")
        return total if part.weight == 1 else part.weight * total

    def describe_part(self, name: str) -> str:
        """Return what says that a part of the loss is not finite, with the plugin that brings it.

        The part is an objective's, or else a loss of the network's own.
        """
        objective = next((part.name for part in self.parts if part.label == name), None)
        if objective is not None:
            of = f"objective {name!r} of {self.shelf.owner(objective)}"
        else:
            kind = type(self.network)
            plugin = plugin_of(kind)
            of = f"{name!r} of the network {kind.__name__}{f' of {plugin}' if plugin else ''}"
        return f"its part {of} is not finite"

    def named_parts(self) -> dict[str, Any]:
        """Return the objectives by names under which their states are saved."""
        return {f"objective.{i}.{part.name}": part.compute for i, part in enumerate(self.parts)}

    def weights(self) -> dict[str, nn.Parameter]:
        """Return all weights by name: the network's by their own, then those of objectives."""
        return {name.removeprefix("network."): w for name, w in self.named_parameters()}


def chosen_objectives(recipe: Recipe) -> Sequence[Named]:
    """Return the objectives that a recipe names; with its key `r_drop`, that replaces one."""
    if not recipe.r_drop:
        return recipe.objectives
    r_drop = {"name": "r_drop", "alpha": recipe.r_drop}
    return [
        {**({} if isinstance(named, str) else named), **r_drop}
        if name_of(named) == "cross_entropy"
        else named
        for named in recipe.objectives
    ]


def compile_forward(forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Return the network's forward pass, to be compiled by torch.compile on first use.

    Raises:
        ConfigError: the device is a CPU, for which torch generates C++, and there is no compiler.
    """
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++")):
        raise ConfigError(
            "compile = true needs a C++ compiler",
            "neither g++ nor clang++ is on the path",
            "Install one, or train without --compile",
        )
    return torch.compile(forward, dynamic=True)
