"""The hooks of the open shelves of training, each with its exact signature and an example."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zoo.registry.hookspecs import hookspec

if TYPE_CHECKING:
    from zoo.registry.entries import Augmentation, Initialization, Objective, Optimizer, Schedule


@hookspec
def zoo_schedules() -> Iterable[Schedule]:  # type: ignore[empty-body]  # a specification
    """Return the learning rate schedules that this plugin brings, for `schedule` in a recipe.

    The class is an import path, imported when a recipe names the schedule. It is called once with
    the recipe, and returns a function of the run's progress: `step` counts the updates from 1,
    `done` is the fraction of the run that is over, `width` the model's width, `epoch` the passes
    over the data, and `not_improved` the validations since the best one. Further parameters are
    options: `schedule = {name = "waves", period = 100}`. A schedule with `state_dict` and
    `load_state_dict` is saved and resumed with the run.

    Example:
        from dataclasses import dataclass
        from math import cos, pi
        from typing import Any

        from zoo import Schedule, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_schedules():
            yield Schedule("waves", "a cosine that starts again", "zoo_waves:Waves")


        @dataclass
        class Waves:
            recipe: Any
            period: int = 100

            def __call__(self, progress):
                part = progress.step % self.period / self.period
                return self.recipe.learning_rate * (1 + cos(pi * part)) / 2
    """


@hookspec
def zoo_objectives() -> Iterable[Objective]:  # type: ignore[empty-body]  # a specification
    """Return the training objectives that this plugin brings, for `objective` in a recipe.

    A recipe names one, or a list whose weighted sum is minimized:
    `objective = ["cross_entropy", {name = "near", weight = 0.3, width = 2}]`.

    The class is called once with a `zoo.training.Setup` (recipe, configuration, tokenizers,
    registry) and with the network; further parameters are options. What it returns is called with
    each `zoo.training.TrainingBatch`, and returns the loss as a scalar: a sum over the rows, which
    the trainer divides by the number of target tokens of the update. `batch.output.logits` are the
    network's, computed once for all objectives; `batch.network` has all methods of the contract;
    `batch.sample(count)` draws targets. A `torch.nn.Module` may have weights of its own, which are
    trained too. `state_dict` and `load_state_dict`, if it has them, save its state with the run's.

    Example:
        from zoo import Objective, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_objectives():
            yield Objective("confident", "the entropy of the distributions", "zoo_near:Confident")


        class Confident:
            def __init__(self, setup, network, floor: float = 0.0):
                self.floor = floor

            def __call__(self, batch):
                logits = batch.output.logits
                if logits.dtype.itemsize == 2:  # of bf16; the laws compute in float64
                    logits = logits.float()
                log_probs = logits.log_softmax(-1)
                entropy = -(log_probs.exp() * log_probs).sum(-1)
                return (entropy - self.floor).clamp(min=0)[batch.labels != 0].sum()
    """


@hookspec
def zoo_optimizers() -> Iterable[Optimizer]:  # type: ignore[empty-body]  # a specification
    """Return the optimizers that this plugin brings, for `optimizer` in a recipe.

    The class is called with groups of parameters, each with its own `weight_decay`, and with the
    recipe; further parameters are options. It returns a `torch.optim.Optimizer`, whose learning
    rate the trainer sets before each update. What it keeps in `state` and in its groups is saved
    and resumed with the run.

    Example:
        from zoo import Optimizer, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_optimizers():
            yield Optimizer("sgd", "gradient descent with momentum", "zoo_sgd:sgd")


        def sgd(groups, recipe, momentum: float = 0.9):
            import torch

            return torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=momentum)
    """


@hookspec
def zoo_initializations() -> Iterable[Initialization]:  # type: ignore[empty-body]  # a specification
    """Return the initializations that this plugin brings, for `initialization` in a recipe.

    The function is called with the network, whose weights are drawn already, and with its parameter
    table; it changes the weights in place, without gradients. Further parameters are options.
    torch's default generator has the run's seed.

    Example:
        from zoo import Initialization, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_initializations():
            yield Initialization("normal", "normal matrices", "zoo_normal:normal")


        def normal(network, table, deviation: float = 0.02):
            for row in table:
                if len(row.shape) > 1:
                    network.get_parameter(row.path).normal_(0, deviation)
    """


@hookspec
def zoo_augmentations() -> Iterable[Augmentation]:  # type: ignore[empty-body]  # a specification
    """Return the augmentations that this plugin brings, for `augmentations` in a recipe.

    The class is a subclass of `zoo.training.Augmentation`, called once with a `zoo.training.Setup`;
    further parameters are options. It overrides `corpus`, which returns the corpus of an epoch and
    depends on the recipe's seed and the epoch alone, or `batch`, which returns what the network
    reads of a batch; labels do not change. A recipe lists them:
    `augmentations = [{name = "blanks", probability = 0.1}]`.

    Example:
        from zoo import Augmentation, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_augmentations():
            yield Augmentation("blanks", "source words are replaced", "zoo_blanks:make_blanks")


        def make_blanks(setup, probability: float = 0.1):
            import torch

            import zoo.training

            class Blanks(zoo.training.Augmentation):
                def batch(self, source, inputs):
                    drawn = torch.rand(source.shape, device=source.device) < probability
                    return source.masked_fill(drawn & (source > 3), 3), inputs

            return Blanks()
    """
